package once

import (
	"container/list"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

//go:embed value.lua
var valueSource string

//go:embed look.lua
var lookEnd string

var (
	lookSource = valueSource + lookEnd
	lookScript = wire.ScriptOf(lookSource)
)

// unlessStored is the look as the condition of an acquire: it returns the value like store.lua.
var unlessStored = "local found = (function()\n" + lookSource + "\nend)()\nif found[2] then return table.concat(found, ' ', 2) end"

// patience is the longest wait of a look for its answer, and the longest pause before the next
// look. firstPause is the first pause.
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
	cancel context.CancelFunc // ends ctx when the flight is over

	// mu guards the fields below. No function of package rlock is called while it is held.
	mu      sync.Mutex
	callers list.List // the callers, in the order in which they asked
	runs    int       // the number of functions that have begun
	looks   int       // the number of looks that have begun
	run     *run      // the run whose value is not stored yet, or nil
	over    bool      // there is no caller, and no run that has to finish
	last    reading   // the last reading of Redis' clock
	trouble trouble   // the last error of Redis
}

func (g *Group) newFlight(key string) *flight {
	l := g.locks.NewLock(key)
	if g.o.Tokens {
		l = g.locks.NewFencedLock(key)
	}
	f := &flight{g: g, key: key, lock: l, at: l.Key("once")}
	f.ctx, f.cancel = context.WithCancel(g.stores)
	return f
}

// add adds a caller, unless the flight is over or the group is closed.
func (f *flight) add(c *caller) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.g.ctx.Err() != nil {
		return false
	}
	c.floor = f.last.at(c.asked)
	c.place, c.before, c.looks = f.callers.PushBack(c), f.runs, f.looks
	return true
}

// leave removes a caller whose context has ended, and returns its error; nil if the caller has just
// got a result.
func (f *flight) leave(c *caller) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.place == nil {
		return nil
	}
	f.remove(c)
	return f.timeUp(c.ctx)
}

// remove removes a caller. If it was the last one the flight ends. The caller of remove holds mu.
func (f *flight) remove(c *caller) {
	f.callers.Remove(c.place)
	c.place = nil
	f.endIfIdle()
}

// endIfIdle ends the flight if it has no caller and no run that must finish. It reports whether the
// flight is over. The caller holds mu.
func (f *flight) endIfIdle() bool {
	if f.callers.Len() == 0 && (f.run == nil || !f.g.o.Finish) && !f.over {
		f.over = true
		f.cancel()
	}
	return f.over
}

// hand gives a result to a caller. It reports whether the caller was still waiting. The caller of
// hand holds mu.
func (f *flight) hand(c *caller, r result) bool {
	if c.place == nil {
		return false
	}
	c.result = r
	close(c.done)
	f.remove(c)
	return true
}

// each calls do for each caller. do may remove this caller. The caller of each holds mu.
func (f *flight) each(do func(c *caller)) {
	for e := f.callers.Front(); e != nil; {
		c := e.Value.(*caller)
		e = e.Next()
		do(c)
	}
}

// deliver gives a value to the callers for which it is, and reports whether the flight is over.
// seen is the reading of the look that has found the value; a message has none. If the value is the
// run's, or is newer, the value of the run is not stored any more.
func (f *flight) deliver(s *stored, seen reading, from Source) (over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, given := f.run, s.result(from)
	if r != nil && s.run == r.id {
		f.give(r, s)
	}
	f.each(func(c *caller) {
		if c.takes(s, seen) {
			f.hand(c, given)
		}
	})
	if r != nil && s.at > r.clock {
		f.give(r, nil) // the callers for which the newer value is not
	}
	return f.endIfIdle()
}

func (s *stored) result(from Source) result {
	if s.kind == kindError {
		return result{nil, from, &Shared{s.value}}
	}
	return result{[]byte(s.value), from, nil}
}

