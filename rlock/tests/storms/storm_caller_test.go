package storms_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// A caller takes the lock again and again while the storm lasts, each time as a new owner.
type caller struct {
	*storm
	via    *replaceable
	random *rand.Rand
	calm   bool

	// Of one turn:
	ctx         context.Context
	client      *testbed.Client
	write, read testbed.Locker // read is nil if nothing is shared
	levels      []*taken
	section     criticalSection
}

func (c *caller) upTo(d time.Duration) time.Duration { return upTo(c.random, d) }

// patience returns how long the caller waits while there are faults.
func (c *caller) patience() time.Duration {
	return []time.Duration{c.upTo(10 * time.Millisecond), c.upTo(3 * time.Second), 20 * time.Second}[c.random.IntN(3)]
}

// turn takes the lock once, waiting at most for patience, holds it at most for longest, and
// reports whether it got the lock.
func (c *caller) turn(patience, longest time.Duration) (got bool) {
	c.client, c.levels, c.section = c.via.current(), nil, criticalSection{}
	clients := []*rlock.Client{c.client.Client}
	c.write = c.kind.exclusive[c.random.IntN(len(c.kind.exclusive))](clients, testbed.Key)
	if c.kind.shared != nil {
		c.read = c.kind.shared(clients, testbed.Key)
	}
	c.ctx = rlock.WithOwner(c.World.Ctx, rlock.NewOwner())
	lock, asked := c.write, time.Now()
	if c.read != nil && c.random.IntN(3) > 0 {
		lock = c.read
	}
	if !c.await(lock, patience) {
		return false
	}
	now := time.Now()
	if c.calm && patience == recovery {
		c.mu.Lock()
		c.waits = append(c.waits, testbed.Span{From: asked, To: now})
		c.mu.Unlock()
	}
	longest = min(longest, max(time.Until(c.begin.Add(stormTime)), 50*time.Millisecond)) // the end of the storm bounds a late section
	leave := now.Add(c.upTo(longest))
	for c.holds() && now.Before(leave) {
		select {
		case <-c.done():
			c.extend(time.Now())
		case <-time.After(min(leave.Sub(now), c.upTo(50*time.Millisecond)+time.Millisecond)):
		}
		if now = time.Now(); c.holds() {
			c.change()
		}
	}
	for len(c.levels) > 0 {
		c.release(c.random.IntN(len(c.levels)))
	}
	c.mu.Lock()
	c.sections = append(c.sections, c.section)
	c.mu.Unlock()
	return true
}

// await waits for the lock in one of the possible ways.
func (c *caller) await(lock testbed.Locker, patience time.Duration) bool {
	wait := time.Duration(-1)
	if patience < recovery {
		wait = []time.Duration{-1, -1, 0, patience}[c.random.IntN(4)]
	}
	within := c.ctx
	if wait < 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(within, patience)
		if !c.calm && c.random.IntN(2) == 0 { // a cancellation without a deadline
			within, cancel = context.WithCancel(c.ctx)
			defer time.AfterFunc(patience, cancel).Stop()
		}
		defer cancel()
	}
	return c.take(within, lock, wait)
}

