package groups_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// A majorityUser takes the lock again and again, as an owner in one of the processes.
type majorityUser struct {
	*majorityRun
	team   int // the process
	lock   testbed.Locker
	owner  context.Context
	random *rand.Rand
}

// upTo returns a time up to d, from a few values only, so that many events coincide.
func (p *majorityUser) upTo(d time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(d/step))+1) * step
}

// play takes the lock until the end, with all leases and waits, and then once more, which
// must succeed.
func (p *majorityUser) play() {
	for last := false; !last; time.Sleep(p.upTo(300 * time.Millisecond)) {
		wait := p.upTo(3 * time.Second)
		if last = !time.Now().Before(p.end); last || p.random.IntN(3) == 0 {
			wait = 20 * time.Second
		}
		ctx, cancel := context.WithTimeout(p.owner, wait)
		var lease time.Duration
		if p.random.IntN(2) == 0 {
			lease = 100*time.Millisecond + p.upTo(majorityLease-100*time.Millisecond)
		}
		had := false
		switch p.random.IntN(3) {
		case 0:
			had = p.byName(ctx, lease)
		case 1:
			had = p.byHandle(ctx, lease)
		default:
			had = p.byHandle(rlock.WithOwner(ctx, rlock.Owner(0)), lease)
		}
		cancel()
		assert.True(p.T, had || !last, "the lock was not granted")
		p.hasLevels(0, 0)
	}
}

// byName takes the lock as its owner; if it has no time to wait, it tries once.
func (p *majorityUser) byName(ctx context.Context, lease time.Duration) bool {
	if had, err := p.lock.TryLockFor(ctx, time.Hour, lease); err != nil {
		p.hasLevels(0, 0)
		if !p.tries(lease) {
			return false
		}
	} else {
		assert.True(p.T, had)
	}
	g := heldLock{
		held:    func() (time.Duration, bool) { return 0, p.lock.IsHeld(p.owner) },
		mine:    true,
		release: p.lock.Unlock,
	}
	g.token, _ = p.lock.Token(p.owner) // 0 if the hold has none, or was lost
	p.have(g)
	return true
}

// tries makes one attempt while an answer to the last one may be on its way, and checks that
// the owner has no level before the attempt succeeds.
func (p *majorityUser) tries(lease time.Duration) bool {
	over := make(chan struct{})
	most := p.count(over)
	had, _ := p.lock.TryLockFor(p.owner, 0, lease)
	close(over)
	if n := <-most; !had {
		assert.Zero(p.T, n, "a level without a grant")
	} else {
		assert.LessOrEqual(p.T, n, 1)
	}
	return had
}

// count returns the largest number of levels that the owner had until over.
func (p *majorityUser) count(over <-chan struct{}) <-chan int {
	counted, pause := make(chan int), p.upTo(20*time.Millisecond)
	go func() {
		most := 0
		for {
			most = max(most, p.lock.HoldCount(p.owner))
			select {
			case <-over:
				counted <- most
				return
			case <-time.After(pause):
			}
		}
	}()
	return counted
}

// byHandle takes the lock as the owner in the context.
func (p *majorityUser) byHandle(ctx context.Context, lease time.Duration) bool {
	hold, err := p.lock.Acquire(ctx, rlock.WithLease(lease))
	if err != nil {
		return false
	}
	g := p.gripOf(hold)
	if left, _ := g.held(); lease > 0 {
		assert.LessOrEqual(p.T, left, lease, "the lease is longer than asked for")
	}
	p.have(g)
	return true
}

func (p *majorityUser) gripOf(h *rlock.Hold) heldLock {
	held := func() (time.Duration, bool) {
		until := h.ValidUntil()
		return max(time.Until(until), 0), !until.IsZero()
	}
	owner, _ := rlock.OwnerFrom(p.owner)
	mine, _ := rlock.OwnerFrom(h.Context())
	token, _ := h.Token() // 0 if the hold has none
	return heldLock{held, h.Context().Done(), mine == owner, token, h.Release}
}

// have keeps the lock for a while, perhaps takes it once more inside, and releases it.
func (p *majorityUser) have(g heldLock) {
	b := belief{from: time.Now(), token: g.token, team: p.team}
	_, is := g.held()
	assert.True(p.T, is, "the acquire succeeded, but the lock is not held")
	b.to = p.keep(g)
	if g.mine && g.done != nil && p.random.IntN(3) == 0 {
		hold, err := p.lock.Acquire(p.owner, rlock.WithWait(0))
		if _, is := g.held(); is {
			assert.NoError(p.T, err, "a nested lock sends no command")
			b.to = time.Now()
		}
		if err == nil {
			inner := p.gripOf(hold)
			p.keep(inner, g)
			p.over(inner.release(p.owner))
			if to := p.keep(g); !to.IsZero() {
				b.to = to
			}
		}
	}
	if b.from.Before(b.to) {
		p.mu.Lock()
		p.beliefs = append(p.beliefs, b)
		p.mu.Unlock()
	}
	p.over(g.release(p.owner))
}

// keep holds a heldLock inside of others for a while, and checks each report of the hold
// against the servers. It returns the time of the last valid report, zero if there is none.
func (p *majorityUser) keep(g heldLock, around ...heldLock) (to time.Time) {
	all := append(around, g)
	for until := time.Now().Add(p.upTo(200 * time.Millisecond << max(p.random.IntN(8)-4, 0))); ; {
		left, is := g.held()
		if !is {
			return to
		}
		to = time.Now()
		before, shown, n := levels(all), p.shows(p.team), p.lock.HoldCount(p.owner)
		if after, is := g.held(); is && levels(all) == before {
			left = min(left, after) // a lease may have been shortened or renewed meanwhile
			shown = slices.DeleteFunc(shown, func(d time.Duration) bool { return d < left })
			assert.GreaterOrEqual(p.T, len(shown), p.need, "too few servers show the hold, which has %v left", left)
			assert.Equal(p.T, before, n, "levels")
		}
		if !to.Before(until) {
			return to
		}
		select {
		case <-g.done:
			return time.Now()
		case <-time.After(p.upTo(20 * time.Millisecond)):
		}
	}
}

// hasLevels asserts how many levels the owner has.
func (p *majorityUser) hasLevels(atLeast, atMost int) {
	n := p.lock.HoldCount(p.owner)
	assert.True(p.T, atLeast <= n && n <= atMost, "%d levels, want %d to %d", n, atLeast, atMost)
}

// over asserts that the release of a hold returns one of the documented errors.
func (p *majorityUser) over(err error) {
	assert.True(p.T, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), "%v", err)
}

const step = 5 * time.Millisecond

// A heldLock is a majorityUser's hold of the lock.
type heldLock struct {
	held    func() (left time.Duration, is bool) // left is the certain minimum
	done    <-chan struct{}
	mine    bool // a level of the majorityUser, not of the handle itself
	token   uint64
	release func(context.Context) error
}

// levels returns how many of the heldLocks are held levels of the majorityUser.
func levels(heldLocks []heldLock) (n int) {
	for _, g := range heldLocks {
		if _, is := g.held(); is && g.mine {
			n++
		}
	}
	return n
}
