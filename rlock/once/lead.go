package once

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

//go:embed store.lua
var storeEnd string

var (
	storeSource = valueSource + storeEnd
	storeScript = wire.ScriptOf(storeSource)
)

// A run is one call of a function under the lock, and its result until it is stored or given to
// callers. Only the flight's goroutine uses a run. It writes the fields from value to fit under the
// flight's mutex.
type run struct {
	id       string
	number   int // the number among the runs of the flight, from 1
	caller   *caller
	clock    int64       // a lower bound of Redis' clock at the beginning of the function, in µs; 0 if it is not known
	began    time.Time   // the beginning of the function by the local clock
	returned atomic.Bool // the function has returned

	value []byte
	err   error // the error of ForAll, with kindError
	kind  string
	keep  time.Duration
	ended time.Time     // the end of the function by the local clock; zero while it runs
	fit   []*caller     // the callers that may get the value: they asked before the function returned, callers with Fresh before it began
	late  bool          // a store was sent under the hold of the run, so that the next store has a later hold
	pause time.Duration // the pause before the next store, if Redis refuses this one
}

// ranBefore reports whether the function of the run had begun when the caller asked.
func (r *run) ranBefore(c *caller) bool { return c.before >= r.number }

// lead runs the function of a caller under the lock, and stores its value. again is what round
// returns.
func (f *flight) lead(hold *rlock.Hold) (again bool) {
	g := f.g
	r := f.begin()
	if r == nil {
		_ = hold.Release(f.ctx)
		f.void() // the functions of all callers have run, but for callers that came meanwhile
		return g.keeps()
	}
	value, err := f.call(hold, r)
	kind, keep := kindValue, g.o.Keep
	switch all := (*forAll)(nil); {
	case errors.As(err, &all):
		kind, keep, value = kindError, g.o.KeepErrors, []byte(all.error.Error())
	case err != nil:
		_ = hold.Release(f.ctx) // after a release without an answer the client repeats it
		f.fail(r, err)
		return g.keeps()
	}
	f.mu.Lock()
	r.value, r.err, r.kind, r.keep, r.ended = value, err, kind, keep, time.Now()
	f.each(func(c *caller) {
		if !c.fresh || !r.ranBefore(c) {
			r.fit = append(r.fit, c)
		}
	})
	f.mu.Unlock()
	return f.store(hold, r)
}

// void gives ErrVoid to the callers whose function ran.
func (f *flight) void() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.each(func(c *caller) {
		if c.ran {
			f.hand(c, result{nil, Failed, ErrVoid})
		}
	})
	f.endIfIdle()
}

// fail ends a run, and gives the error to its caller. It logs a panic whose caller has left.
func (f *flight) fail(r *run, err error) {
	f.mu.Lock()
	f.run = nil
	told := f.hand(r.caller, result{nil, Ran, err})
	f.endIfIdle()
	f.mu.Unlock()
	if panicked := (*PanicError)(nil); !told && errors.As(err, &panicked) {
		f.g.shared.Config.Logger.Error("once: a function panicked after its caller had left", "key", f.key, "panic", panicked.Value, "stack", string(panicked.Stack))
	}
}

// store stores the value of a run, releases the lock, and gives the value to the callers for which
// it is. again is what round returns.
func (f *flight) store(hold *rlock.Hold, r *run) (again bool) {
	reply, failed := hold.ReleaseWith(f.ctx, storeSource, []string{f.at}, f.storeArgs(r))
	diagnosis, explained := wire.Diagnose(failed)
	switch {
	case failed == nil:
		f.settle(r, recordOf(reply))
		return f.g.keeps()
	case errors.Is(failed, rlock.ErrFenced):
		f.drop() // nothing was stored, and another process may have run the function since
		return true
	case errors.Is(failed, rlock.ErrUnconfirmed):
		return true // the next look shows whether the value is stored; if it is not, it is stored under the next hold
	case diagnosis == wire.Never, errors.Is(failed, rlock.ErrNoPermission), errors.Is(failed, rlock.ErrWrongType):
		f.refuse(r, fmt.Errorf("once: the value of %q cannot be stored in the key %q: %w", f.key, f.at, explained))
		return false
	case diagnosis == wire.NotNow && f.g.o.Finish && time.Since(r.ended) < max(r.keep, grace):
		s := f.askRecord(r)
		f.mu.Lock()
		f.share(r, s) // until the value is stored only this process has it
		f.mu.Unlock()
		f.rest(r.pause)
		r.pause = min(2*r.pause, patience)
		return true
	default:
		f.settle(r, f.askRecord(r)) // Redis has refused the value: only this process has it
		return f.g.keeps()
	}
}

// recordOf reads the reply of store.lua; nil for any other reply.
func recordOf(reply rueidis.RedisMessage) *stored {
	words, err := reply.AsStrSlice() // the reply about a value that is not stored
	if err != nil {
		text, _ := reply.ToString()
		words = strings.SplitN(text, " ", storedWords)
	}
	if s, ok := readStored(words); ok {
		return &s
	}
	return nil
}

