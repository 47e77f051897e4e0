package idempotent

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/go-rlock/rlock/rlock/once"
)

// An ending is what a request knows when its part in the flight of its key is over.
type ending struct {
	request *request
	value   []byte // the kept response; set if err is nil
	shared  bool   // value is the response of another request's handler
	err     error  // the error of the flight
	left    error  // the reason why the request stopped waiting; nil if it did not

	mine     *response        // the response of the request's own handler; nil if the handler has not begun
	panicked *once.PanicError // the panic of the request's own handler, or nil
	returned bool             // the request's own handler has returned, and mine is complete
	passed   bool             // a part of mine was passed on to the request
}

// An outcome is a row of the table of all that a request may get.
type outcome struct {
	name   string
	when   func(*ending) bool                 // whether a request with this ending has this outcome
	answer func(http.ResponseWriter, *ending) // answers the request
	log    string                             // the message about an error that waiting does not cure; "" for none
}

// outcomes has a row for each outcome. The first row counts whose condition is true. The comment of
// a row says what Redis keeps, which decides what later requests with the key get.
var outcomes = [...]outcome{
	{ // Redis keeps the mark of a run that did not end. Later requests get 500.
		name:   "the handler has panicked",
		when:   func(e *ending) bool { return e.panicked != nil && e.panicked.Value != http.ErrAbortHandler },
		answer: func(_ http.ResponseWriter, e *ending) { panic(e.panicked) },
	},
	{ // Redis keeps the mark of this run. Later requests get 500.
		name: "the handler has aborted its response, or called runtime.Goexit",
		when: func(e *ending) bool {
			exited := (*once.PanicError)(nil)
			return e.panicked != nil || errors.As(e.err, &exited)
		},
		answer: func(http.ResponseWriter, *ending) { panic(http.ErrAbortHandler) }, // the value by which net/http knows that the handler has given up
	},
	{ // Redis keeps that the response was too long. Later requests get 500.
		name:   "the response was passed on",
		when:   func(e *ending) bool { return e.passed },
		answer: func(http.ResponseWriter, *ending) {}, // the handler has written to the request
	},
	{ // Redis keeps the mark of an earlier run, or of this one if its lock was lost. Later requests get 500.
		name:   "an earlier run did not end, or the lock was lost",
		when:   func(e *ending) bool { return errors.Is(e.err, errUnknown) || errors.Is(e.err, once.ErrVoid) },
		answer: func(w http.ResponseWriter, e *ending) { unknown(w, e.request.key) },
	},
	{ // Redis keeps the response if it is a result, else nothing. If Redis refuses to store it, later requests get 500.
		name: "the handler has returned",
		when: func(e *ending) bool {
			if e.err != nil {
				return e.returned
			}
			return e.mine != nil && !e.shared // else the lock was lost, and the response of a successor is kept
		},
		answer: func(w http.ResponseWriter, e *ending) { e.mine.start(w) },
		log:    notNoted,
	},
	{ // Redis keeps the outcome of the other request's handler.
		name:   "another request is being processed",
		when:   func(e *ending) bool { return e.err != nil && errors.Is(e.left, errBusy) },
		answer: func(w http.ResponseWriter, _ *ending) { comeAgain(w, http.StatusConflict, errBusy.Error()) },
	},
	{ // Redis keeps nothing of this request: its handler has not begun, or has not returned.
		name: "Redis is away, or the guard is closed",
		when: func(e *ending) bool { return e.err != nil },
		answer: func(w http.ResponseWriter, _ *ending) {
			comeAgain(w, http.StatusServiceUnavailable, "repeat the request with the same Idempotency-Key")
		},
		log: notRun,
	},
	{ // Redis keeps the response.
		name:   "a response is kept",
		when:   func(*ending) bool { return true },
		answer: func(w http.ResponseWriter, e *ending) { replay(w, e.value, e.request) },
	},
}

// outcome returns the row that counts for the ending.
func (e *ending) outcome() *outcome {
	for i := range outcomes {
		if outcomes[i].when(e) {
			return &outcomes[i]
		}
	}
	panic("unreachable: the last row is true of each ending")
}

// comeAgain writes an error after which the client is to repeat the request.
func comeAgain(w http.ResponseWriter, status int, title string) {
	w.Header().Set("Retry-After", "1")
	problem(w, status, title)
}

// replay writes a kept response.
func replay(w http.ResponseWriter, value []byte, q *request) {
	var kept record
	switch err := json.Unmarshal(value, &kept); {
	case err != nil:
		problem(w, http.StatusInternalServerError, "the kept response cannot be read")
	case kept.Print != q.print && kept.Print != "": // Print is "" for a response of Settle
		problem(w, http.StatusUnprocessableEntity, "this Idempotency-Key was used with another request")
	case kept.Long:
		problem(w, http.StatusInternalServerError, "the request was processed, and its response was too long to be kept")
	default:
		kept.write(w)
	}
}
