package programs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A sight is what the Observer was told of a call for a lock, and of the end of its hold.
type sight struct {
	waiting, acquired, gaveUp int
	released, lost            int
	vanished                  bool // the call, or the function of Do, has not returned
	reason                    error
	owner                     rlock.Owner   // the owner that has acquired the lock
	since                     time.Duration // the time at which it has
	gives                     string        // the method that gives the level back
	gave                      time.Duration // the time at which the method was called
}

// A loser is an owner that lost a lock, or from whom Close took it.
type loser struct {
	name  string
	owner rlock.Owner
}

// An observed has what the Observer of a client was told.
type observed struct {
	m *member

	// The mutex of the run guards the fields below.
	opened, closed, missed int
	answered, denied       int64
	by                     map[rlock.AcquiredBy]int64
	lost                   map[rlock.LossReason]int64
	losers                 map[loser]int
	overSeveral            bool // the client was used for a lock over several
}

func newObserved(m *member) *observed {
	return &observed{m: m, by: make(map[rlock.AcquiredBy]int64), lost: make(map[rlock.LossReason]int64), losers: make(map[loser]int)}
}

// hooks returns the Observer. Some of the hooks call the client.
func (b *observed) hooks() *rlock.Observer {
	r := b.m.run
	locked := func(hook string, do func()) {
		r.face.call("rlock.Observer." + hook)
		r.mu.Lock()
		defer r.mu.Unlock()
		do()
	}
	of := func(ctx context.Context, i rlock.LockInfo) (*sight, *call) {
		if i.Client == nil {
			r.problem("an Observer is not told the client")
		}
		k, ok := ctx.Value(callKey{}).(*call)
		if !ok {
			return &sight{}, nil // a call of another package
		}
		if l := k.lock; string(i.Kind) != l.Kind || !l.group() && i.Name != l.Name || i.Client != k.m.main() {
			r.problem("%s: an Observer is told of %+v", k, i)
		}
		return &k.seen, k
	}
	contended := func(s *sight, k *call, told bool) {
		if k != nil && told != (s.waiting > 0) {
			r.problems = append(r.problems, fmt.Sprintf("%s: an Observer is told Contended %v after %d Waiting", k, told, s.waiting))
		}
	}
	return &rlock.Observer{
		Opened: func(*rlock.Client) { locked("Opened", func() { b.opened++ }) },
		Closed: func(*rlock.Client) { locked("Closed", func() { b.closed++ }) },
		Missed: func(n int) { locked("Missed", func() { b.missed += n }) },
		Waiting: func(ctx context.Context, i rlock.WaitingInfo) {
			r.face.call("rlock.Kind " + string(i.Kind))
			s, _ := of(ctx, i.LockInfo)
			_ = inspect.Of(i.Client).Stats()
			locked("Waiting", func() { s.waiting++ })
		},
		Acquired: func(ctx context.Context, i rlock.AcquiredInfo) {
			r.face.call("rlock.Kind " + string(i.Kind))
			r.face.call("rlock.AcquiredBy " + string(i.AcquiredBy))
			s, k := of(ctx, i.LockInfo)
			now := r.now()
			if k != nil && !k.lock.group() {
				if since := now - k.began; r.ground.Virtual && (i.Waited > since || k.outer == nil && i.Waited < since-k.pauses-ms) {
					r.problem("%s: the Observer is told that it waited for %v of %v", k, i.Waited, since)
				}
				if resumed := i.AcquiredBy == rlock.ByPass; resumed != (k.verb == "rlock.Client.Resume") || k.outer == nil && i.AcquiredBy == rlock.ByNesting {
					r.problem("%s: the Observer is told that it was acquired by %s", k, i.AcquiredBy)
				}
			}
			if i.Waited < 0 || i.Owner == 0 || i.Name == "" {
				r.problem("an Observer is told of an acquire %+v", i)
			}
			locked("Acquired", func() {
				s.acquired++
				s.owner, s.since = i.Owner, now
				contended(s, k, i.Contended)
				b.by[i.AcquiredBy]++
			})
		},
		Answered: func(ctx context.Context, i rlock.AnsweredInfo) {
			if k, ok := ctx.Value(callKey{}).(*call); ok || i.Waited < 0 {
				r.problem("an Observer is told that %v is answered: %+v", k, i)
			}
			locked("Answered", func() { b.answered++ })
		},
		GaveUp: func(ctx context.Context, i rlock.GaveUpInfo) {
			s, k := of(ctx, i.LockInfo)
			if i.Err == nil {
				r.problem("an Observer is told no error of a call that gave up")
			}
			locked("GaveUp", func() {
				s.gaveUp++
				s.reason = i.Err
				if errors.Is(i.Err, rlock.ErrNotAcquired) {
					b.denied++
				}
				contended(s, k, i.Contended)
			})
		},
		Released: func(ctx context.Context, i rlock.ReleasedInfo) {
			s, k := of(ctx, i.LockInfo)
			if k != nil {
				k.judgeReleased(i)
			}
			locked("Released", func() {
				s.released++
				if errors.Is(i.Err, rlock.ErrUnconfirmed) {
					r.unanswered[i.Name] = r.now()
				}
				if errors.Is(i.Err, rlock.ErrClosed) { // Close has another context
					b.losers[loser{i.Name, i.Owner}]++
				}
			})
		},
		Lost: func(ctx context.Context, i rlock.LostInfo) {
			r.face.call("rlock.LossReason " + string(i.Reason))
			s, _ := of(ctx, i.LockInfo)
			if !errors.Is(i.Err, rlock.ErrLost) {
				r.problem("an Observer is told %v of a loss", i.Err)
			}
			locked("Lost", func() {
				s.lost++
				b.lost[i.Reason]++
				b.losers[loser{i.Name, i.Owner}]++
			})
		},
		Renewed: func(i rlock.RenewedInfo) {
			if i.Failed > i.Locks || i.Kept > i.Locks || i.Took < 0 || i.Locks == 0 {
				r.problem("an Observer is told of renewals %+v", i)
			}
			locked("Renewed", func() {})
		},
	}
}

