package redisson

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Semaphore is Redisson's RSemaphore: a number of free permits in Redis, which any client may
// take from and add to. It knows no holder: permits of a process that has died stay taken, and a
// release without an acquire is not refused. Its methods may be called concurrently.
//
// Keys and messages are as in Redisson 3.17.7 and 4.7.0. In a Cluster [rlock.Advanced].PubSub must
// be the family of the Java side: Redisson 4 has sharded channels there, Redisson 3 does not.
type Semaphore struct{ object }

// Acquire takes n permits, all or none, and waits for them until ctx ends. Callers of this process
// are served in the order in which they came; over processes there is no order. It returns
// [rlock.ErrUnconfirmed] if the answer was lost: the permits may be taken. A call that waits reads
// the number of free permits before it takes any, so that it loses no permit to a server that is
// silent for a while. n = 0 takes none, and n < 0 is [rlock.ErrInvalidConfig].
func (s *Semaphore) Acquire(ctx context.Context, n int) error {
	_, err := s.acquire(ctx, n, -1)
	return err
}

// TryAcquire is Acquire with a limit on the wait; 0 makes one attempt. It reports whether the
// caller has the permits. Unlike Redisson's TryAcquire it attempts once more when the wait is over,
// and a single attempt does not overtake callers of this process that wait.
func (s *Semaphore) TryAcquire(ctx context.Context, n int, wait time.Duration) (bool, error) {
	return s.acquire(ctx, n, max(wait, 0))
}

func (s *Semaphore) acquire(ctx context.Context, n int, wait time.Duration) (bool, error) {
	if err := s.checkNumber(n, math.MaxInt32); err != nil || n == 0 {
		return err == nil, err
	}
	number := strconv.Itoa(n)
	return s.wait(ctx, wait, true, func(ctx context.Context, l look) (bool, time.Duration, fate, error) {
		// A command that takes permits must not be sent again. A call may wait for hours, in which
		// the server may stop: so it sends the command only if there is something to take.
		if l.waits && l.free < int64(n) {
			if free, f, err := s.read(ctx); err != nil || free < int64(n) {
				return false, 0, f, err
			}
		}
		reply, f, err := s.call(ctx, semaphoreAcquire, nil, number)
		if err != nil {
			return false, 0, f, err
		}
		got, err := reply.AsInt64()
		return got == 1, 0, f, err
	})
}

// Release adds n permits, and wakes waiters of all clients. It creates a semaphore that does not
// exist. After [rlock.ErrUnconfirmed] the permits may be added: the command is not sent again,
// since each command would count.
func (s *Semaphore) Release(ctx context.Context, n int) error {
	if err := s.checkNumber(n, math.MaxInt32); err != nil || n == 0 {
		return err
	}
	return s.AddPermits(ctx, n)
}

// ReleaseIfExists is Release, but does not create a semaphore. It reports whether the semaphore
// exists, and false for n = 0, like Redisson.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int) (bool, error) {
	if err := s.checkNumber(n, math.MaxInt32); err != nil || n == 0 {
		return false, err
	}
	return s.add(ctx, semaphoreAddIf, n)
}

// AddPermits adds n, which may be negative, to the number of free permits, which may become
// negative as well. Unlike Redisson it does not change an expiry of the key.
func (s *Semaphore) AddPermits(ctx context.Context, n int) error {
	_, err := s.add(ctx, semaphoreAdd, n)
	return err
}

// add executes a script that adds permits, and reports whether the script has added them.
func (s *Semaphore) add(ctx context.Context, script *wire.Script, n int) (bool, error) {
	s.noteRelease()
	reply, _, err := s.call(ctx, script, []string{s.channel}, strconv.Itoa(n), byPublish)
	if err != nil || reply.IsNil() {
		s.client.turns.noEcho(s.channel)
		return false, err
	}
	receivers, err := reply.AsInt64()
	if err != nil {
		return false, s.named(err)
	}
	s.leaveTurn(receivers)
	return true, nil
}

// DrainPermits takes all free permits, and returns their number. Unlike Redisson it does not change
// a negative number, or an expiry of the key.
func (s *Semaphore) DrainPermits(ctx context.Context) (int, error) {
	n, err := s.number(ctx, semaphoreDrain, nil)
	return int(n), err
}

// TrySetPermits sets the number of free permits if there is none, and reports whether it did. After
// [rlock.ErrUnconfirmed] the number may be set.
func (s *Semaphore) TrySetPermits(ctx context.Context, n int) (bool, error) {
	if err := s.checkNumber(n, math.MaxInt32); err != nil {
		return false, err
	}
	set, err := s.number(ctx, semaphoreSet, []string{s.channel}, strconv.Itoa(n), byPublish)
	return set == 1, err
}

// AvailablePermits returns the number of free permits, which may be negative; 0 if the semaphore
// does not exist.
func (s *Semaphore) AvailablePermits(ctx context.Context) (int, error) {
	n, _, err := s.read(ctx)
	return int(n), err
}

// Delete deletes the semaphore, and reports whether it existed. No waiter wakes. A later release
// creates a new semaphore.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	n, err := s.number(ctx, semaphoreDelete, nil)
	return n == 1, err
}

// Expire makes Redis delete the semaphore after that time; 0 removes the expiry. It reports whether
// there is a semaphore. A negative time, or one of less than a millisecond, is
// [rlock.ErrInvalidLease].
func (s *Semaphore) Expire(ctx context.Context, after time.Duration) (bool, error) {
	if err := s.checkLease(after); err != nil {
		return false, err
	}
	n, err := s.number(ctx, semaphoreExpire, nil, milliseconds(after))
	return n == 1, err
}

// checkNumber refuses a negative number of permits, and a number above most. Redisson's counter is
// an int.
func (o *object) checkNumber(n, most int) error {
	if n < 0 || n > most {
		return o.named(fmt.Errorf("%w: %d permits: use 0 to %d", rlock.ErrInvalidConfig, n, most))
	}
	return nil
}
