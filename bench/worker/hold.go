package worker

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
)

// holders is how many goroutines take the locks: some take a lock in the name of
// the goroutine, which must then be the one that gives it back.
const holders = 64

// takePatience is how long it may take to take all locks. A contender whose Lock
// of a free lock does not return is reported so.
const takePatience = 45 * time.Second

// holds is what a worker of Kind Hold has taken.
type holds struct {
	release chan struct{} // closed when the locks are to be given back
	done    sync.WaitGroup

	mu   sync.Mutex // protects following
	lost int64      // whose Unlock failed
	err  error      // of the last of them
}

// take takes all locks and measures what they weigh.
func (w *worker) take() (*holds, error) {
	h := &holds{release: make(chan struct{})}
	memory, goroutines := weigh()
	taken := make(chan error, holders)
	for i := range holders {
		h.done.Go(func() {
			var held []contender.Mutex
			var err error
			for lock := i; lock < w.Locks && err == nil; lock += holders {
				m := w.clients[0].Mutex(w.name(lock))
				if err = m.Lock(w.ctx); err == nil {
					held = append(held, m)
				}
			}
			taken <- err
			<-h.release
			for _, m := range held {
				if err := m.Unlock(); err != nil {
					h.mu.Lock()
					h.lost++
					h.err = err
					h.mu.Unlock()
				}
			}
		})
	}
	var err error
	patience := time.After(takePatience)
	for range holders {
		select {
		case failed := <-taken:
			if failed != nil {
				err = failed
			}
		case <-patience:
			return h, fmt.Errorf("worker: %s: of %d free locks not all were acquired in %v: a Lock has not returned", w.Contender, w.Locks, takePatience)
		}
	}
	after, now := weigh()
	w.report.BytesPerLock = float64(after-memory) / float64(w.Locks)
	w.report.Goroutines = now - goroutines - holders
	if err != nil {
		close(h.release)
		return h, fmt.Errorf("worker: %s: taking %d locks: %w", w.Contender, w.Locks, err)
	}
	return h, nil
}

// weigh returns the bytes of heap and stacks in use, and the goroutines.
func weigh() (bytes int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// giveBack waits until the benchmark has looked at the locks and says a line
// more, and gives them back.
func (w *worker) giveBack() error {
	if _, err := w.more.ReadBytes('\n'); err != nil {
		return fmt.Errorf("worker: no word to release: %w", err)
	}
	close(w.holds.release)
	w.holds.done.Wait()
	w.report.Lost = w.holds.lost
	if w.holds.lost > 0 {
		w.report.FirstFailure = w.holds.err.Error()
	}
	return nil
}
