package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/go-rlock/rlock/rlock"
)

// A guest of a storm is who wants the lock. It is another owner each time.
type guest struct {
	*storm
	seat   *seat
	random *rand.Rand
	calm   bool

	// Of one visit:
	ctx         context.Context
	party       *party
	write, read locker // read is nil if nothing is shared
	levels      []*taken
	stay        stay
}

// Taken is a level that the guest has not unlocked yet.
type taken struct {
	lock  locker
	hold  *rlock.Hold // nil if it was taken without a handle
	until time.Time   // the end of a fixed lease, zero if the watchdog keeps it
}

func (g *guest) upTo(d time.Duration) time.Duration { return time.Duration(g.random.Int64N(int64(d))) }

// patience is how long the guest waits while there is trouble.
func (g *guest) patience() time.Duration {
	return []time.Duration{g.upTo(10 * time.Millisecond), g.upTo(3 * time.Second), 20 * time.Second}[g.random.IntN(3)]
}

// visit has the lock once if it can be had in time, for so long at most, and
// reports whether it could.
func (g *guest) visit(patience, longest time.Duration) (got bool) {
	g.party, g.levels, g.stay = g.seat.taken(), nil, stay{}
	clients := []*rlock.Client{g.party.Client}
	g.write = g.kind.alone[g.random.IntN(len(g.kind.alone))](clients, key)
	if g.kind.shared != nil {
		g.read = g.kind.shared(clients, key)
	}
	g.ctx = rlock.WithOwner(g.world.ctx, rlock.NewOwner())
	lock, asked := g.write, time.Now()
	if g.read != nil && g.random.IntN(3) > 0 {
		lock = g.read
	}
	if !g.await(lock, patience) {
		return false
	}
	now := time.Now()
	if g.calm && patience == recovery {
		g.mu.Lock()
		g.waits = append(g.waits, span{asked, now})
		g.mu.Unlock()
	}
	longest = min(longest, max(time.Until(g.begin.Add(stormTime)), 50*time.Millisecond)) // nobody waits for who is late
	leave := now.Add(g.upTo(longest))
	for g.holds() && now.Before(leave) {
		select {
		case <-g.done():
			g.extend(time.Now())
		case <-time.After(min(leave.Sub(now), g.upTo(50*time.Millisecond)+time.Millisecond)):
		}
		if now = time.Now(); g.holds() {
			g.change()
		}
	}
	for len(g.levels) > 0 {
		g.release(g.random.IntN(len(g.levels)))
	}
	g.mu.Lock()
	g.stays = append(g.stays, g.stay)
	g.mu.Unlock()
	return true
}

// await waits for the lock in one of the ways that there are.
func (g *guest) await(lock locker, patience time.Duration) bool {
	wait := time.Duration(-1)
	if patience < recovery {
		wait = []time.Duration{-1, -1, 0, patience}[g.random.IntN(4)]
	}
	within := g.ctx
	if wait < 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(within, patience)
		if !g.calm && g.random.IntN(2) == 0 { // nobody knows when
			within, cancel = context.WithCancel(g.ctx)
			defer time.AfterFunc(patience, cancel).Stop()
		}
		defer cancel()
	}
	return g.take(within, lock, wait)
}

// take opens a level. A wait below 0 is one without end.
func (g *guest) take(ctx context.Context, lock locker, wait time.Duration) bool {
	l, lease := &taken{lock: lock}, time.Duration(0)
	if g.random.IntN(2) == 0 {
		lease = 100*time.Millisecond + g.upTo(stormLease)
	}
	ok, err := true, error(nil)
	switch named := g.random.IntN(2) == 0; {
	case named && wait < 0:
		err = lock.LockFor(ctx, lease)
	case named:
		ok, err = lock.TryLockFor(ctx, wait, lease)
	default:
		options := []rlock.AcquireOption{rlock.WithLease(lease)}
		if wait >= 0 {
			options = append(options, rlock.WithWait(wait))
		}
		l.hold, err = lock.Acquire(ctx, options...)
	}
	if err != nil || !ok {
		return false
	}
	if lease > 0 {
		l.until = time.Now().Add(lease)
	}
	g.levels = append(g.levels, l)
	return true
}

// handle returns a handle of the guest's, nil if it has none.
func (g *guest) handle() *rlock.Hold {
	for _, l := range g.levels {
		if l.hold != nil {
			return l.hold
		}
	}
	return nil
}

// done is closed when the hold of a handle ends.
func (g *guest) done() <-chan struct{} {
	if hold := g.handle(); hold != nil {
		return hold.Done()
	}
	return nil
}

// believes reports whether the guest thinks that it holds the lock.
func (g *guest) believes() bool {
	if hold := g.handle(); hold != nil {
		return hold.Context().Err() == nil
	}
	return g.valid()
}