// judgeSights judges what the Observers were told, when all clients are closed.
func (r *Run) judgeSights() {
	time.Sleep(time.Second) // the last calls come in a goroutine
	r.mu.Lock()
	calls := append([]*grant(nil), r.grants...)
	r.mu.Unlock()
	for _, g := range calls {
		s := &g.call.seen
		switch {
		case s.vanished || g.call.m.observed.missed > 0:
		case g.call.lock.group() && g.call.m.closes.Load() && g.ended >= g.call.m.closed: // the client of its first part may have closed before
		case s.acquired != 1 || s.gaveUp != 0 || s.waiting > 1:
			r.problem("%s: the Observer was told %d Waiting, %d Acquired, %d GaveUp", g.call, s.waiting, s.acquired, s.gaveUp)
		case s.released > 1 || s.lost > 1 || s.released+s.lost > 1:
			r.problem("%s: the Observer was told %d Released and %d Lost", g.call, s.released, s.lost)
		case s.released+s.lost == 0 && g.call.m.observed.losers[loser{g.lock.Name(), s.owner}] == 0: // the first of an owner's levels
			r.problem("%s: the Observer was told nothing of its end, which is %v", g.call, g.endedBy)
		}
	}
}

// judgeGivenUp judges what the Observer was told of a call that has failed.
func (k *call) judgeGivenUp(err error) {
	r := k.c.run
	r.mu.Lock()
	s := k.seen
	r.mu.Unlock()
	if s.acquired > 0 || s.gaveUp != 1 || s.waiting > 1 {
		r.problem("%s: the Observer was told %d Waiting, %d Acquired, %d GaveUp of a call that returned %v", k, s.waiting, s.acquired, s.gaveUp, err)
	}
	if err == nil && !errors.Is(s.reason, rlock.ErrNotAcquired) {
		r.problem("%s: the Observer was told %v of a call that returned false", k, s.reason)
	}
	if err != nil && s.reason != nil && !errors.Is(err, s.reason) && err.Error() != s.reason.Error() {
		r.problem("%s: the Observer was told %v, and the caller %v", k, s.reason, err)
	}
}

// judgeReleased judges what the Observer is told of the end of a hold.
func (k *call) judgeReleased(i rlock.ReleasedInfo) {
	r := k.c.run
	if errors.Is(i.Err, rlock.ErrClosed) { // by Close, perhaps before the call knows that it was granted the lock
		return
	}
	r.mu.Lock()
	s := k.seen
	r.mu.Unlock()
	held := r.now() - s.since + k.pauses // a progress function may block after the grant
	if i.Owner != s.owner || i.Passed != (s.gives == "rlock.Hold.Pass" && i.Err == nil) {
		r.problem("%s: the Observer is told that it is released: %+v", k, i)
	}
	if alone := k.outer == nil && !k.lock.group(); i.Held < 0 || alone && r.ground.Virtual && (i.Held > held || s.gives != "" && !k.hosts && i.Held < s.gave-s.since) {
		r.problem("%s: the Observer is told that it was held for %v, and not for %v", k, i.Held, held)
	}
}
