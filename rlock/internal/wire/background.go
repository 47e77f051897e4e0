package wire

import (
	"context"
	"fmt"
	"sync"
)

// A background is the goroutines that work for a client in the background. Close waits for
// them. The zero value is ready for use.
type background struct {
	mu      sync.Mutex // protects following
	closed  bool
	running sync.WaitGroup // only Add needs the mutex
}

// start calls work in a goroutine of its own, and reports whether it did: one that
// is closed starts nothing.
func (b *background) start(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(work)
	}
	return !b.closed
}

// close returns when all goroutines have ended. None is started after it was called.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// inBackground returns the result of work, or an error once ctx ends: the work goes on then,
// and keeps its place until it has ended.
func inBackground[T any](ctx context.Context, r *Redis, place *Limit, work func() T) (result T, err error) {
	landed := make(chan T, 1)
	started := r.background.start(func() {
		defer place.Leave()
		landed <- work()
	})
	if !started {
		place.Leave()
		return result, ErrClosed
	}
	select {
	case result = <-landed:
		return result, nil
	case <-ctx.Done():
		return result, fmt.Errorf("no answer: %w", ctx.Err())
	}
}