// take takes one level. A wait below 0 has no end.
func (c *caller) take(ctx context.Context, lock testbed.Locker, wait time.Duration) bool {
	l, lease := &taken{lock: lock}, time.Duration(0)
	if c.random.IntN(2) == 0 {
		lease = 100*time.Millisecond + c.upTo(stormLease)
	}
	ok, err := true, error(nil)
	switch named := c.random.IntN(2) == 0; {
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
	c.levels = append(c.levels, l)
	return true
}

// handle returns a handle of the caller, nil if it has none.
func (c *caller) handle() *rlock.Hold {
	for _, l := range c.levels {
		if l.hold != nil {
			return l.hold
		}
	}
	return nil
}

// done is closed when the hold of a handle ends.
func (c *caller) done() <-chan struct{} {
	if hold := c.handle(); hold != nil {
		return hold.Context().Done()
	}
	return nil
}

// believes reports whether the client says that the caller holds the lock.
func (c *caller) believes() bool {
	if hold := c.handle(); hold != nil {
		return hold.Context().Err() == nil
	}
	return c.valid()
}

// valid reports whether the lease is valid by the clock.
func (c *caller) valid() bool {
	l := c.levels[0]
	if l.hold != nil {
		return l.hold.Valid()
	}
	return l.lock.IsHeld(c.ctx)
}

// has returns how many levels of a lock the caller has.
func (c *caller) has(lock testbed.Locker) (n int) {
	for _, l := range c.levels {
		if l.lock == lock {
			n++
		}
	}
	return n
}

// holds reports whether the caller holds the lock, asserts that Redis agrees, and extends the
// section.
func (c *caller) holds() bool {
	t, now := c.World.T, time.Now()
	before, valid := c.believes(), c.valid()
	fields, writes, reads := c.Fields(testbed.Key), c.write.HoldCount(c.ctx), 0
	if c.read != nil {
		reads = c.read.HoldCount(c.ctx)
	}
	stillValid, after := c.valid(), c.believes()
	switch {
	case valid && stillValid:
		assert.Equal(t, c.has(c.write), writes)
		assert.Equal(t, c.has(c.read), reads)
	case !valid:
		assert.Zero(t, writes+reads)
	}
	if before && after && !c.wasDisturbed(now.Add(-longestLease), now) {
		assert.True(t, slices.ContainsFunc(fields, c.shows), "Redis does not show the holder: %v", fields)
		if ends := c.ends(); !ends.IsZero() {
			assert.LessOrEqual(t, now.Sub(ends), 20*time.Millisecond, "the hold outlasts its lease: %v", c)
		}
	}
	if before {
		c.extend(now)
	}
	return before && after
}

// open returns the part of the section that goes on.
func (c *caller) open() *testbed.Span {
	if c.has(c.write) > 0 {
		return &c.section.exclusive
	}
	return &c.section.shared
}

// extend records that the caller has had the lock until now.
func (c *caller) extend(now time.Time) {
	s := c.open()
	if s.From.IsZero() {
		s.From = now
	}
	s.To = now
}

// shows reports whether a field of the hash is that of the caller's client.
func (c *caller) shows(field string) bool {
	if !strings.HasPrefix(field, c.client.ID()) {
		return false
	}
	return c.read == nil || c.has(c.write) == 0 || strings.HasSuffix(field, ":write")
}

// ends returns when the last lease of the levels ends, zero for never.
func (c *caller) ends() (latest time.Time) {
	for _, l := range c.levels {
		if l.until.IsZero() {
			return time.Time{}
		}
		if l.until.After(latest) {
			latest = l.until
		}
	}
	return latest
}

// change takes a nested level, or unlocks a level that is not the last one.
func (c *caller) change() {
	t := c.World.T
	switch c.random.IntN(6) {
	case 0, 1:
		if len(c.levels) > 1 {
			c.release(c.random.IntN(len(c.levels)))
		}
	case 2, 3:
		lock := c.write
		if c.read != nil && (c.has(c.write) == 0 || c.random.IntN(2) == 0) {
			lock = c.read
		}
		if valid := c.valid(); c.take(c.ctx, lock, 0) {
			if !valid || !c.believes() { // the levels belong to different holds
				c.release(len(c.levels) - 1)
			}
		} else {
			assert.False(t, valid && c.valid(), "a valid hold may nest")
		}
	case 4:
		if c.read != nil && c.has(c.write) == 0 {
			_, err := c.write.Acquire(c.ctx, rlock.WithWait(0))
			assert.Error(t, err)
			assert.True(t, errors.Is(err, rlock.ErrUpgrade) || !c.valid(), "%v", err)
		}
	}
}

// release unlocks one level.
func (c *caller) release(i int) {
	if c.believes() {
		c.extend(time.Now())
	}
	l := c.levels[i]
	if l.hold == nil { // Unlock ends the innermost
		for j, inner := range c.levels {
			if inner.hold == nil && inner.lock == l.lock {
				i = j
			}
		}
	}
	believed := c.believes()
	c.levels = slices.Delete(c.levels, i, i+1)
	if len(c.levels) > 0 && believed {
		c.extend(time.Now()) // as a reader, if it was a writer
	}
	var err error
	if l.hold != nil {
		err = l.hold.Release(c.ctx)
	} else {
		err = l.lock.Unlock(c.ctx)
	}
	for _, expected := range []error{nil, rlock.ErrLost, rlock.ErrUnconfirmed, rlock.ErrClosed} {
		if errors.Is(err, expected) {
			return
		}
	}
	assert.Fail(c.World.T, "unlock", "%v", err)
}

func (c *caller) String() string {
	text := ""
	for _, l := range c.levels {
		text += fmt.Sprintf("{%T handle %v until %v} ", l.lock, l.hold != nil, l.until.Sub(c.begin))
	}
	return fmt.Sprintf("%v %s %v", time.Since(c.begin), text, c.section)
}

// Taken is a level that the caller has not unlocked yet.
type taken struct {
	lock  testbed.Locker
	hold  *rlock.Hold // nil if it was taken without a handle
	until time.Time   // the end of a fixed lease, zero if the watchdog keeps it
}
