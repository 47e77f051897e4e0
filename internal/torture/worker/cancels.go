package worker

import (
	"sync"
	"time"
)

// The measurement at rest: a number of calls that wait for a held lock, each cancelled after
// a random time.
const (
	cancelled    = 200
	cancelAtMost = 100 * time.Millisecond
)

// cancels measures how soon a call returns after the end of its context. One worker is asked
// at a time, so that the others are idle.
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
	for i := range cancelled {
		g := giveUpAfter(w.ctx, w.hands[i%len(w.hands)].upTo(cancelAtMost))
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
	all.Wait()
	return c
}
