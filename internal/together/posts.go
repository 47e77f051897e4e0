package together

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

// Package idempotent.
func init() {
	lanes = append(lanes, row{"post", 5, nil, func(g *generator, o *Op) {
		o.add(Choice{Name: "key", S: some(g, `"a"`, `"b"`, `"c"`, "", "no string")})
		o.add(Choice{Name: "body", S: some(g, "one", "one", "one", "two", "longer")})
		o.add(Choice{Name: "method", S: some(g, "POST", "POST", "POST", "PATCH")})
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 800))})
		o.add(Choice{Name: "answer", S: some(g, "created", "created", "created", "created", "fails", "panics")})
	}, (*caller).post}, row{"settle", 1, nil, func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 10*ms, 3*time.Second)}
		o.add(Choice{Name: "key", S: some(g, `POST"a"`, `POST"b"`)})
		o.add(Choice{Name: "by", S: some(g, "Settle", "Forget")})
	}, (*caller).settle})
}

// posts are the requests, by their keys.
type posts struct {
	responses map[string]string // the first that each got
	keys      map[string]string // as the guard knows them
	settled   map[string]bool   // an operator has changed the outcome
}

func newPosts() posts {
	return posts{responses: make(map[string]string), keys: make(map[string]string), settled: make(map[string]bool)}
}

// settle tells a guard what became of a request.
func (c *caller) settle(o *Op) {
	r, name := c.run, o.arg("key").S
	r.mu.Lock()
	key := r.posts.keys[name]
	r.posts.settled[name] = r.posts.settled[name] || key != ""
	r.mu.Unlock()
	if key == "" {
		return // no request has come yet
	}
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	verb := "idempotent.Guard." + o.arg("by").S
	var err error
	if o.arg("by").S == "Forget" {
		err = c.m.guard.Forget(ctx, key)
	} else {
		err = c.m.guard.Settle(ctx, key, idempotent.Response{Status: http.StatusCreated, Body: []byte("settled")})
		r.face.error(err, "idempotent.ErrSettled", idempotent.ErrSettled)
	}
	r.face.call(verb)
	if !errors.Is(err, idempotent.ErrSettled) && !errors.Is(err, once.ErrClosed) && !errors.Is(err, idempotent.ErrInvalidResponse) {
		c.judgeQuestion(verb, err, ctx)
	}
}

func (m *member) joinIdempotent() {
	var c groupConfig
	apply(groupSettings, &c, m.run.program.World.Options)
	c.idempotent.Who = func(*http.Request) string { return "account" }
	m.run.face.fields("idempotent.Options", c.idempotent)
	m.run.face.call("idempotent.New")
	m.guard = idempotent.New(m.main(), c.idempotent)
}

func (c *caller) post(o *Op) {
	r, key, method := c.run, o.arg("key").S, o.arg("method").S
	var options groupConfig
	apply(groupSettings, &options, r.program.World.Options)
	settings := options.idempotent
	guarded := settings.Methods == nil || method == "POST"
	id := r.number()
	var runs atomic.Int32
	var ended atomic.Bool // the handler may end after the request
	handler := func(w http.ResponseWriter, q *http.Request) {
		if n := runs.Add(1); n > 1 {
			r.problem("idempotent: the handler of one request runs %d times", n)
		}
		r.face.call("idempotent.Key")
		if (idempotent.Key(q.Context()) == "") != (key == "" || !guarded) {
			r.problem("idempotent: the key of %s is %q", o, idempotent.Key(q.Context()))
		}
		r.mu.Lock()
		r.posts.keys[method+key] = idempotent.Key(q.Context())
		r.mu.Unlock()
		select {
		case <-time.After(o.arg("for").D):
		case <-q.Context().Done():
		}
		ended.Store(true)
		switch o.arg("answer").S {
		case "fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "panics":
			panic(errWork)
		default:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "run %d", id)
		}
	}
	q := httptest.NewRequest(method, "/payments", strings.NewReader(o.arg("body").S)).WithContext(r.ctx)
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	r.face.call("idempotent.Guard.Handler")
	if !apart(func() { c.m.guard.Handler(http.HandlerFunc(handler)).ServeHTTP(w, q) }) {
		if o.arg("answer").S != "panics" || runs.Load() == 0 {
			r.problem("idempotent: %s panics", o)
		}
		return
	}
	r.face.call(fmt.Sprintf("status %d", w.Code))
	body := w.Body.String()
	switch w.Code {
	case http.StatusCreated:
		if guarded && key != "" {
			r.answered(method+key, o, body, settings.MostResponse > 0 || settings.Again && !r.sane())
		}
	case http.StatusBadRequest:
		if key == `"a"` || key == `"b"` || key == `"c"` || key == "" && settings.Optional || !guarded {
			r.problem("idempotent: %s gets 400", o)
		}
	case http.StatusRequestEntityTooLarge:
		if settings.MostBody == 0 {
			r.problem("idempotent: %s gets 413", o)
		}
	case http.StatusConflict, http.StatusUnprocessableEntity:
	case http.StatusInternalServerError:
	case http.StatusServiceUnavailable:
		if r.program.World.Calm && !c.m.closes.Load() && !c.m.setting.replicated() {
			r.problem("idempotent: %s gets 503 %s", o, body)
		}
		if ended.Load() && !c.m.closes.Load() { // Close may come before it has returned
			r.problem("idempotent: %s gets 503, and its handler has ended", o)
		}
	default:
		r.problem("idempotent: %s gets %d %s", o, w.Code, body)
	}
}

// answered judges the response of a key: each request has the same one.
func (r *Run) answered(key string, o *Op, body string, unkept bool) {
	r.mu.Lock()
	first, seen := r.posts.responses[key]
	if !seen {
		r.posts.responses[key] = body
	}
	excused := r.flushed || unkept || r.posts.settled[key]
	r.mu.Unlock()
	if seen && first != body && !excused {
		r.problem("idempotent: %s gets %q, and another request of the key got %q", o, body, first)
	}
}
