package redisson

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// A Semaphore is Redisson's RSemaphore: a number of free permits in Redis, which any client may take from and add to. It
// knows no holder: permits of a process that has died stay taken, and nothing stops a release without an acquire. Its methods
// may be called concurrently.
//
// Keys and messages are those of Redisson 3.17.7 and 4.7.0. In a Cluster [rlock.Advanced].PubSub must be the family of the
// Java side: Redisson 4 has sharded channels there, 3 has not.
type Semaphore struct{ object }

// Acquire takes n permits, all or none, and waits for them until ctx ends. Callers of this process are served in the order in
// which they came; over processes there is no order. It returns [rlock.ErrUnconfirmed] if the answer was lost: the permits may
// be taken. n = 0 takes none, and n < 0 is [rlock.ErrInvalidConfig].
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	_, err := s.acquire(ctx, n, -1)
	return err
}

// TryAcquire is Acquire for at most the wait, 0 for one attempt. It reports whether it has the permits. Unlike Redisson's it
// attempts once more when the wait is over, and one attempt does not go before callers of this process that wait.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, wait time.Duration) (bool, error) {
	return s.acquire(ctx, n, max(wait, 0))
}

func (s *Semaphore) acquire(ctx context.Context, n int, wait time.Duration) (bool, error) {
	if err := s.check(n); err != nil || n == 0 {
		return err == nil, err
	}
	number := strconv.Itoa(n)
	return s.wait(ctx, wait, true, func(ctx context.Context) (bool, time.Duration, fate, error) {
		reply, f, err := s.call(ctx, semaphoreAcquire, nil, number)
		if err != nil {
			return false, 0, f, err
		}
		got, err := reply.AsInt64()
		return got == 1, 0, f, err
	})
}

// check refuses a number of permits that the counter cannot have.
func (s *Semaphore) check(n int) error {
	if n < 0 || n > math.MaxInt32 {
		return s.named(fmt.Errorf("%w: %d permits: use 0 to %d", rlock.ErrInvalidConfig, n, math.MaxInt32))
	}
	return nil
}

// Release adds n permits, and wakes waiters of all clients. It creates a semaphore that is not there. After
// [rlock.ErrUnconfirmed] they may be added: the call is not sent again, since each would count.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	if err := s.check(n); err != nil || n == 0 {
		return err
	}
	return s.AddPermits(ctx, n)
}

// AddPermits changes the number of permits by n, which may be negative: then the number of free ones may be, too. Unlike
// Redisson's it leaves an expiry of the key.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	_, err := s.number(ctx, semaphoreAdd, []string{s.channel}, strconv.Itoa(n), byPublish)
	return err
}

// DrainPermits takes all free permits, and returns how many. Unlike Redisson's it leaves a negative number as it is, and an
// expiry of the key.
func (s *Semaphore) DrainPermits(ctx context.Context) (int, error) {
	n, err := s.number(ctx, semaphoreDrain, nil)
	return int(n), err
}

// TrySetPermits sets the number of free permits if there is none, and reports whether it did. After
// [rlock.ErrUnconfirmed] it may have.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	if err := s.check(n); err != nil {
		return false, err
	}
	set, err := s.number(ctx, semaphoreSet, []string{s.channel}, strconv.Itoa(n), byPublish)
	return set == 1, err
}

// AvailablePermits returns the number of free permits, which may be negative; 0 if the semaphore is not there.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	n, _, err := s.read(ctx)
	return int(n), err
}
