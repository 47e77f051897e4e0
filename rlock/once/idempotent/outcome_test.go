package idempotent_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// Each row of the table of outcomes: what the request gets, what is logged, and what a later
// request with the key gets at another server, whose handler answers 201.
func TestOutcomes(t *testing.T) {
	const refused = "NOPERM this user has no permissions to run the 'hset' command"
	long := bytes.Repeat([]byte("x"), 200) // of at most 100 that are kept
	type setup struct {
		redis *rlocktest.Server
		a, b  *server
	}
	panics := func(http.ResponseWriter, *http.Request, setup) { panic("a reason") }
	loses := func(_ http.ResponseWriter, r *http.Request, s setup) { // its lock
		for _, name := range s.redis.Miniredis().Keys() {
			if !strings.Contains(name, ":began") {
				s.redis.Miniredis().Del(name)
			}
		}
		<-r.Context().Done()
	}
	lasts := func(w http.ResponseWriter, _ *http.Request, _ setup) {
		time.Sleep(3 * time.Second)
		w.WriteHeader(http.StatusAccepted)
	}
	tested := make(map[string]bool)
	for _, x := range []struct {
		outcome string
		before  func(setup) // what happens before the request
		handler func(http.ResponseWriter, *http.Request, setup)
		panics  bool
		status  int
		text    string // in the response, or in the panic
		length  int    // of the response; 0 for any
		log     string // in the log; "" for no message
		later   int
	}{{
		outcome: "the handler has panicked",
		handler: panics, panics: true, text: "a reason", later: 500,
	}, {
		outcome: "the handler has aborted its response, or called runtime.Goexit",
		handler: func(http.ResponseWriter, *http.Request, setup) { panic(http.ErrAbortHandler) },
		panics:  true, text: http.ErrAbortHandler.Error(), later: 500,
	}, {
		outcome: "the handler has aborted its response, or called runtime.Goexit",
		handler: func(http.ResponseWriter, *http.Request, setup) { runtime.Goexit() },
		panics:  true, text: http.ErrAbortHandler.Error(), later: 500,
	}, {
		outcome: "the response was passed on",
		handler: func(w http.ResponseWriter, _ *http.Request, _ setup) { _, _ = w.Write(long) },
		status:  200, text: string(long), length: len(long), later: 500,
	}, {
		outcome: "the response was passed on", // and then the lock is lost
		handler: func(w http.ResponseWriter, r *http.Request, s setup) {
			_, _ = w.Write(long)
			loses(w, r, s)
		},
		status: 200, text: string(long), length: len(long), later: 500,
	}, {
		outcome: "an earlier run did not end, or the lock was lost",
		before:  func(s setup) { assert.Panics(t, func() { s.a.post(key, "7") }) },
		handler: panics, status: 500, text: "is not known", later: 500,
	}, {
		outcome: "an earlier run did not end, or the lock was lost",
		handler: loses, status: 500, text: "is not known", later: 500,
	}, {
		outcome: "the handler has returned", // with a result
		handler: func(w http.ResponseWriter, _ *http.Request, _ setup) { w.WriteHeader(http.StatusAccepted) },
		status:  202, later: 202,
	}, {
		outcome: "the handler has returned", // without one
		handler: func(w http.ResponseWriter, _ *http.Request, _ setup) { w.WriteHeader(http.StatusLocked) },
		status:  423, later: 201,
	}, {
		outcome: "the handler has returned", // without one, and Redis refuses to take the mark back
		before: func(s setup) {
			s.redis.Refuse("NOPERM this user has no permissions to run the 'del' command", "del")
		},
		handler: func(w http.ResponseWriter, _ *http.Request, _ setup) { w.WriteHeader(http.StatusLocked) },
		status:  423, log: "'del'", later: 500,
	}, {
		outcome: "the handler has returned", // and Redis refuses to store
		handler: func(w http.ResponseWriter, _ *http.Request, s setup) {
			w.WriteHeader(http.StatusAccepted)
			s.redis.Refuse(refused, "hset")
		},
		status: 202, log: "gets 500", later: 500,
	}, {
		outcome: "another request is being processed",
		before: func(s setup) {
			go s.a.post(key, "7")
			synctest.Wait()
		},
		handler: lasts, status: 409, text: "is being processed", later: 202,
	}, {
		outcome: "Redis is away, or the guard is closed",
		before:  func(s setup) { s.redis.Refuse(refused, "evalsha", "eval") },
		handler: lasts, status: 503, text: "repeat the request", log: "get 503", later: 201,
	}, {
		outcome: "Redis is away, or the guard is closed", // it refuses the lock for a moment
		before:  func(s setup) { s.redis.Refuse("LOADING Redis is loading the dataset in memory", "hset") },
		handler: lasts, status: 503, text: "repeat the request", later: 201,
	}, {
		outcome: "Redis is away, or the guard is closed", // it refuses the mark for good
		before:  func(s setup) { s.redis.Refuse("NOPERM this user has no permissions to run the 'set' command", "set") },
		handler: lasts, status: 503, text: "repeat the request", log: "get 503", later: 201,
	}, {
		outcome: "the handler has returned", // and Redis refused the mark for a moment
		before: func(s setup) {
			s.redis.Refuse("LOADING Redis is loading the dataset in memory", "set")
			time.AfterFunc(time.Second/4, func() { s.redis.Heal() })
		},
		handler: lasts, status: 202, later: 202,
	}, {
		outcome: "Redis is away, or the guard is closed",
		before:  func(s setup) { s.a.Close() },
		handler: lasts, status: 503, text: "repeat the request", later: 201,
	}, {
		outcome: "a response is kept",
		before:  func(s setup) { s.a.post(key, "7") },
		handler: lasts, status: 202, later: 202,
	}, {
		outcome: "a response is kept", // by something else
		before: func(s setup) {
			s.a.post(key, "7")
			for _, name := range s.redis.Miniredis().Keys() {
				if strings.HasSuffix(name, ":once") {
					s.redis.Miniredis().HSet(name, "v", "no record")
				}
			}
		},
		handler: lasts, status: 500, text: "cannot be read", later: 500,
	}} {
		t.Run(x.outcome, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				s := setup{redis: rlocktest.NewServer(t)}
				of := func(handler http.HandlerFunc) *server {
					client := s.redis.Client(func(c *rlock.Config) {
						c.Lease, c.Logger = 4*time.Second, slog.New(slog.NewTextHandler(&log, nil))
					})
					return over(t, client, idempotent.Options{Wait: time.Second, MostResponse: 100}, handler)
				}
				s.a = of(func(w http.ResponseWriter, r *http.Request) { x.handler(w, r, s) })
				s.b = of(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
				if x.before != nil {
					x.before(s)
				}
				func() {
					defer func() {
						value := recover()
						assert.Equal(t, x.panics, value != nil, value)
						if err, is := value.(error); is {
							assert.Contains(t, err.Error(), x.text)
						}
					}()
					w := s.a.post(key, "7")
					assert.Equal(t, x.status, w.Code)
					assert.Contains(t, w.Body.String(), x.text)
					if x.length > 0 {
						assert.Equal(t, x.length, w.Body.Len())
					}
				}()
				synctest.Wait()
				if x.log == "" {
					assert.NotContains(t, log.String(), "idempotent")
				} else {
					assert.Contains(t, log.String(), x.log)
				}
				s.redis.Heal()
				time.Sleep(10 * time.Second) // until a handler that runs has returned, and a lease has ended
				assert.Empty(t, inspect.Of(s.a.client).Held())
				assert.Equal(t, x.later, s.b.post(key, "7").Code, "a later request")
			})
		})
		tested[x.outcome] = true
	}
	for _, outcome := range idempotent.Outcomes() {
		assert.True(t, tested[outcome], outcome)
	}
}
