package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/bench/contender"
)

// beside is a single goroutine that compares the contender with the floor in short blocks
// that take turns, since a round trip on one machine may take 30 us for some seconds and 130
// us for the next. A section is one pair of the contender's; the pairs of the floor are for
// comparison only.
func (r *runner) beside() {
	// The same goroutines do all blocks: new ones would have to grow their stacks.
	blocks := make(chan func())
	defer close(blocks)
	for range r.Goroutines {
		go func() {
			for do := range blocks {
				do()
			}
		}()
	}
	ours, floor := r.mutexes(r.clients[0], r.Prefix), r.mutexes(r.clients[1], r.Prefix+":floor")
	for floorFirst := true; time.Now().Before(r.end); floorFirst = !floorFirst {
		var raw float64
		if floorFirst {
			_, raw = r.block(floor, blocks)
		}
		pairs, rate := r.block(ours, blocks)
		if !floorFirst {
			_, raw = r.block(floor, blocks)
		}
		if raw == 0 || rate == 0 {
			return
		}
		r.sections += pairs
		r.mu.Lock()
		r.report.Beside = append(r.report.Beside, rate/raw)
		r.mu.Unlock()
	}
}

// mutexes returns a handle for each goroutine of a block.
func (r *runner) mutexes(client contender.Client, prefix string) (all []contender.Mutex) {
	for i := range r.Goroutines {
		all = append(all, client.Mutex(fmt.Sprintf("%s:%d", prefix, i%r.Locks)))
	}
	return all
}

// block locks and unlocks each of the mutexes again and again, in a goroutine each. It
// returns how often they did, in all and a second; 0 after a failure.
func (r *runner) block(mutexes []contender.Mutex, blocks chan<- func()) (n int64, rate float64) {
	var all sync.WaitGroup
	var pairs atomic.Int64
	var failed atomic.Bool
	began := time.Now()
	for _, m := range mutexes {
		all.Add(1)
		blocks <- func() {
			defer all.Done()
			n := int64(0)
			for ; time.Since(began) < r.Block; n++ {
				err := m.Lock(r.ctx)
				if err == nil {
					err = m.Unlock()
				}
				if err != nil {
					failed.Store(true)
					r.failed(err)
					return
				}
			}
			pairs.Add(n)
		}
	}
	all.Wait()
	if failed.Load() {
		return 0, 0
	}
	return pairs.Load(), float64(pairs.Load()) / time.Since(began).Seconds()
}