// askRecord asks Redis, without the lock, for the record of a value that it has refused to store,
// if a caller needs the record. It returns nil without an answer.
func (f *flight) askRecord(r *run) *stored {
	f.mu.Lock()
	needed := slices.ContainsFunc(r.fit, r.ranBefore)
	f.mu.Unlock()
	if !needed {
		return nil
	}
	reply, err := f.g.send(f.ctx, wire.Call{Script: storeScript, Keys: []string{f.at}, Args: f.notStored(r)})
	if err != nil {
		return nil
	}
	return recordOf(reply)
}

// notStored returns the arguments of store.lua for a value that must not be stored.
func (f *flight) notStored(r *run) []string {
	return []string{"0", "0", r.id, kindAbsent, "", "0", strconv.FormatInt(r.clock, 10)}
}

// storeArgs returns the arguments of store.lua. A value that is stored under a later hold counts as
// stored when its function ended, so that it does not pass for a younger value. A look under the
// lock has shown before that no other value was stored since the function began.
func (f *flight) storeArgs(r *run) []string {
	if len(r.value) > f.g.o.Most || r.late && r.clock == 0 { // too long, or not comparable with later values
		return f.notStored(r)
	}
	keep := r.keep
	args := []string{
		strconv.FormatInt(keep.Microseconds(), 10), strconv.FormatInt(max(keep, grace).Milliseconds(), 10),
		r.id, r.kind, string(r.value), strconv.Itoa(f.g.o.Inline), strconv.FormatInt(r.clock, 10),
	}
	if !r.late {
		r.late = true
		return args
	}
	took := r.ended.Sub(r.began)
	return append(args, strconv.FormatInt(r.clock+(took-took/drift).Microseconds(), 10))
}

// begin makes the run of the first caller whose function has not run. It returns nil if there is
// none.
func (f *flight) begin() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	for e := f.callers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*caller); !c.ran {
			c.ran = true
			f.runs++
			f.run = &run{number: f.runs, caller: c, id: f.g.id + "." + strconv.FormatUint(f.g.runs.Add(1), 10), clock: f.last.clock, began: time.Now(), pause: firstPause}
			return f.run
		}
	}
	return nil
}

// unstored returns the run whose value is not stored yet, or nil.
func (f *flight) unstored() *run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run
}

// give gives the value of a run to its callers, and ends the run. The caller of give holds mu.
func (f *flight) give(r *run, s *stored) {
	f.share(r, s)
	if f.run == r {
		f.run = nil
	}
}

// share gives the value of a run to the callers that asked before its function returned, except
// those from which a Forget keeps the value. The value is stored as s, which tells of a Forget; s
// is nil if it is not known. The caller of share holds mu.
func (f *flight) share(r *run, s *stored) {
	shared := result{r.value, Process, nil}
	if r.kind == kindError {
		shared = result{nil, Process, &Shared{string(r.value)}}
	}
	var rest []*caller
	for _, c := range r.fit {
		given := shared
		switch {
		case r.ranBefore(c) && (s == nil || s.wasForgotten() && !s.isFor(c.floor)):
			rest = append(rest, c) // this caller may have asked after a Forget
			continue
		case c == r.caller:
			given = result{shared.value, Ran, unmarked(r.err)}
		}
		f.hand(c, given)
	}
	r.fit = rest
}

// settle is give, and takes the mutex.
func (f *flight) settle(r *run, s *stored) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.give(r, s)
	f.endIfIdle()
}

// drop ends a run whose value is void.
func (f *flight) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run = nil
	f.endIfIdle()
}

// refuse gives an error to the callers of a run that cannot be stored.
func (f *flight) refuse(r *run, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range r.fit {
		f.hand(c, result{nil, Failed, err})
	}
	f.run = nil
	f.endIfIdle()
}

// call calls the function of a run.
func (f *flight) call(hold *rlock.Hold, r *run) ([]byte, error) {
	c := r.caller
	ctx, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(c.ctx), nested{f.g.shared, f.key}, r))
	defer cancel()
	defer r.returned.Store(true)
	defer context.AfterFunc(f.g.ctx, cancel)()
	if !f.g.o.Finish {
		defer context.AfterFunc(f.ctx, cancel)()
	}
	return called(hold.With(context.WithValue(ctx, holdKey{}, hold)), c.fn)
}

// called calls the function in a goroutine of its own, so that runtime.Goexit ends only this
// goroutine.
func called(ctx context.Context, fn func(context.Context) ([]byte, error)) (value []byte, err error) {
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			if !returned {
				value, err = nil, &PanicError{Value: recover(), Stack: debug.Stack()}
			}
		}()
		value, err = fn(ctx)
		returned = true
	}()
	<-done
	return value, err
}
