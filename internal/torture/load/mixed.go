package load

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

const (
	// looks is how often the mixed load is stopped for a look.
	looks = 10
	// mixedLocks is the number of its locks.
	mixedLocks = 100
)

// mixed has many processes lock for a long time, and looks at them now and then while they
// rest.
func mixed(s *stage.Stage, size Size, seed uint64, say func(string, ...any)) (*report.Load, error) {
	l := &report.Load{What: fmt.Sprintf("%d processes of %d goroutines, mixed", size.Processes, size.Workers), Tries: true}
	names := make([]string, mixedLocks)
	for i := range names {
		names[i] = "torture:mixed:" + strconv.Itoa(i)
	}
	for i := range size.Processes {
		_, err := s.Hire(worker.Role, limit, func(life int) any {
			return worker.Job{
				Address: s.AddressOf(i), Seed: seed, Worker: i, Life: life, Goroutines: size.Workers,
				Names: names, Lease: lease, Calm: true,
			}
		})
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
	}
	began := time.Now()
	for range looks {
		time.Sleep(size.Mixed / looks) // even after a look that took long
		settled, err := stage.AskAll[worker.Settled](s, "settle")
		if err != nil {
			return nil, err
		}
		idle, err := stage.AskAll[worker.Idle](s, "idle")
		if err != nil {
			return nil, err
		}
		sight := report.Sight{}
		for i := range idle {
			l.Wanted += settled[i].Calls
			l.Served += settled[i].Acquired
			l.Lost += settled[i].Lost + int64(len(settled[i].Hung))
			sight.Goroutines += idle[i].Goroutines
			sight.Heap += idle[i].Heap
		}
		l.Sights = append(l.Sights, sight)
		say("%s: %d acquired, %d goroutines, %d KiB of heap", l.What, l.Served, sight.Goroutines, sight.Heap>>10)
		if _, err := stage.AskAll[worker.Done](s, "storm"); err != nil {
			return nil, err
		}
	}
	l.Took = time.Since(began)
	ended, err := stage.AskAll[worker.Ended](s, "end")
	for _, e := range ended {
		err = errors.Join(err, e.Err())
	}
	return l, err
}
