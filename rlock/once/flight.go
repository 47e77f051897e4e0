package once

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

//go:embed look.lua
var lookSource string

var lookScript = wire.ScriptOf(lookSource)

// unlessStored is the look as the condition of an acquire: it returns the value as store.lua does.
var unlessStored = "local found = (function()\n" + lookSource + "\nend)()\nif found[2] then return table.concat(found, ' ', 2) end"

// patience is how long a look waits for its answer, and the longest pause before another one; firstPause is the first.
const (
	patience   = 2 * time.Second
	firstPause = 20 * time.Millisecond
)

// A flight is the one wait of this process for a key. Its goroutine runs fly.
type flight struct {
	g      *Group
	key    string
	lock   *rlock.Lock
	at     string // the key of the value
	ctx    context.Context
	cancel context.CancelFunc // when no caller is left

	// The group's mutex protects following.

	callers []*caller
	over    bool
	first   reading
	last    reading
	trouble trouble // that Redis gave last
}

// A trouble is an error of Redis that a flight met while it goes on trying.
type trouble struct {
	err error
	at  time.Time
}

// lasting is for how long a trouble counts as the present one. An attempt fails within the four seconds in which a silent peer
// is noticed, and the next one follows within half a second.
const lasting = 5 * time.Second

// fails notes an error of Redis. It may be called with a mutex of the lock held.
func (f *flight) fails(err error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.trouble = trouble{err, time.Now()}
}

// served notes that Redis serves the flight.
func (f *flight) served() {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.trouble = trouble{}
}

// timeUp returns the error of a caller whose context has ended, with the present error of Redis if there is one. The mutex is
// held.
func (f *flight) timeUp(ctx context.Context) error {
	if f.trouble.err == nil || time.Since(f.trouble.at) > lasting {
		return ctx.Err()
	}
	return fmt.Errorf("once: %q: %w", f.key, wire.TimeUp(ctx, f.trouble.err))
}

func (g *Group) newFlight(key string) *flight {
	l := g.locks.NewLock(key)
	if g.o.Tokens {
		l = g.locks.NewFencedLock(key)
	}
	f := &flight{g: g, key: key, lock: l, at: l.Key("once")}
	f.ctx, f.cancel = context.WithCancel(g.ctx)
	return f
}

// remove takes out a caller, and ends the flight with the last one. The mutex is held.
func (f *flight) remove(c *caller) {
	f.callers = slices.DeleteFunc(f.callers, func(o *caller) bool { return o == c })
	f.ends()
}

// ends ends the flight if no caller is left, and reports whether it is over. The mutex is held.
func (f *flight) ends() bool {
	if len(f.callers) == 0 && !f.over {
		f.over = true
		f.cancel()
		if f.g.flights[f.key] == f {
			delete(f.g.flights, f.key)
		}
	}
	return f.over
}

// hand gives a caller that still waits its result. The mutex is held.
func (f *flight) hand(c *caller, r result) {
	if slices.Contains(f.callers, c) {
		c.done <- r
		f.remove(c)
	}
}

// deliver gives a value to the callers that it is for, and reports whether none is left.
func (f *flight) deliver(s *stored, from Source) (over bool) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	for _, c := range slices.Clone(f.callers) {
		if s.isFor(c.floor) {
			f.hand(c, s.result(from))
		}
	}
	return f.over
}

func (s *stored) result(from Source) result {
	if s.kind == kindError {
		return result{nil, from, &Shared{s.value}}
	}
	return result{[]byte(s.value), from, nil}
}

// failAll gives an error to all callers.
func (f *flight) failAll(err error) {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	for _, c := range slices.Clone(f.callers) {
		f.hand(c, result{nil, Failed, err})
	}
	f.ends()
}