// valid reports whether the clock says so.
func (g *guest) valid() bool {
	l := g.levels[0]
	if l.hold != nil {
		return l.hold.Valid()
	}
	return l.lock.IsHeld(g.ctx)
}

// has returns how many levels the guest has of a lock.
func (g *guest) has(lock locker) (n int) {
	for _, l := range g.levels {
		if l.lock == lock {
			n++
		}
	}
	return n
}

// holds reports whether the guest holds the lock, notes that it does, and asserts
// that it is true.
func (g *guest) holds() bool {
	t, now := g.world.t, time.Now()
	before, valid := g.believes(), g.valid()
	fields, writes, reads := g.fields(key), g.write.HoldCount(g.ctx), 0
	if g.read != nil {
		reads = g.read.HoldCount(g.ctx)
	}
	stillValid, after := g.valid(), g.believes()
	switch {
	case valid && stillValid:
		assert.Equal(t, g.has(g.write), writes)
		assert.Equal(t, g.has(g.read), reads)
	case !valid:
		assert.Zero(t, writes+reads)
	}
	if before && after && !g.wasDisturbed(now.Add(-longestLease), now) {
		assert.True(t, slices.ContainsFunc(fields, g.shows), "it is not in Redis: %v", fields)
		if ends := g.ends(); !ends.IsZero() {
			assert.LessOrEqual(t, now.Sub(ends), 20*time.Millisecond, "it goes on when its lease is over: %v", g)
		}
	}
	if before {
		g.extend(now)
	}
	return before && after
}

// stayed returns the part of the stay that goes on.
func (g *guest) stayed() *span {
	if g.has(g.write) > 0 {
		return &g.stay.alone
	}
	return &g.stay.shared
}

// extend notes that the guest has the lock until now.
func (g *guest) extend(now time.Time) {
	s := g.stayed()
	if s.from.IsZero() {
		s.from = now
	}
	s.to = now
}

// shows reports whether a field of the hash is what Redis has of the guest's client.
func (g *guest) shows(field string) bool {
	if !strings.HasPrefix(field, g.party.ID()) {
		return false
	}
	return g.read == nil || g.has(g.write) == 0 || strings.HasSuffix(field, ":write")
}

// ends returns when all levels have ended by their leases, zero for never.
func (g *guest) ends() (latest time.Time) {
	for _, l := range g.levels {
		if l.until.IsZero() {
			return time.Time{}
		}
		if l.until.After(latest) {
			latest = l.until
		}
	}
	return latest
}

// change nests, or unlocks what is not the last level.
func (g *guest) change() {
	t := g.world.t
	switch g.random.IntN(6) {
	case 0, 1:
		if len(g.levels) > 1 {
			g.release(g.random.IntN(len(g.levels)))
		}
	case 2, 3:
		lock := g.write
		if g.read != nil && (g.has(g.write) == 0 || g.random.IntN(2) == 0) {
			lock = g.read
		}
		if valid := g.valid(); g.take(g.ctx, lock, 0) {
			if !valid || !g.believes() { // it is another hold
				g.release(len(g.levels) - 1)
			}
		} else {
			assert.False(t, valid && g.valid(), "it may nest")
		}
	case 4:
		if g.read != nil && g.has(g.write) == 0 {
			_, err := g.write.TryAcquire(g.ctx)
			assert.Error(t, err)
			assert.True(t, errors.Is(err, rlock.ErrUpgrade) || !g.valid(), "%v", err)
		}
	}
}

// release unlocks one level.
func (g *guest) release(i int) {
	if g.believes() {
		g.extend(time.Now())
	}
	l := g.levels[i]
	if l.hold == nil { // Unlock ends the innermost
		for j, inner := range g.levels {
			if inner.hold == nil && inner.lock == l.lock {
				i = j
			}
		}
	}
	believed := g.believes()
	g.levels = slices.Delete(g.levels, i, i+1)
	if len(g.levels) > 0 && believed {
		g.extend(time.Now()) // as a reader, if it was a writer
	}
	var err error
	if l.hold != nil {
		err = l.hold.Release(g.ctx)
	} else {
		err = l.lock.Unlock(g.ctx)
	}
	for _, expected := range []error{nil, rlock.ErrLost, rlock.ErrUnconfirmed, rlock.ErrClosed} {
		if errors.Is(err, expected) {
			return
		}
	}
	assert.Fail(g.world.t, "unlock", "%v", err)
}

func (g *guest) String() string {
	text := ""
	for _, l := range g.levels {
		text += fmt.Sprintf("{%T handle %v until %v} ", l.lock, l.hold != nil, l.until.Sub(g.begin))
	}
	return fmt.Sprintf("%v %s %v", time.Since(g.begin), text, g.stay)
}