// failAll gives an error to all callers.
func (f *flight) failAll(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.each(func(c *caller) { f.hand(c, result{nil, Failed, err}) })
	f.endIfIdle()
}

// noteClock notes a reading of Redis' clock, and computes the floors of the callers that have none.
func (f *flight) noteClock(r reading) {
	if r.clock == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = r
	f.each(func(c *caller) { c.floor = earlier(c.floor, r.at(c.asked)) })
}

// fly is the goroutine of a flight.
func (f *flight) fly() {
	defer f.g.wg.Done()
	defer f.cancel()
	defer f.g.forget(f)
	defer f.failAll(ErrClosed) // no caller is left, or the group is closed
	defer f.g.shared.WatchTrouble(f.g.prefix+f.key, f.noteTrouble)()
	for looks := f.g.keeps(); f.ctx.Err() == nil; {
		looks = f.round(looks)
	}
}

// round waits for a value or for the lock. With the lock it runs a function or stores a value.
// again reports whether the next round begins with a look.
func (f *flight) round(looks bool) (again bool) {
	var a contract.Answer
	seen := reading{}
	if looks {
		a.Unless, a.Keys = unlessStored, []string{f.at}
		a.Args, seen.look = f.beginLook()
	}
	hold, err := f.lock.Acquire(f.ctx, contract.WithAnswer(&a))
	if err == nil {
		f.noteServed()
	}
	seen.clock, seen.sent = a.Clock, a.Read
	f.noteClock(seen)
	switch {
	case errors.Is(err, contract.ErrAnswered):
		return f.takeAnswer(&a, seen)
	case err != nil:
		if f.ctx.Err() == nil {
			f.giveUp(err)
		}
		return false
	}
	if looks && !a.Checked || a.Waited { // a value may have been stored since the last look
		if over, err := f.lookUnder(hold); over || err != nil || !hold.Valid() {
			_ = hold.Release(f.ctx)
			if err != nil && f.ctx.Err() == nil {
				f.giveUp(err)
			}
			return true
		}
	}
	if r := f.unstored(); r != nil {
		return f.store(hold, r)
	}
	return f.lead(hold)
}

// giveUp ends the flight with an error that waiting does not cure. If the value of a run is not
// stored, the callers for which it is get it.
func (f *flight) giveUp(err error) {
	if errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrWrongType) {
		err = fmt.Errorf("once: the key %q, with its values in %q: %w", f.key, f.at, err)
	}
	f.mu.Lock()
	if f.run != nil {
		f.give(f.run, nil)
	}
	f.mu.Unlock()
	f.failAll(err)
}

// takeAnswer gives an answer to the callers for which it is. seen is the reading of its look.
// takeAnswer returns what round returns.
func (f *flight) takeAnswer(a *contract.Answer, seen reading) (again bool) {
	s, ok := parse(a.Text)
	switch {
	case !ok || s.kind == kindAbsent || a.Clock == 0: // the value, or the clock, has to be read
		_, err := f.look(f.ask)
		return err != nil // the value may be in Redis, so that no caller of this process has to run
	case a.Checked:
		f.deliver(&s, seen, Looked)
		return f.hasLater(seen.look)
	default:
		f.deliver(&s, reading{}, Message)
		return f.g.keeps() && f.hasLater(0)
	}
}

// hasLater reports whether a caller has asked after a look began, and would take a kept value.
func (f *flight) hasLater(look int) (has bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.each(func(c *caller) { has = has || !c.fresh && c.looks >= look })
	return has
}

// lookUnder looks under the lock until Redis has answered, the hold is no longer valid, or the
// flight is over. It reports whether the flight is over, and returns an error if waiting does not
// cure it.
func (f *flight) lookUnder(hold *rlock.Hold) (over bool, err error) {
	for pause := firstPause; hold.Valid(); pause = min(2*pause, patience) {
		over, failed := f.look(func(ctx context.Context, wanted []string) ([]string, error) {
			reply, err := hold.Exec(ctx, lookSource, []string{f.at}, wanted)
			if err != nil {
				f.noteTrouble(wire.Explain(err))
				return nil, err
			}
			f.noteServed()
			return reply.AsStrSlice()
		})
		if over || failed == nil {
			return over, nil
		}
		if diagnosis, explained := wire.Diagnose(failed); diagnosis == wire.Never {
			return false, explained
		}
		f.rest(pause)
	}
	return f.ctx.Err() != nil, nil
}

