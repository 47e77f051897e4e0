package driver

import (
	"context"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// An until is the context of a command that its call may leave behind: it ends with the context of the caller, or when
// the call has its outcome otherwise, as by Close. It is used again by the next command, unless it has ended: so a call
// whose context cannot end allocates nothing, and its goroutine waits at no channel that others wait at.
type until struct {
	context.Context // the caller's
	onEnd           func()

	mu    sync.Mutex // protects following
	ended bool
	done  chan struct{} // closed by end
	told  wire.Turn     // that is left by then, the zero Turn for none
}

func newUntil() *until {
	u := &until{done: make(chan struct{})}
	u.onEnd = u.end
	return u
}

var _ wire.Leaver = (*until)(nil)

// begin ends u with the context of a caller. stop ends that, and reports whether u has not ended by
// it.
func (u *until) begin(ctx context.Context) (stop func() bool) {
	u.Context = ctx
	if ctx.Done() == nil {
		return never
	}
	return context.AfterFunc(ctx, u.onEnd)
}

func never() bool { return true }

// end ends the context. It is called without a mutex of a shard.
func (u *until) end() {
	u.mu.Lock()
	if !u.ended {
		u.ended = true
		close(u.done)
	}
	told := u.told
	u.mu.Unlock()
	told.Leave()
}

func (u *until) hasEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// Done implements [context.Context], as Err.
func (u *until) Done() <-chan struct{} { return u.done }

func (u *until) Err() error {
	if err := u.Context.Err(); err != nil || !u.hasEnded() {
		return err
	}
	return context.Canceled
}

// Leaves implements [wire.Leaver].
func (u *until) Leaves(t wire.Turn) {
	u.mu.Lock()
	u.told = t
	ended := u.ended
	u.mu.Unlock()
	if ended {
		t.Leave()
	}
}
