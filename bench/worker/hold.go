package worker

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
)

// holders is the number of goroutines that take the locks: for some contenders the goroutine
// that takes a lock must also release it.
const holders = 64

const (
	// When no lock has been taken for so many stalls of the job, the rest is given up. A
	// contender whose Lock of a free lock does not return is reported with the number of
	// locks that it took.
	takeStalls = 3
	// takePatience is how long it may take to take all of them.
	takePatience = 20 * time.Second
	// Locks that cannot be released in so many stalls are counted.
	giveStalls = 5
)

// holds is the locks of a worker of Kind Hold.
type holds struct {
	release chan struct{} // closed when the locks are to be given back
	taken   atomic.Int64
	given   atomic.Int64 // Unlocks that have returned, with or without an error
	done    sync.WaitGroup

	mu   sync.Mutex // guards the fields below
	lost int64      // holds whose Unlock failed
	err  error      // of the last of them
}

// take takes all locks and measures their memory.
func (w *worker) take() (*holds, error) {
	h := &holds{release: make(chan struct{})}
	memory, goroutines := weigh()
	taken := make(chan error, holders)
	for i := range holders {
		h.done.Go(func() {
			var held []contender.Mutex
			var err error
			for lock := i; lock < w.Locks && err == nil; lock += holders {
				m := w.client.Mutex(w.name(lock))
				if err = m.Lock(w.ctx); err == nil {
					held = append(held, m)
					h.taken.Add(1)
				}
			}
			taken <- err
			<-h.release
			for _, m := range held {
				err := m.Unlock()
				h.given.Add(1)
				if err != nil {
					h.mu.Lock()
					h.lost++
					h.err = err
					h.mu.Unlock()
				}
			}
		})
	}
	err := w.awaitTaken(h, taken)
	if err != nil {
		close(h.release)
		return h, err
	}
	after, now := weigh()
	w.report.BytesPerLock = float64(after-memory) / float64(w.Locks)
	w.report.Goroutines = now - goroutines - holders
	return h, nil
}

// awaitTaken waits until all holders have reported their locks, as long as locks are taken.
func (w *worker) awaitTaken(h *holds, taken <-chan error) error {
	began := time.Now()
	look := time.NewTicker(w.Stall / 10)
	defer look.Stop()
	var failed error
	seen, progress := int64(0), began
	for left := holders; left > 0; {
		select {
		case err := <-taken:
			left--
			failed = cmp.Or(failed, err)
		case now := <-look.C:
			if n := h.taken.Load(); n > seen {
				seen, progress = n, now
			}
			if now.Sub(progress) > takeStalls*w.Stall || now.Sub(began) > takePatience {
				return fmt.Errorf("worker: %s: took %d of %d free locks in %v, the last of them %v ago: a Lock has not returned",
					w.Contender, seen, w.Locks, now.Sub(began).Round(time.Second/10), now.Sub(progress).Round(time.Second/10))
			}
		}
	}
	if failed != nil {
		return fmt.Errorf("worker: %s: took %d of %d free locks: %w", w.Contender, h.taken.Load(), w.Locks, failed)
	}
	return nil
}

// weigh returns the bytes of heap and stacks in use, and the goroutines.
func weigh() (bytes int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// giveBack waits until the benchmark has looked at the locks and sends another line, and then
// releases as many locks as possible within its time limit.
func (w *worker) giveBack() error {
	if _, err := w.more.ReadBytes('\n'); err != nil {
		return fmt.Errorf("worker: no word to release: %w", err)
	}
	h := w.holds
	close(h.release)
	given := make(chan struct{})
	go func() {
		h.done.Wait()
		close(given)
	}()
	select {
	case <-given:
	case <-time.After(giveStalls * w.Stall):
	}
	w.report.Kept = h.taken.Load() - h.given.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.report.Lost = h.lost; h.lost > 0 {
		w.report.FirstFailure = h.err.Error()
	}
	return nil
}