// reads notes what a command has told of Redis' clock, and when callers asked for which that was not known.
func (f *flight) reads(r reading) {
	if r.clock == 0 {
		return
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if f.first.clock == 0 {
		f.first = r
	}
	f.last = r
	for _, c := range f.callers {
		c.floor = earlier(c.floor, r.at(c.asked))
	}
}

// floor returns the least upper bound of Redis' clock at a local time that is known, 0 for none. The mutex is held.
func (f *flight) floor(t time.Time) int64 { return earlier(f.first.at(t), f.last.at(t)) }

// fly is the goroutine of a flight.
func (f *flight) fly() {
	defer f.g.wg.Done()
	defer f.g.shared.WatchTrouble(f.g.prefix+f.key, f.fails)()
	defer f.failAll(ErrClosed) // no caller is left, or the group is closed
	for looks := f.g.keeps(); f.ctx.Err() == nil; {
		var over bool
		if over, looks = f.round(looks); over {
			return
		}
	}
}

// round waits until a value comes, or this process runs. It reports whether no caller is left, and else whether the next round
// begins with a look.
func (f *flight) round(looks bool) (over, again bool) {
	var a rlock.Answer
	if looks {
		a.Unless, a.Keys, a.Args = unlessStored, []string{f.at}, []string{f.least()}
	}
	hold, err := f.lock.Acquire(f.ctx, rlock.WithAnswer(&a))
	if err == nil {
		f.served()
	}
	f.reads(reading{a.Clock, a.Read})
	switch {
	case errors.Is(err, rlock.ErrAnswered):
		return f.answered(&a), false
	case err != nil:
		if f.ctx.Err() == nil {
			f.failAll(err)
		}
		return true, false
	}
	if looks && !a.Checked || a.Waited { // a value may have been stored since
		switch over, err := f.lookUnder(hold); {
		case err != nil && f.ctx.Err() == nil:
			_ = hold.Release(f.ctx)
			f.failAll(err)
			return true, false
		case over || !hold.Valid():
			_ = hold.Release(f.ctx)
			return over, true
		}
	}
	return f.lead(hold)
}

// answered gives the answer to the callers that it is for, and reports whether none is left.
func (f *flight) answered(a *rlock.Answer) (over bool) {
	s, ok := parse(a.Text)
	switch {
	case !ok || s.kind == kindAbsent || a.Clock == 0: // it has to be read, or compared with a clock that is not known
		return f.look(f.ask)
	case a.Checked:
		return f.deliver(&s, Looked)
	}
	return f.deliver(&s, Message)
}

// lookUnder looks under the lock until Redis has answered, the hold is no longer valid, or no caller is left, which it reports.
// It returns the error of a server that waiting does not cure.
func (f *flight) lookUnder(hold *rlock.Hold) (over bool, err error) {
	for pause := firstPause; hold.Valid(); pause = min(2*pause, patience) {
		var failed error
		over = f.look(func(ctx context.Context, floor string) ([]string, error) {
			reply, err := hold.Exec(ctx, lookSource, []string{f.at}, []string{floor})
			if failed = err; err != nil {
				f.fails(wire.Explain(err))
				return nil, err
			}
			f.served()
			return reply.AsStrSlice()
		})
		if over || failed == nil {
			return over, nil
		}
		if fault, explained := wire.Diagnose(failed); fault == wire.Never {
			return false, explained
		}
		select {
		case <-time.After(pause):
		case <-f.ctx.Done():
		}
	}
	return f.ctx.Err() != nil, nil
}

// least returns the time of Redis' clock after which a value is for one of the callers, as the scripts take it. That of a caller
// without a floor is the look itself, for which a value is that is kept.
func (f *flight) least() string {
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	least := int64(1) << 52
	for _, c := range f.callers {
		if c.floor > 0 {
			least = min(least, c.floor)
		}
	}
	return strconv.FormatInt(least, 10)
}

// ask asks Redis for a value outside of the lock.
func (f *flight) ask(ctx context.Context, floor string) ([]string, error) {
	redis := f.g.shared.Redis
	if err := redis.Ready(ctx, nil); err != nil {
		return nil, err
	}
	return redis.Do(ctx, wire.Call{Script: lookScript, Keys: []string{f.at}, Args: []string{floor}}).AsStrSlice()
}

// look asks for the value, gives it to the callers that it is for, and reports whether none is left. Without an answer nothing
// changes.
func (f *flight) look(ask func(ctx context.Context, floor string) ([]string, error)) (over bool) {
	least := f.least()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	sent := time.Now()
	reply, err := ask(ctx, least)
	if err != nil || len(reply) == 0 {
		return f.ctx.Err() != nil
	}
	now, _ := strconv.ParseInt(reply[0], 10, 64)
	f.reads(reading{now, sent})
	if len(reply) < 6 {
		return false
	}
	s := stored{run: reply[3], kind: reply[4], value: reply[5]}
	s.at, _ = strconv.ParseInt(reply[1], 10, 64)
	s.until, _ = strconv.ParseInt(reply[2], 10, 64)
	return f.deliver(&s, Looked)
}
