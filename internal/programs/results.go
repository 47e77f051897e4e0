package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
)

// Package once.
func init() {
	lanes = append(lanes, row{"once", 8, nil, func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 10*ms, 300*ms, 3*time.Second, 9*time.Second)}
		o.add(Choice{Name: "key", S: some(g, onceKeys...)})
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 400))})
		o.add(Choice{Name: "work", S: some(g, "returns", "returns", "returns", "fails", "fails for all", "panics", "exits", "nests")})
		o.add(Choice{Name: "long", N: some(g, 0, 0, 60, 6000)})
		o.add(Choice{Name: "as", N: g.IntN(2)})
		o.add(Choice{Name: "how", S: some(g, "", "", "", "", "fresh", "forget")})
	}, (*caller).once}, row{"crowd", 4, nil, func(g *generator, o *Op) {
		for range 3 + g.IntN(10) {
			b := g.draw(lanes.find("once"), g.ms(some(g, 3, 80)))
			b.add(Choice{Name: "client", N: g.IntN(len(g.world.Clients))})
			o.Body = append(o.Body, b)
		}
	}, (*caller).crowd})
}

// crowd runs callers of several keys by several clients at once.
func (c *caller) crowd(o *Op) {
	var all sync.WaitGroup
	for _, b := range o.Body {
		one := *c
		one.slot = c.run.members[b.arg("client").N]
		all.Go(func() { one.perform(b) })
	}
	all.Wait()
}

var onceKeys = []string{"o1", "o2", "o3"}

// A result is the value of a run, with the run's number.
type result struct {
	Run int
	Pad string `json:",omitempty"`
}

// A onceRun is one run of a function.
type onceRun struct {
	key   string
	began time.Duration // when it was called
	ended time.Duration // when the function returned
	over  bool          // its hold was over by then, so that its value is void
	gone  bool          // Redis had forgotten its lock: the value is void unless the store is repeated
	fails bool          // its result is an error for all
}

