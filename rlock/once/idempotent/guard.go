package idempotent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/rlock/once"
)

// Options of a Guard. All servers should have the same options.
type Options struct {
	// Who returns the account of the client that sends the request: each account has keys of its
	// own. It is required.
	Who func(*http.Request) string
	// Keep is the time for which a response is repeated, or an unknown outcome remembered. Defaults
	// to 24 hours.
	Keep time.Duration
	// Wait is the time for which a request waits while another one with its key is being processed,
	// before it gets 409. At its end Redis is asked whether the key is still being processed:
	// without an answer the request gets 503. Defaults to 10 s, and is at least half a second.
	Wait time.Duration
	// Again runs the handler again if an earlier run did not end. By default the request gets 500.
	Again bool
	// Optional passes requests without the header on to the handler. By default they get 400.
	Optional bool
	// Methods are the methods that need a key; requests with other methods are passed on. Defaults
	// to POST and PATCH.
	Methods []string
	// Result reports whether a response with the status is the result of its request, and is kept.
	// After any other response the next request with the key runs the handler. By default all
	// responses are results except 5xx, 408, 409, 423, 425 and 429, which ask the client to come
	// again. A handler decides for one response by [NotDone].
	Result func(status int) bool
	// MostBody is the length, in bytes, of the longest body of a request, and MostResponse of the
	// longest body of a response that is kept. Both default to 1 MiB. A longer response is passed
	// on to its request while it is written, and is not held in memory.
	MostBody     int64
	MostResponse int
	// Prefix is put before the names of the locks. Defaults to "idempotency:".
	Prefix string
}

const (
	leastWait = 500 * time.Millisecond
	// askTime is the time at the end of a wait in which Redis is asked whether the key is being
	// processed; or half of the wait if it is shorter.
	askTime = time.Second
)

// A Guard makes handlers idempotent. Its methods may be called concurrently.
type Guard struct {
	o     Options
	locks *rlock.Client
	group *once.Group

	shared *driver.Client // the client behind locks
	prefix string         // the prefix of the names of locks
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that clear marks after their requests have left, until ctx ends

	mu      sync.Mutex           // guards the fields below
	running map[string]int       // the number of handlers of this process that run, by key
	warned  map[string]time.Time // the time at which warn last logged a message
}

// New returns a guard over the connections of locks. It sends no command, so it does not fail while
// Redis is away. It panics if locks or Options.Who is nil. Close the guard before the client. An
// error of Redis that waiting does not cure, such as a missing right, is logged to the client's
// Logger.
func New(locks *rlock.Client, o Options) *Guard {
	if o.Who == nil {
		panic("idempotent: Options.Who is nil: set it to a function that returns the account of a request")
	}
	if o.Keep <= 0 {
		o.Keep = 24 * time.Hour
	}
	if o.Wait == 0 {
		o.Wait = 10 * time.Second
	}
	o.Wait = max(o.Wait, leastWait)
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.Result == nil {
		o.Result = isResult
	}
	if o.MostBody <= 0 {
		o.MostBody = 1 << 20
	}
	if o.MostResponse <= 0 {
		o.MostResponse = 1 << 20
	}
	if o.Prefix == "" {
		o.Prefix = "idempotency:"
	}
	most := 2*o.MostResponse + 64<<10 // in JSON the body is in base64, beside the header
	g := &Guard{o: o, locks: locks, running: make(map[string]int), warned: make(map[string]time.Time), group: once.New(locks, once.Options{Keep: o.Keep, Finish: true, Most: most})}
	g.shared, g.prefix = driver.ClientOf(locks)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// isResult is the default of Options.Result.
func isResult(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < 500
}

// Close ends the contexts of the handlers. It returns when they have returned and their responses
// are kept, or some seconds later if Redis does not answer. Shut the server down first.
func (g *Guard) Close() {
	g.group.Close()
	defer time.AfterFunc(unmarkTime, g.cancel).Stop()
	g.wg.Wait()
}

var (
	errUnknown = errors.New("the outcome of an earlier request with this Idempotency-Key is not known")
	errNoValue = errors.New("a response that is no result")
	errLeft    = errors.New("its request has left")
	errBusy    = errors.New("a request with this Idempotency-Key is being processed")
	errAway    = errors.New("no answer from Redis")
)

// Handler returns the handler with the guard before it. One Guard may guard several handlers.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values("Idempotency-Key")
		if !slices.Contains(g.o.Methods, r.Method) || len(values) == 0 && g.o.Optional {
			next.ServeHTTP(w, r)
			return
		}
		key, ok := parseKey(values)
		if !ok {
			problem(w, http.StatusBadRequest, "Idempotency-Key is missing, or is no key of at most 255 characters")
			return
		}
		q, err := g.read(r, key)
		if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
			problem(w, http.StatusRequestEntityTooLarge, "the body is too long")
			return
		} else if err != nil {
			problem(w, http.StatusBadRequest, "the body cannot be read")
			return
		}
		g.serve(w, r, &q, next)
	})
}

// A turn is one request's part in the flight of its key.
type turn struct {
	state atomic.Int32    // the state: waits, runs, returned or left
	gone  context.Context // a context that ends when the request no longer waits

	mu       sync.Mutex       // guards the fields below
	mine     *response        // the response of the request's own handler; nil before the handler begins
	panicked *once.PanicError // the panic of the request's own handler, or nil
	over     bool             // the request has returned
}

