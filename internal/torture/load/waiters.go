package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/rlock"
)

// In crowd that number of goroutines of one client wait for one lock.
func crowd(s *stage.Stage, waiters int) (*report.Load, error) {
	l := &report.Load{What: fmt.Sprintf("%d goroutines wait for one lock", waiters), Wanted: int64(waiters)}
	return l, within(s, l, 1, func(ctx context.Context, clients []*rlock.Client) error {
		lock := clients[0].NewLock("torture:crowd")
		hold, err := lock.Acquire(ctx)
		if err != nil {
			return err
		}
		return wait(ctx, l, waiters, func(int) *rlock.Lock { return lock }, func() error { return hold.Release(ctx) })
	})
}

// locks has a goroutine of one client wait for each of n locks, which another client holds.
func locks(s *stage.Stage, n int) (*report.Load, error) {
	l := &report.Load{What: fmt.Sprintf("a waiter for each of %d locks", n), Wanted: int64(n)}
	return l, within(s, l, 2, func(ctx context.Context, clients []*rlock.Client) error {
		name := func(i int) string { return "torture:lock:" + strconv.Itoa(i) }
		holds := make([]*rlock.Hold, n)
		err := each(n, func(i int) (err error) {
			holds[i], err = clients[1].NewLock(name(i)).Acquire(ctx)
			return err
		})
		if err != nil {
			return err
		}
		return wait(ctx, l, n, func(i int) *rlock.Lock { return clients[0].NewLock(name(i)) }, func() error {
			return each(n, func(i int) error { return holds[i].Release(ctx) })
		})
	})
}

// wait has n goroutines wait for locks that are held, frees the locks, and counts the
// goroutines that are served.
func wait(ctx context.Context, l *report.Load, n int, lock func(int) *rlock.Lock, free func() error) error {
	var served, lost atomic.Int64
	waiting := make(chan error)
	go func() {
		waiting <- each(n, func(i int) error {
			hold, err := lock(i).Acquire(ctx)
			if err != nil {
				return err
			}
			served.Add(1)
			if !hold.Valid() {
				lost.Add(1)
			}
			return hold.Release(ctx)
		})
	}()
	for begin := time.Now(); runtime.NumGoroutine() < n && time.Since(begin) < time.Minute; {
		time.Sleep(10 * time.Millisecond) // until all have come
	}
	l.Look()
	err := errors.Join(free(), <-waiting)
	l.Served, l.Lost = served.Load(), lost.Load()
	return err
}

// each calls do for 0 to n-1, in a goroutine each, and returns the first error.
func each(n int, do func(int) error) error {
	var all sync.WaitGroup
	failed := make(chan error, 1)
	for i := range n {
		all.Go(func() {
			if err := do(i); err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}