func (c *caller) once(o *Op) {
	r, m := c.run, c.m
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	key, asked := o.arg("key").S, r.now()
	var forgets time.Duration // when the caller forgot the value before it asked
	var begun atomic.Int32    // how often the function has begun: it may begin after its caller has left
	switch o.arg("how").S {
	case "fresh":
		ctx = on(r.face, once.Fresh)(ctx)
	case "forget":
		forgets = r.now()
		if err := on(r.face, m.group.Forget)(ctx, key); err != nil {
			if !errors.Is(err, once.ErrClosed) {
				c.judgeQuestion("once.Group.Forget", err, ctx)
			}
			return
		}
		asked = r.now()
	}
	id := r.number()
	work := func(ctx context.Context) (result, error) {
		if n := begun.Add(1); n > 1 {
			r.problem("once: the function of %s runs %d times", o, n)
		}
		hold, began := on(r.face, once.HoldOf)(ctx), r.now()
		select {
		case <-time.After(o.arg("for").D):
		case <-ctx.Done():
			return result{}, ctx.Err()
		}
		switch o.arg("work").S {
		case "fails":
			return result{}, errWork
		case "panics":
			panic(errWork)
		case "exits":
			runtime.Goexit()
		case "nests":
			if _, _, err := m.group.Do(ctx, key, nil); !r.face.error(err, "once.ErrNested", once.ErrNested) {
				r.problem("once: a Do within the function of its key returns %v", err)
			}
		}
		fails := o.arg("work").S == "fails for all"
		r.mu.Lock()
		r.results[id] = &onceRun{key: key, began: began, ended: r.now(), over: !hold.Valid(), fails: fails}
		if gone := max(r.deleted[key], r.deleted[""]); gone > began && !r.refuses && r.refused < began && r.options.once.Most == 0 {
			r.results[id].gone = true // else only its process has the value, which is not stored
		}
		r.mu.Unlock()
		if fails {
			return result{}, on(r.face, once.ForAll)(errors.New("run " + strconv.Itoa(id)))
		}
		return result{Run: id, Pad: strings.Repeat("x", o.arg("long").N)}, nil
	}
	var v result
	var shared bool
	var err error
	if o.arg("as").N > 0 {
		v, shared, err = on(r.face, once.As[result])(ctx, m.group, on(r.face, once.JSON[result])(), key, work)
	} else {
		var bytes []byte
		bytes, shared, err = on(r.face, m.group.Do)(ctx, key, func(ctx context.Context) ([]byte, error) {
			v, err := work(ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(v)
		})
		if err == nil {
			if failed := json.Unmarshal(bytes, &v); failed != nil {
				r.problem("once: the value %q", bytes)
			}
		}
	}
	var forAll *once.Shared
	if errors.As(err, &forAll) {
		v.Run, _ = strconv.Atoi(strings.TrimPrefix(on(r.face, forAll.Error)(), "run "))
	}
	runs := int(begun.Load())
	if runs > 0 && err != nil && err.Error() == "run "+strconv.Itoa(id) {
		return // its own
	}
	if err != nil && v.Run == 0 {
		c.judgeOnce(o, err, ctx, runs)
		return
	}
	if shared == (v.Run == id) && r.sane() { // a look may find the value whose store had no answer
		r.problem("once: shared is %v for %s, whose number is %d, with the value of %d", shared, o, id, v.Run)
	}
	r.judgeValue(o, key, v.Run, id, asked, forgets, err != nil)
}

// judgeValue judges a value that a caller got: it is the value of the key, of a run that had its
// lock, and was stored after the caller asked, or is kept. Its function began after the caller's
// Forget.
func (r *Run) judgeValue(o *Op, key string, of, mine int, asked, forgets time.Duration, fails bool) {
	r.mu.Lock()
	run, w, unanswered, gone := r.results[of], r.program.World, r.unanswered[key], max(r.deleted[key], r.deleted[""])
	r.mu.Unlock()
	if w.Outside && run == nil {
		return // of another process
	}
	keep := r.options.once.Keep
	if fails {
		keep = r.options.once.KeepErrors
	}
	switch {
	case run == nil || run.key != key || run.fails != fails:
		r.problem("once: %s got the value of run %d: %+v", o, of, run)
	case run.over, run.gone && unanswered < run.ended:
		r.problem("once: %s got the value of run %d, which had lost its lock", o, of)
	case of != mine && o.arg("how").S == "fresh" && r.ground.Virtual && run.began < asked:
		r.problem("once: %s asked at %v for a fresh value, and got that of run %d, which began at %v", o, asked, of, run.began)
	case of != mine && o.arg("how").S == "forget":
		if run.began < forgets && !r.flushed.Load() && gone < run.began && r.ground.Virtual {
			r.problem("once: %s forgot the value at %v, asked at %v, and got that of run %d, which began at %v", o, forgets, asked, of, run.began)
		}
	case of != mine && (w.Calm || !w.Delays) && r.ground.Virtual && run.ended+keep+50*ms < asked:
		r.problem("once: %s asked at %v and got the value of run %d, which ended at %v, with Keep %v", o, asked, of, run.ended, keep)
	}
}

// judgeOnce judges the error of a caller.
func (c *caller) judgeOnce(o *Op, err error, ctx context.Context, runs int) {
	r := c.run
	var panicked *once.PanicError
	work := o.arg("work").S
	switch {
	case r.face.error(err, "once.ErrClosed", once.ErrClosed):
		if !c.m.closes.Load() {
			r.problem("once: %s returns %v of a group that is open", o, err)
		}
	case errors.As(err, &panicked):
		if runs == 0 || work != "panics" && work != "exits" || on(r.face, panicked.Error)() == "" {
			r.problem("once: %s returns %v", o, err)
		}
	case errors.Is(err, errWork):
		if runs == 0 || work != "fails" {
			r.problem("once: %s returns another's error: %v", o, err)
		}
	case r.face.error(err, "once.ErrVoid", once.ErrVoid):
		if r.program.World.Calm || runs == 0 {
			r.problem("once: %s returns %v, and ran %d times", o, err, runs)
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if ctx.Err() == nil && runs == 0 && !c.m.closes.Load() {
			r.problem("once: %s returns %v before its context ends", o, err)
		}
	case errors.Is(err, rlock.ErrClosed) && c.m.closes.Load():
	case errors.Is(err, rlock.ErrNoPermission) && r.barred.Load():
	case c.m.setting.replicated() && errors.Is(err, rlock.ErrNotReplicated):
	default:
		if r.program.World.Calm || !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrUnconfirmed) {
			r.problem("once: %s returns %v", o, err)
		}
	}
}

// Package idempotent.
func init() {
	lanes = append(lanes, row{"post", 5, nil, func(g *generator, o *Op) {
		o.add(Choice{Name: "key", S: some(g, `"a"`, `"b"`, `"c"`, "", "no string")})
		o.add(Choice{Name: "body", S: some(g, "one", "one", "one", "two", "longer")})
		o.add(Choice{Name: "method", S: some(g, "POST", "POST", "POST", "PATCH")})
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 800))})
		o.add(Choice{Name: "answer", S: some(g, "created", "created", "created", "created", "fails", "panics", "not done")})
	}, (*caller).post}, row{"settle", 1, nil, func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 10*ms, 3*time.Second)}
		o.add(Choice{Name: "key", S: some(g, `POST"a"`, `POST"b"`)})
		o.add(Choice{Name: "by", S: some(g, "Settle", "Forget")})
	}, (*caller).settle})
}