const (
	waits    int32 = iota
	runs           // the handler of the request runs
	returned       // the handler has returned, and the response is complete
	left           // the request has left before its handler ran
)

// noteResponse notes the response of the handler that begins.
func (t *turn) noteResponse(mine *response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mine = mine
}

// notePanic notes a panic of the handler. It reports whether the request still waits, and can panic.
func (t *turn) notePanic(p *once.PanicError) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.panicked = p
	return !t.over
}

// end notes that the request is about to return. It returns what the handler has done; the handler
// writes no more to the request.
func (t *turn) end() (e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	e.mine, e.panicked, e.returned = t.mine, t.panicked, t.state.Load() == returned
	if t.mine != nil {
		e.passed = t.mine.leave()
	}
	return e
}

// serve has the request share the flight of its key, and answers it by the table of outcomes.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, q *request, next http.Handler) {
	// The request gets a kept response, also if its context is from once.Fresh.
	ctx, cancel := context.WithCancelCause(contract.WithFresh(r.Context(), false))
	defer cancel(nil)
	t := &turn{gone: ctx}
	asks := min(g.o.Wait/2, askTime)
	late := time.AfterFunc(g.o.Wait-asks, func() {
		until, stop := context.WithTimeout(ctx, asks)
		defer stop()
		why := errAway
		if g.isBusy(until, q.key) {
			why = errBusy
		}
		<-until.Done()
		if t.state.CompareAndSwap(waits, left) { // else its own handler runs, and the request waits for the handler
			cancel(why)
		}
	})
	defer late.Stop()
	outer := w.Header().Clone()
	value, shared, err := g.group.Do(ctx, q.key, func(ctx context.Context) ([]byte, error) { return g.run(ctx, t, w, outer, r, q, next) })
	e := t.end()
	e.request, e.value, e.shared, e.err, e.left = q, value, shared, err, context.Cause(ctx)
	is := e.outcome()
	if is.log != "" {
		g.warn(is.log, err)
	}
	is.answer(w, &e)
}

// The messages of warn. A response does not contain the error: only the log does.
const (
	notRun   = "idempotent: requests get 503: Redis refuses a command, and waiting does not cure it"
	notNoted = "idempotent: the next request with the key gets 500: Redis refuses to note that the handler has ended, and waiting does not cure it"
)

// warnEvery is the least time between two messages of warn with the same text.
const warnEvery = time.Minute

// warn logs an error of Redis that waiting does not cure.
func (g *Guard) warn(message string, err error) {
	if !wire.IsPermanent(err) {
		return
	}
	g.mu.Lock()
	last, warned := g.warned[message]
	again := !warned || time.Since(last) >= warnEvery
	if again {
		g.warned[message] = time.Now()
	}
	g.mu.Unlock()
	if again {
		g.shared.Config.Logger.Error(message, "error", err)
	}
}

// isBusy reports whether a request with the key is being processed: by this process, or by another
// one if Redis answers before ctx ends.
func (g *Guard) isBusy(ctx context.Context, key string) bool {
	g.mu.Lock()
	here := g.running[key] > 0
	g.mu.Unlock()
	if here {
		return true
	}
	locked, err := g.ask(ctx, isLocked, g.prefix+key)
	return err == nil && locked == 1
}

// countRunning counts a running handler of the key until ended is called.
func (g *Guard) countRunning(key string) (ended func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[key]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.running[key]--; g.running[key] == 0 {
			delete(g.running, key)
		}
	}
}

// run runs the handler under the lock.
func (g *Guard) run(ctx context.Context, t *turn, w http.ResponseWriter, outer http.Header, r *http.Request, q *request, next http.Handler) (value []byte, err error) {
	m, err := g.newMark(ctx, t, q)
	if err != nil {
		return nil, err
	}
	if !t.state.CompareAndSwap(waits, runs) {
		g.unmark(m)
		return nil, errLeft
	}
	defer g.countRunning(q.key)()
	mine := &response{w: w, most: g.o.MostResponse, outer: outer, header: outer.Clone()}
	t.noteResponse(mine)
	again := r.Clone(context.WithValue(contract.WithFresh(ctx, contract.IsFresh(r.Context())), handledKey{}, &handled{q.key, mine}))
	again.Body = io.NopCloser(bytes.NewReader(q.body))
	defer func() {
		if p := recover(); p != nil {
			panicked := &once.PanicError{Value: p, Stack: debug.Stack()}
			if t.notePanic(panicked) {
				panic(p)
			}
			logPanic(r, panicked)
			value, err = nil, errLeft
		}
	}()
	next.ServeHTTP(mine, again)
	mine.end()
	t.state.Store(returned)
	if mine.notDone.Load() || !g.o.Result(mine.status) {
		g.unmark(m) // so that the next request runs the handler
		return nil, errNoValue
	}
	return mine.encode(q.print)
}

// logPanic logs a panic of a handler whose request has returned, in the way in which net/http logs
// a panic.
func logPanic(r *http.Request, p *once.PanicError) {
	if p.Value == http.ErrAbortHandler {
		return
	}
	print := log.Printf
	if s, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && s.ErrorLog != nil {
		print = s.ErrorLog.Printf
	}
	print("http: panic serving %v, which had left: %v", r.RemoteAddr, p)
}