// rest pauses, or returns sooner if the flight is over.
func (f *flight) rest(pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-f.ctx.Done():
	}
}

// beginLook returns the arguments of look.lua, by which the script knows whether a value is for one
// of the present callers, and the number of the look. A caller without a floor counts as if it
// asked at the time of the look, so a kept value is for it.
func (f *flight) beginLook() (wanted []string, look int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	const never = int64(1) << 52
	stored, began, kept := never, never, "0"
	f.each(func(c *caller) {
		floor := never
		if c.floor > 0 {
			floor = c.floor
		}
		if c.fresh {
			began = min(began, floor)
		} else {
			stored, kept = min(stored, floor), "1"
		}
	})
	if f.run != nil && f.run.clock > 0 {
		stored = min(stored, f.run.clock) // a value newer than the run's
	}
	return []string{strconv.FormatInt(stored, 10), strconv.FormatInt(began, 10), kept}, f.looks
}

// ask asks Redis for a value without the lock.
func (f *flight) ask(ctx context.Context, wanted []string) ([]string, error) {
	reply, err := f.g.send(ctx, wire.Call{Script: lookScript, Keys: []string{f.at}, Args: wanted})
	if err != nil {
		return nil, err
	}
	return reply.AsStrSlice()
}

// look asks for the value, gives it to the callers for which it is, and reports whether the flight
// is over. If a kept value was found, look asks again for callers that have come since. Without an
// answer nothing changes, and err is the reason.
func (f *flight) look(ask func(ctx context.Context, wanted []string) ([]string, error)) (over bool, err error) {
	for {
		seen, s, err := f.lookOnce(ask)
		if err != nil || s == nil {
			return f.ctx.Err() != nil, err
		}
		if over := f.deliver(s, seen, Looked); over || !s.isKept(seen.clock) || !f.hasLater(seen.look) {
			return over, nil
		}
	}
}

// lookOnce asks for the value once. The value is nil if there is none for the callers.
func (f *flight) lookOnce(ask func(ctx context.Context, wanted []string) ([]string, error)) (seen reading, s *stored, err error) {
	wanted, look := f.beginLook()
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	seen.sent, seen.look = time.Now(), look
	reply, err := ask(ctx, wanted)
	if len(reply) == 0 {
		return seen, nil, err
	}
	seen.clock, _ = strconv.ParseInt(reply[0], 10, 64)
	f.noteClock(seen)
	if value, ok := readStored(reply[1:]); ok {
		s = &value
	}
	return seen, s, nil
}

// A trouble is an error of Redis after which the flight tries again.
type trouble struct {
	err error
	at  time.Time
}

// lasting is the time for which a trouble counts as present. An attempt fails within the four
// seconds in which a silent peer is noticed, and the next attempt follows within half a second.
const lasting = 5 * time.Second

// noteTrouble notes an error of Redis. It may be called with a mutex of the lock held.
func (f *flight) noteTrouble(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = trouble{err, time.Now()}
}

// noteServed notes that Redis serves the flight.
func (f *flight) noteServed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = trouble{}
}

// timeUp returns the error of a caller whose context has ended, with the present error of Redis if
// there is one. The caller holds mu.
func (f *flight) timeUp(ctx context.Context) error {
	if f.trouble.err == nil || time.Since(f.trouble.at) > lasting {
		return ctx.Err()
	}
	return fmt.Errorf("once: %q: %w", f.key, wire.TimeUp(ctx, f.trouble.err))
}
