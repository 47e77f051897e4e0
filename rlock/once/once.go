package once

import (
	"container/list"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// Options are the options of a Group. For a key, all processes should have the same options.
type Options struct {
	// Keep is the time for which a value is given to callers that ask after it was stored. Defaults
	// to 0: no such caller gets it.
	Keep time.Duration
	// KeepErrors is Keep for errors that are marked with ForAll.
	KeepErrors time.Duration
	// Inline is the length, in bytes, of the longest value that is sent in the message to waiting
	// processes. Each of them reads a longer value from Redis. Defaults to 4096. If it is negative,
	// each process reads every value.
	Inline int
	// Most is the length, in bytes, of the longest value that is stored. Only the callers of this
	// process get a longer value; other processes run their own function. Defaults to 1 MiB.
	Most int
	// Finish lets a function end, and its value be stored, although no caller waits for the value
	// any more.
	Finish bool
	// Tokens gives each hold a fencing token: the lock is from NewFencedLock, and its counter stays
	// in Redis for each key.
	Tokens bool
	// Done is called when a call of Do is about to return, in its goroutine. It may be nil, and
	// must not panic.
	Done func(ctx context.Context, e Event)
}

// An Event is the end of a call of Do, for metrics.
type Event struct {
	Key    string
	Source Source
	Took   time.Duration
	Err    error
}

// A Source is the origin of a result: a word in lower case, fit for a label of a metric.
type Source string

// The sources.
const (
	Ran     Source = "ran"     // the caller's own function
	Process Source = "process" // the function of another caller of this process
	Message Source = "message" // another process, by the message of its release
	Looked  Source = "looked"  // another process, or a kept value, by a look
	Failed  Source = "failed"  // no source: the call returns an error
)

// grace is the least time for which a value stays in Redis, for flights that lost its message. A
// waiting flight looks every two seconds.
const grace = 10 * time.Second

// A Group is one process's part in the runs of all keys. Its methods may be called concurrently.
type Group struct {
	locks  *rlock.Client
	shared *driver.Client // the client behind locks
	prefix string         // the prefix of the names of locks
	o      Options
	id     string          // the beginning of the ids of the group's runs
	runs   atomic.Uint64   // the number of runs
	ctx    context.Context // a context that ends with Close
	cancel context.CancelFunc
	stores context.Context // a context that ends lastStore after ctx, at the latest
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	flights map[string]*flight
}

// New returns a group over the connections of locks, with any [rlock.Config]. It sends no command,
// so that it does not fail while Redis is away, and panics if locks is nil. Close it before the
// client.
func New(locks *rlock.Client, o Options) *Group {
	if o.Inline == 0 {
		o.Inline = 4096
	}
	if o.Most <= 0 {
		o.Most = 1 << 20
	}
	shared, prefix := driver.ClientOf(locks)
	g := &Group{locks: locks, shared: shared, prefix: prefix, o: o, id: rand.Text()[:12], flights: make(map[string]*flight)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.stores, g.end = context.WithCancel(context.Background())
	return g
}

// lastStore is the time for which Close waits for Redis to store the values of functions that have
// returned.
const lastStore = 3 * time.Second

// Close ends all calls with ErrClosed, ends the contexts of their functions, and waits for the
// functions to return. Values of functions that return no error are stored for other processes. If
// Redis does not answer, this takes up to three seconds more.
func (g *Group) Close() {
	g.mu.Lock()
	g.cancel()
	flights := slices.Collect(maps.Values(g.flights))
	g.mu.Unlock()
	for _, f := range flights {
		f.failAll(ErrClosed)
	}
	defer time.AfterFunc(lastStore, g.end).Stop()
	g.wg.Wait()
}

// keeps reports whether callers may get a value that was stored before they asked.
func (g *Group) keeps() bool { return g.o.Keep > 0 || g.o.KeepErrors > 0 }

// A caller is one call of Do. The flight's mutex guards place, before, looks, floor and ran, and
// guards result until done is closed.
type caller struct {
	ctx   context.Context
	fn    func(context.Context) ([]byte, error)
	asked time.Time
	place *list.Element // the element in the flight's callers; nil once the caller does not wait any more
	floor int64         // an upper bound of Redis' clock when the caller asked, in µs; 0 if it is not known yet
	ran   bool          // the caller's function has begun

	looks  int  // the number of looks of the flight that had begun when the caller asked
	fresh  bool // the caller takes only a value whose function began after the caller asked
	before int  // the number of functions of the flight that had begun when the caller asked
	result
	done chan struct{} // closed when the caller has its result
}

// takes reports whether the value is for the caller. A kept value is for the caller only if a look
// that began after the caller asked has found it: at an earlier look it may have been kept, and
// forgotten since. Looks are counted, since two local times may be equal:
//
//	this process      Redis                   another goroutine
//	a look begins     the value is kept
//	                  Forget: it is not       Forget returns
//	                                          Do asks, while the look is in flight: its value is not for this call
func (c *caller) takes(s *stored, seen reading) bool {
	if c.fresh {
		return s.beganAfter(c.floor)
	}
	return s.isFor(c.floor) || s.isKept(seen.clock) && c.looks < seen.look
}

// A result is what a call of Do returns.
type result struct {
	value  []byte
	source Source
	err    error
}

type (
	// A nested is the key under which the context of a function has the run of the function.
	nested struct {
		client *driver.Client
		key    string
	}
	holdKey struct{}
)

// Fresh returns a context for a caller that must see its own write: with it [Group.Do] returns no
// kept value, and no value whose function began before the call. Callers with Fresh share the value
// of a function that begins after their calls. The context of this function is fresh as well, for
// calls about other keys.
func Fresh(ctx context.Context) context.Context { return contract.WithFresh(ctx, true) }

// HoldOf returns the hold under which a function runs, from its context: for guarded writes
// ([rlock.Hold.Write]) and tokens of its own. For any other context it returns nil. The function
// must not release the hold.
func HoldOf(ctx context.Context) *rlock.Hold {
	h, _ := ctx.Value(holdKey{}).(*rlock.Hold)
	return h
}

// Do returns the result of fn, or of the function of another caller of the key, in any process, by
// the rule of the package comment. shared is set if it is the result of another caller's function.
// The value must not be changed, since other callers have the same slice.
//
// The context of fn has the values of ctx. It ends when the lock is lost, and, unless
// [Options].Finish is set, when no caller of this process waits any more. It does not end with ctx
// while others wait. If ctx ends Do returns its error, with the last error of Redis if Redis does
// not serve the call, and fn may run on. Errors of the lock are returned as they are
// ([rlock.ErrNoPermission], [rlock.ErrClosed]); the errors of this package are [ErrClosed],
// [ErrNested], [ErrVoid], [*Shared] and [*PanicError]. A panic whose caller has left is logged by
// the client.
func (g *Group) Do(ctx context.Context, key string, fn func(context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	c := &caller{ctx: ctx, fn: fn, asked: time.Now(), fresh: contract.IsFresh(ctx), done: make(chan struct{})}
	if err := g.await(key, c); err != nil {
		c.result = result{nil, Failed, err}
	}
	if g.o.Done != nil {
		g.o.Done(ctx, Event{Key: key, Source: c.source, Took: time.Since(c.asked), Err: c.err})
	}
	return c.value, c.source != Ran && c.source != Failed, c.err
}

// await waits until a flight of the key has given the caller its result. It returns an error if no
// flight could give one.
func (g *Group) await(key string, c *caller) error {
	if r, _ := c.ctx.Value(nested{g.shared, key}).(*run); r != nil && !r.returned.Load() {
		return ErrNested
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	f := g.join(key, c)
	if f == nil {
		return ErrClosed
	}
	select {
	case <-c.done:
		return nil
	case <-c.ctx.Done():
		return f.leave(c)
	}
}

// join adds the caller to the flight of the key, or to a new flight if there is none. It returns
// nil if the group is closed.
func (g *Group) join(key string, c *caller) *flight {
	for {
		f, has := g.flight(key, c)
		if f == nil || has || f.add(c) {
			return f
		}
		g.forget(f)
	}
}

// flight returns the flight of the key. If there is none, it begins a flight with the caller, and
// has is true.
func (g *Group) flight(key string, c *caller) (f *flight, has bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch f = g.flights[key]; {
	case g.ctx.Err() != nil:
		return nil, false
	case f != nil:
		return f, false
	}
	f = g.newFlight(key)
	f.add(c)
	g.flights[key] = f
	g.wg.Add(1)
	go f.fly()
	return f, true
}

// forget removes a flight that is over.
func (g *Group) forget(f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.flights[f.key] == f {
		delete(g.flights, f.key)
	}
}
