package redisson

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// A CountDownLatch is Redisson's RCountDownLatch: a count in Redis. Any client may count down, and
// others wait until the count is zero. A latch without a count is open. Its methods may be called
// concurrently.
//
// A new count may follow zero at once. A caller that still waits then, here or in Java, waits for
// the new count too: nothing distinguishes the two.
type CountDownLatch struct{ object }

// TrySetCount sets the count if there is none, and reports whether it did. After
// [rlock.ErrUnconfirmed] the count may be set. A count below 1 is [rlock.ErrInvalidConfig]:
// Redisson would store it, and refuse later counts.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	if n < 1 {
		return false, l.named(fmt.Errorf("%w: a count of %d: use at least 1", rlock.ErrInvalidConfig, n))
	}
	set, err := l.number(ctx, latchSet, []string{l.channel}, strconv.FormatInt(n, 10), byPublish)
	return set == 1, err
}

// CountDown takes one off the count, and opens the latch at zero. Without a count it does nothing.
// After [rlock.ErrUnconfirmed] it may have counted: the command is not sent again, since each
// command would count.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.number(ctx, latchDown, []string{l.channel}, byPublish)
	return err
}

// Count returns the count, 0 for an open latch.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) {
	n, _, err := l.read(ctx)
	return n, err
}

// Await returns when the latch is open, or with the error of ctx if ctx ends first. Unlike
// Redisson's Await it also returns when the latch was deleted or has expired, at most two seconds
// later.
func (l *CountDownLatch) Await(ctx context.Context) error {
	_, err := l.wait(ctx, -1, false, func(ctx context.Context, _ look) (bool, time.Duration, fate, error) {
		n, f, err := l.read(ctx)
		if ctx.Err() != nil {
			f = refused
		}
		return f == executed && n <= 0, 0, f, err
	})
	return err
}

// Delete opens the latch, and reports whether it had a count. Waiters in Go return. Waiters in Java
// sleep until the next count is zero, since Redisson's message for a deletion is also its message
// for a new count.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	was, err := l.number(ctx, latchDelete, []string{l.channel}, byPublish)
	return was == 1, err
}
