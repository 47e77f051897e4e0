package main

import (
	"context"
	"fmt"
	"time"
)

const (
	permits     = 4                      // so that the threads of one dead process cannot have all
	waitOfJava  = 300 * time.Millisecond // for a permit
	longestHold = 3 * time.Millisecond
)

func (a *actor) hold() { time.Sleep(time.Duration(a.random.Int64N(int64(longestHold)))) }

// Turns of a semaphore, whose permits have no holders: those of a dead process are lost until the operator adds as many.
type semaphoreTurns struct{ *run }

func (s *semaphoreTurns) begin(ctx context.Context) error {
	return s.operator.Semaphore(object).Release(ctx, permits)
}

func (s *semaphoreTurns) turn(a *actor) {
	asked, got, err := time.Now(), true, error(nil)
	if a.java {
		got, err = a.now("TryAcquire").TryAcquire(object, 1, waitOfJava)
	} else {
		err = a.now("Acquire").Acquire(object, 1)
	}
	switch {
	case err != nil:
		s.failed(err)
		return
	case !got:
		s.inVain.Add(1)
		return
	}
	s.waited(a, asked)
	s.enter(permits)
	a.hold()
	s.leave()
	if err := a.now("Release").Release(object, 1); err != nil {
		s.failed(err)
	}
}

func (s *semaphoreTurns) hasten(context.Context) error { return nil }

func (s *semaphoreTurns) count(ctx context.Context) error {
	sem, unsure := s.operator.Semaphore(object), int(s.unsure.Load())
	free, err := sem.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	if free < permits-unsure || free > permits {
		return fmt.Errorf("%d of %d permits are free, and %d calls have unknown outcomes", free, permits, unsure)
	}
	return sem.AddPermits(ctx, permits-free)
}

func (s *semaphoreTurns) end(ctx context.Context) error {
	if err := s.count(ctx); err != nil {
		return err
	}
	return s.do("DEL", object)
}

// Turns of a semaphore whose permits have leases.
type permitTurns struct{ *run }

func (s *permitTurns) begin(ctx context.Context) error {
	return s.operator.PermitSemaphore(object).SetPermits(ctx, permits)
}

func (s *permitTurns) turn(a *actor) {
	asked, id, err := time.Now(), "", error(nil)
	if a.java {
		id, err = a.now("TryAcquirePermit").TryAcquirePermit(object, waitOfJava, permitLease)
	} else {
		id, err = a.now("AcquirePermit").AcquirePermit(object, 0)
	}
	switch {
	case err != nil:
		s.failed(err)
		return
	case id == "":
		s.inVain.Add(1)
		return
	}
	s.waited(a, asked)
	s.enter(permits)
	a.hold()
	s.leave()
	if released, err := a.now("TryReleasePermit").TryReleasePermit(object, id); err != nil {
		s.failed(err)
	} else if !released {
		s.unsure.Add(1) // Redisson says so also after the second of two that it has sent
	}
}

func (s *permitTurns) hasten(context.Context) error { return nil }

// count waits for the ends of the leases of those that have died.
func (s *permitTurns) count(ctx context.Context) error {
	sem, unsure := s.operator.PermitSemaphore(object), int(s.unsure.Load())
	free, taken := 0, 1
	for began := time.Now(); taken > 0; time.Sleep(10 * time.Millisecond) {
		var err error
		if taken, err = sem.AcquiredPermits(ctx); err != nil {
			return err
		}
		if time.Since(began) > permitLease+s.slack {
			return fmt.Errorf("%d permits have not ended %v after all turns", taken, time.Since(began))
		}
	}
	free, err := sem.AvailablePermits(ctx)
	if err != nil {
		return err
	}
	if free < permits-unsure || free > permits {
		return fmt.Errorf("%d of %d permits are free, and %d calls have unknown outcomes", free, permits, unsure)
	}
	return sem.SetPermits(ctx, permits)
}

func (s *permitTurns) end(ctx context.Context) error {
	if err := s.count(ctx); err != nil {
		return err
	}
	return s.do("DEL", object) // the set is empty, and so not there
}
