package worker

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// A hand is one goroutine of a worker.
type hand struct {
	worker *worker
	number int
	share  *share
	random *rand.Rand
	told   sync.WaitGroup // the goroutines that wait for a loss

	doing atomic.Pointer[doing] // the call under way that is not cancelled, nil if there is none

	mu   sync.Mutex // protects following
	seen Settled
}

// A doing is a call that has begun.
type doing struct {
	what  string
	since time.Time
}

// work visits locks until the worker ends.
func (h *hand) work() {
	for h.worker.gate.pass() {
		if h.share.await(h.worker.gate.closing()) {
			h.visit()
			h.told.Wait()
		}
	}
}

// visit tries to get a lock once, and uses it if it gets it.
func (h *hand) visit() {
	w := h.worker
	v := &visit{hand: h, lock: h.choose(h.share.name(h))}
	ctx := w.ctx
	switch h.random.IntN(3) {
	case 0:
		v.owner = fmt.Sprintf("%s/g%d", w.name, h.number)
	case 1:
		owner := rlock.NewOwner()
		v.owner, ctx = fmt.Sprintf("%s/%v", w.name, owner), rlock.WithOwner(ctx, owner)
		v.carried = true
	case 2: // a handle's
	}
	if h.in(5000) {
		v.force(ctx)
		return
	}
	v.level(ctx, 1, nil)
}

// note changes the counts.
func (h *hand) note(change func(*Settled)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.seen)
}

// tell adds the counts since the last call to s. hung means that the hand should have come to
// rest.
func (h *hand) tell(s *Settled, hung bool) {
	h.mu.Lock()
	seen := h.seen
	h.seen = Settled{}
	h.mu.Unlock()
	s.Calls += seen.Calls
	s.Acquired += seen.Acquired
	s.Lost += seen.Lost
	if seen.Longest.For > s.Longest.For {
		s.Longest = seen.Longest
	}
	s.Cancels.Calls = append(s.Cancels.Calls, seen.Cancels.Calls...)
	s.Cancels.Bare = append(s.Cancels.Bare, seen.Cancels.Bare...)
	if d := h.doing.Load(); hung && d != nil {
		s.Hung = append(s.Hung, fmt.Sprintf("%s, for %v", d.what, time.Since(d.since).Round(time.Millisecond)))
	}
}

// upTo returns a random time below limit.
func (h *hand) upTo(limit time.Duration) time.Duration {
	return time.Duration(h.random.Int64N(int64(limit)))
}

// in reports true once in n times.
func (h *hand) in(n int) bool { return h.random.IntN(n) == 0 }
