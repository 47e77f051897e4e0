package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// A machine has a client of its own, as every process has.
type machine struct {
	client *rlock.Client
	locked atomic.Int64 // how often its workers had a lock
}

// work makes the machines work until ctx ends, and returns how often they had a lock.
func work(ctx context.Context, machines []*machine) (acquired int) {
	var workers sync.WaitGroup
	loop := func(visit func(context.Context) error) {
		workers.Go(func() {
			for ctx.Err() == nil {
				if err := visit(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, rlock.ErrLost) && !errors.Is(err, rlock.ErrNotAcquired) {
					log.Print("observed: ", err)
				}
			}
		})
	}
	for i, m := range machines {
		for range 4 {
			loop(m.order)
		}
		loop(m.report)
		loop(m.readPrices)
		loop(m.callPartner)
		switch i {
		case 0:
			loop(m.lead)
			loop(m.writePrices)
		case 1, 3:
			loop(m.forget)
		case 2:
			loop(m.lead)
			loop(m.operate)
			loop(m.askBriefly)
		}
	}
	workers.Wait()
	for _, m := range machines {
		acquired += int(m.locked.Load())
	}
	return acquired
}

// within calls section with the lock, and counts.
func (m *machine) within(ctx context.Context, lock *rlock.Lock, section time.Duration, options ...rlock.AcquireOption) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		m.locked.Add(1)
		return pause(ctx, section)
	}, options...)
}

// order handles one of five orders: they are contended for.
func (m *machine) order(ctx context.Context) error {
	name := fmt.Sprint("example:orders:", rand.N(5))
	return m.within(ctx, m.client.NewLock(name), rand.N(20*time.Millisecond))
}

// report makes a report if no other machine does.
func (m *machine) report(ctx context.Context) error {
	err := m.within(ctx, m.client.NewLock("example:report"), 100*time.Millisecond, rlock.WithWait(0))
	return errors.Join(err, pause(ctx, rand.N(100*time.Millisecond)))
}

func (m *machine) readPrices(ctx context.Context) error {
	return m.within(ctx, m.client.NewReadWriteLock("example:prices").Read(), rand.N(10*time.Millisecond))
}

func (m *machine) writePrices(ctx context.Context) error {
	err := m.within(ctx, m.client.NewReadWriteLock("example:prices").Write(), 5*time.Millisecond)
	return errors.Join(err, pause(ctx, 50*time.Millisecond))
}

// callPartner takes one of the two connections that the partner allows.
func (m *machine) callPartner(ctx context.Context) error {
	return m.within(ctx, m.client.NewSemaphore("example:partner", 2), 10*time.Millisecond)
}

// lead is the leader of the machines, or waits until it is, until the lock is lost.
func (m *machine) lead(ctx context.Context) error {
	return m.within(ctx, m.client.NewLock("example:leader"), 24*time.Hour)
}

// forget holds a lock for much longer than it should, while another machine waits for it.
func (m *machine) forget(ctx context.Context) error {
	return m.within(ctx, m.client.NewLock("example:forgotten"), 1500*time.Millisecond)
}

// askBriefly wants a forgotten lock, and mostly gives up before it gets it.
func (m *machine) askBriefly(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	err := m.within(soon, m.client.NewLock("example:forgotten"), 10*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // as it should be
	}
	return errors.Join(err, pause(ctx, rand.N(300*time.Millisecond)))
}

// operate is an operator who unlocks held locks by force.
func (m *machine) operate(ctx context.Context) error {
	lock := m.client.NewFencedLock("example:forced")
	err := lock.Do(ctx, func(ctx context.Context) error {
		m.locked.Add(1)
		_, err := lock.ForceUnlock(context.WithoutCancel(ctx))
		return err
	})
	return errors.Join(err, pause(ctx, 30*time.Second))
}

// pause is the time of the work. It ends with ctx, and returns the cause.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