// posts has the requests, by their keys.
type posts struct {
	responses map[string]string // the first response to each
	keys      map[string]string // the keys as the guard knows them
	settled   map[string]bool   // an operator has changed the outcome
}

// settle tells a guard the outcome of a request.
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
		err = on(r.face, c.m.guard.Forget)(ctx, key)
	} else {
		err = on(r.face, c.m.guard.Settle)(ctx, key, idempotent.Response{Status: http.StatusCreated, Body: []byte("settled")})
	}
	settled := r.face.error(err, "idempotent.ErrSettled", idempotent.ErrSettled)
	if !settled && !errors.Is(err, once.ErrClosed) && !errors.Is(err, idempotent.ErrInvalidResponse) {
		c.judgeQuestion(verb, err, ctx)
	}
}

func (c *caller) post(o *Op) {
	r, key, method := c.run, o.arg("key").S, o.arg("method").S
	settings := r.options.idempotent
	guarded := settings.Methods == nil || method == "POST"
	id := r.number()
	var runs atomic.Int32
	var ended atomic.Bool // the handler may end after the request
	handler := func(w http.ResponseWriter, q *http.Request) {
		if n := runs.Add(1); n > 1 {
			r.problem("idempotent: the handler of one request runs %d times", n)
		}
		known := on(r.face, idempotent.Key)(q.Context())
		if (known == "") != (key == "" || !guarded) {
			r.problem("idempotent: the key of %s is %q", o, known)
		}
		r.mu.Lock()
		r.posts.keys[method+key] = known
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
		case "not done":
			on(r.face, idempotent.NotDone)(q.Context())
			w.WriteHeader(http.StatusAccepted)
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
	if !apart(func() { on(r.face, c.m.guard.Handler)(http.HandlerFunc(handler)).ServeHTTP(w, q) }) {
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
	case http.StatusAccepted:
		if runs.Load() == 0 {
			r.problem("idempotent: %s gets the response of a handler that has done nothing", o)
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
	excused := r.flushed.Load() || unkept || r.posts.settled[key]
	r.mu.Unlock()
	if seen && first != body && !excused {
		r.problem("idempotent: %s gets %q, and another request of the key got %q", o, body, first)
	}
}

// Package elect.
func init() {
	lanes = append(lanes, row{"elect", 4, nil, func(g *generator, o *Op) {
		o.Ctx = Choice{Name: "timeout", D: some(g, 100*ms, time.Second, 5*time.Second)}
		o.add(Choice{Name: "for", D: g.ms(some(g, 20, 1500))})
		o.add(Choice{Name: "work", S: some(g, "returns", "waits", "waits", "fails", "overruns")})
		o.add(Choice{Name: "how", N: g.IntN(5)})
	}, (*caller).elect})
}

// leaders is the lock of the election.
const leaders = "e"

func (c *caller) elect(o *Op) {
	r, m := c.run, c.m
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	switch o.arg("how").N {
	case 0:
		if _, err := m.candidate.Leader(ctx); !r.face.error(err, "elect.ErrNoLeader", elect.ErrNoLeader) {
			c.question("elect.Candidate.Leader", err, ctx)
		}
		return
	case 1:
		err := m.candidate.Observe(ctx, func(leader string) {
			if leader == "" {
				r.problem("elect: Observe tells of a leader without a text")
			}
		})
		c.question("elect.Candidate.Observe", err, ctx)
		return
	case 2:
		err := on(r.face, m.candidate.Do)(ctx, func(ctx context.Context) error {
			if t := m.candidate.Term(); t == nil && ctx.Err() == nil {
				time.Sleep(ms) // it may have ended at this moment
				if ctx.Err() == nil {
					r.problem("elect: work is done without a term")
				}
			}
			return nil
		})
		if err != nil && !r.face.error(err, "elect.ErrNotLeader", elect.ErrNotLeader) {
			r.problem("elect: Do returns %v", err)
		}
		return
	}
	failure := errors.New("the leader fails")
	terms := 0
	err := on(r.face, m.candidate.Run)(ctx, func(ctx context.Context, term *rlock.Hold) error {
		terms++
		op := history.Op{
			Method: "elect.Candidate.Run", Names: []string{leaders}, Owner: fmt.Sprintf("%s#%d.%d", m.name, o.ID, terms),
			Lease: r.program.World.Lease, Kept: true,
		}
		token, _ := term.Token()
		leads := m.recorder.Begin(op)
		leads.End(history.Result{Outcome: history.Acquired, Token: token, Until: history.At(term.ValidUntil())})
		defer func() {
			leads.Gives(history.Now())
			leads.Gave(history.Result{Outcome: history.Unconfirmed}) // Run releases the lock once this function has returned
		}()
		look := func() {
			leads.Look(func() history.Belief {
				until := term.ValidUntil()
				return history.Belief{Held: !until.IsZero(), Until: history.At(until)}
			})
			if term.Valid() {
				if on(r.face, m.candidate.Term)() == nil && ctx.Err() == nil {
					r.problem("elect: there is no term while its hold is valid")
				}
			}
		}
		look()
		wait := time.After(o.arg("for").D)
		select {
		case <-wait:
		case <-ctx.Done():
		}
		look()
		switch o.arg("work").S {
		case "fails":
			return failure
		case "waits":
			<-ctx.Done()
			look()
			return ctx.Err()
		case "overruns":
			<-ctx.Done()
			time.Sleep(r.program.World.Lease)
			look()
			return ctx.Err()
		}
		return nil
	})
	switch {
	case r.face.error(err, "elect.ErrRunning", elect.ErrRunning):
	case errors.Is(err, failure):
		if o.arg("work").S != "fails" {
			r.problem("elect: Run returns the error of another one's work")
		}
	default:
		c.judgeQuestion("elect.Candidate.Run", err, ctx)
	}
	if err == nil && ctx.Err() == nil && (terms == 0 || o.arg("work").S != "returns") {
		r.problem("elect: Run of %s returns without an error after %d terms, before its context ends", o, terms)
	}
}
