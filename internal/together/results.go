package together

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/once"
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

// crowd is callers of several keys by several clients at once.
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

// A result is the value of a run. It says which run it is of.
type result struct {
	Run int
	Pad string `json:",omitempty"`
}

// A onceRun is one run of a function.
type onceRun struct {
	key   string
	began time.Duration // when it was called
	ended time.Duration // when the function returned
	over  bool          // Redis had no lock of its any more by then, so that its value is void
	fails bool          // its result is an error for all
}

// results are the runs of all functions, by number.
type results map[int]*onceRun

func newResults() results { return make(results) }

func (m *member) joinOnce() {
	var c groupConfig
	apply(groupSettings, &c, m.run.program.World.Options)
	c.once.Done = func(_ context.Context, e once.Event) { m.run.face.call("once.Source " + string(e.Source)) }
	m.run.face.fields("once.Options", c.once)
	m.run.face.call("once.New")
	m.group = once.New(m.main(), c.once)
}

func (c *caller) once(o *Op) {
	r, m := c.run, c.m
	ctx, cancel := context.WithTimeout(r.ctx, o.Ctx.D)
	defer cancel()
	key, asked := o.arg("key").S, r.now()
	var begun atomic.Int32 // how often the function has begun: it may do so after its caller has left
	switch o.arg("how").S {
	case "fresh":
		r.face.call("once.Fresh")
		ctx = once.Fresh(ctx)
	case "forget":
		r.face.call("once.Group.Forget")
		if err := m.group.Forget(ctx, key); err != nil {
			if !errors.Is(err, once.ErrClosed) {
				c.judgeQuestion("once.Group.Forget", err, ctx)
			}
			return
		}
		asked = r.now() // a value that was kept is no more
	}
	id := r.number()
	work := func(ctx context.Context) (result, error) {
		if n := begun.Add(1); n > 1 {
			r.problem("once: the function of %s runs %d times", o, n)
		}
		r.face.call("once.HoldOf")
		hold, began := once.HoldOf(ctx), r.now()
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
			r.face.call("once.ErrNested")
			if _, _, err := m.group.Do(ctx, key, nil); !errors.Is(err, once.ErrNested) {
				r.problem("once: a Do within the function of its key returns %v", err)
			}
		}
		fails := o.arg("work").S == "fails for all"
		r.mu.Lock()
		r.results[id] = &onceRun{key: key, began: began, ended: r.now(), over: !hold.Valid(), fails: fails}
		if gone := max(r.deleted[key], r.deleted[""]); gone > began && !r.refuses && r.refused < began && find(r.program.World.Options, "once.Most").N == 0 {
			r.results[id].over = true // else its process alone may have the value, which is not stored
		}
		r.mu.Unlock()
		if fails {
			r.face.call("once.ForAll")
			return result{}, once.ForAll(errors.New("run " + strconv.Itoa(id)))
		}
		return result{Run: id, Pad: strings.Repeat("x", o.arg("long").N)}, nil
	}
	var v result
	var shared bool
	var err error
	if o.arg("as").N > 0 {
		r.face.call("once.As")
		r.face.call("once.JSON")
		v, shared, err = once.As(ctx, m.group, once.JSON[result](), key, work)
	} else {
		r.face.call("once.Group.Do")
		var bytes []byte
		bytes, shared, err = m.group.Do(ctx, key, func(ctx context.Context) ([]byte, error) {
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
		r.face.call("once.Shared.Error")
		v.Run, _ = strconv.Atoi(strings.TrimPrefix(forAll.Error(), "run "))
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
	r.judgeValue(o, key, v.Run, id, asked, err != nil)
}

// judgeValue judges a value that a caller got: it is of a run that had its lock, of the key, and was stored after the caller
// asked, or is kept.
func (r *Run) judgeValue(o *Op, key string, of, mine int, asked time.Duration, fails bool) {
	r.mu.Lock()
	run, w := r.results[of], r.program.World
	r.mu.Unlock()
	if w.Outside && run == nil {
		return // of another process
	}
	var c groupConfig
	apply(groupSettings, &c, w.Options)
	keep := c.once.Keep
	if fails {
		keep = c.once.KeepErrors
	}
	switch {
	case run == nil || run.key != key || run.fails != fails:
		r.problem("once: %s got the value of run %d: %+v", o, of, run)
	case run.over:
		r.problem("once: %s got the value of run %d, which had lost its lock", o, of)
	case of != mine && o.arg("how").S == "fresh" && r.ground.Virtual && run.began < asked:
		r.problem("once: %s asked at %v for a fresh value, and got that of run %d, which began at %v", o, asked, of, run.began)
	case of != mine && o.arg("how").S == "forget":
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
	case errors.Is(err, once.ErrClosed):
		r.face.call("once.ErrClosed")
		if !c.m.closes.Load() {
			r.problem("once: %s returns %v of a group that is open", o, err)
		}
	case errors.As(err, &panicked):
		r.face.call("once.PanicError.Error")
		if runs == 0 || work != "panics" && work != "exits" || panicked.Error() == "" {
			r.problem("once: %s returns %v", o, err)
		}
	case errors.Is(err, errWork):
		if runs == 0 || work != "fails" {
			r.problem("once: %s returns another's error: %v", o, err)
		}
	case errors.Is(err, once.ErrVoid):
		r.face.call("once.ErrVoid")
		if r.program.World.Calm || runs == 0 {
			r.problem("once: %s returns %v, and ran %d times", o, err, runs)
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		if ctx.Err() == nil && runs == 0 && !c.m.closes.Load() {
			r.problem("once: %s returns %v before its context ends", o, err)
		}
	case errors.Is(err, rlock.ErrClosed) && c.m.closes.Load():
	case errors.Is(err, rlock.ErrNoPermission) && r.wasBarred():
	case c.m.setting.replicated() && errors.Is(err, rlock.ErrNotReplicated):
	default:
		if r.program.World.Calm || !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrUnconfirmed) {
			r.problem("once: %s returns %v", o, err)
		}
	}
}
