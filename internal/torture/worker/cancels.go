package worker

import (
	"sync"
	"time"
)

// What is measured at rest: so many calls that wait for a lock which another
// holds, each given up after a random time.
const (
	cancelled    = 200
	cancelAtMost = 100 * time.Millisecond
)

// cancels measures how soon a call returns whose context has ended. Workers
// are asked one at a time, so that nobody else is about.
func (w *worker) cancels() (c Cancels) {
	lock := w.client.NewLock("torture:cancels:" + w.name)
	hold, err := lock.Acquire(w.ctx)
	if err != nil {
		return c
	}
	defer hold.Release(w.ctx)
	var (
		mu  sync.Mutex
		all sync.WaitGroup
	)
	for _, h := range w.hands {
		for range cancelled / len(w.hands) {
			g := giveUpAfter(w.ctx, h.upTo(cancelAtMost))
			all.Go(func() {
				defer g.cancel()
				if _, err := lock.Acquire(g.ctx); err == nil {
					return // a lock that is held: the history has it
				}
				late, bare, ok := g.returned()
				mu.Lock()
				defer mu.Unlock()
				if ok {
					c.Calls, c.Bare = append(c.Calls, late), append(c.Bare, bare)
				}
			})
		}
	}
	all.Wait()
	return c
}
