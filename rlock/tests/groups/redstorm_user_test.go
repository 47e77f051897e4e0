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
		if p.random.IntN(2) == 0 {
			ctx = rlock.WithOwner(ctx, rlock.Owner(0))
		}
		had := p.take(ctx, lease)
		cancel()
		assert.True(p.T, had || !last, "the lock was not granted")
		assert.Zero(p.T, p.lock.HoldCount(p.owner), "levels")
	}
}

// take takes the lock as the owner in the context.
func (p *majorityUser) take(ctx context.Context, lease time.Duration) bool {
	hold, err := p.lock.Acquire(ctx, rlock.WithLease(lease))
	if err != nil {
		return false
	}
	g := p.levelOf(hold)
	if left, _ := g.left(); lease > 0 {
		assert.LessOrEqual(p.T, left, lease, "the lease is longer than asked for")
	}
	p.have(g)
	return true
}

// have keeps the lock for a while, perhaps takes it once more inside, and releases it.
func (p *majorityUser) have(g level) {
	b := belief{from: time.Now(), team: p.team}
	b.token, _ = g.Token() // 0 if the hold has none
	assert.True(p.T, g.Valid(), "the acquire succeeded, but the lock is not held")
	b.to = p.keep(g)
	if g.mine && p.random.IntN(3) == 0 {
		hold, err := p.lock.Acquire(p.owner, rlock.WithWait(0))
		if g.Valid() {
			assert.NoError(p.T, err, "a nested lock sends no command")
			b.to = time.Now()
		}
		if err == nil {
			p.keep(p.levelOf(hold), g)
			p.over(hold.Release(p.owner))
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
	p.over(g.Release(p.owner))
}

// keep holds a level inside of others for a while, and checks each report of the hold
// against the servers. It returns the time of the last valid report, zero if there is none.
func (p *majorityUser) keep(g level, around ...level) (to time.Time) {
	all := append(around, g)
	for until := time.Now().Add(p.upTo(200 * time.Millisecond << max(p.random.IntN(8)-4, 0))); ; {
		left, is := g.left()
		if !is {
			return to
		}
		to = time.Now()
		before, shown, n := levels(all), p.shows(p.team), p.lock.HoldCount(p.owner)
		if after, is := g.left(); is && levels(all) == before {
			left = min(left, after) // a lease may have been shortened or renewed meanwhile
			shown = slices.DeleteFunc(shown, func(d time.Duration) bool { return d < left })
			assert.GreaterOrEqual(p.T, len(shown), p.need, "too few servers show the hold, which has %v left", left)
			assert.Equal(p.T, before, n, "levels")
		}
		if !to.Before(until) {
			return to
		}
		select {
		case <-g.Context().Done():
			return time.Now()
		case <-time.After(p.upTo(20 * time.Millisecond)):
		}
	}
}

// over asserts that the release of a hold returns one of the documented errors.
func (p *majorityUser) over(err error) {
	assert.True(p.T, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), "%v", err)
}

const step = 5 * time.Millisecond

// A level is a hold of the lock.
type level struct {
	*rlock.Hold
	mine bool // it is the user's, and not the handle's own
}

func (p *majorityUser) levelOf(h *rlock.Hold) level {
	owner, _ := rlock.OwnerFrom(p.owner)
	of, _ := rlock.OwnerFrom(h.Context())
	return level{h, of == owner}
}

// left is the certain minimum.
func (g level) left() (left time.Duration, is bool) {
	until := g.ValidUntil()
	return max(time.Until(until), 0), !until.IsZero()
}

// levels returns how many of them are held by the user.
func levels(all []level) (n int) {
	for _, g := range all {
		if g.mine && g.Valid() {
			n++
		}
	}
	return n
}
