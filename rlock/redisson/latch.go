package redisson

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// A CountDownLatch is Redisson's RCountDownLatch: a count in Redis that any client may count down,
// and that others wait for until it is zero. A latch without a count is open. Its methods may be
// called concurrently.
//
// A new count may follow at once after zero. A caller that still waits then, here or in Java, waits
// for the new count too: nothing distinguishes the two.
type CountDownLatch struct{ object }

// TrySetCount sets the count if there is none, and reports whether it did. After
// [rlock.ErrUnconfirmed] it may have. A count below 1 is [rlock.ErrInvalidConfig]: Redisson would
// store it, and block further counts.
func (l *CountDownLatch) TrySetCount(ctx context.Context, n int64) (bool, error) {
	if n < 1 {
		return false, l.named(fmt.Errorf("%w: a count of %d: use at least 1", rlock.ErrInvalidConfig, n))
	}
	set, err := l.number(ctx, latchSet, []string{l.channel}, strconv.FormatInt(n, 10), byPublish)
	return set == 1, err
}

// CountDown takes one off the count, and opens the latch at zero. Without a count it does nothing.
// After [rlock.ErrUnconfirmed] it may have counted: the command is not sent again, since each one
// would count.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.number(ctx, latchDown, []string{l.channel}, byPublish)
	return err
}

// Count returns the count, 0 for an open latch.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) {
	n, _, err := l.read(ctx)
	return n, err
}

// Await returns when the latch is open, with the error of ctx if that ends before. Unlike
// Redisson's it returns also when the latch was deleted or has expired, two seconds later at most.
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
// sleep until the next count is zero, since Redisson's message for a deletion is that for a new
// count.
func (l *CountDownLatch) Delete(ctx context.Context) (bool, error) {
	was, err := l.number(ctx, latchDelete, []string{l.channel}, byPublish)
	return was == 1, err
}
