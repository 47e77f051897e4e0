package group

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"
)

// Questions to Redis about a lock, for callers that need not hold it.

// IsLocked stops asking once the answer is certain.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	locked, free := 0, 0
	failed := poll(ctx, l, Locker.IsLocked, func(is bool) (enough bool) {
		if is {
			locked++
		} else {
			free++
		}
		return locked > l.spare() || free >= l.need
	})
	if locked > l.spare() {
		return true, nil
	}
	return false, l.tooMany(failed)
}

// TTL returns the time until so many parts are free that the lock is.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	var ttls []time.Duration
	failed := poll(ctx, l, Locker.TTL, func(ttl time.Duration) bool {
		if ttl < 0 {
			ttl = math.MaxInt64
		}
		ttls = append(ttls, ttl)
		return false
	})
	if err := l.tooMany(failed); err != nil {
		return 0, err
	}
	ttl := best(ttls, l.need, cmp.Compare[time.Duration])
	if ttl == math.MaxInt64 {
		return -1, nil
	}
	return ttl, nil
}

// ForceUnlock frees all parts, and reports whether any was not free.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	freed := false
	failed := poll(ctx, l, Locker.ForceUnlock, func(was bool) bool {
		freed = freed || was
		return false
	})
	return freed, l.tooMany(failed)
}

// spare is how many of the parts the lock does not need.
func (l *Lock) spare() int { return len(l.parts) - l.need }

// tooMany returns the errors of the parts if the others are not enough.
func (l *Lock) tooMany(failed []error) error {
	if l.err != nil || len(failed) > l.spare() {
		return cmp.Or(l.err, errors.Join(failed...))
	}
	return nil
}

// poll asks all parts at once, and gives each answer to heard until that has enough. A lock that cannot be used asks
// nothing.
func poll[T any](ctx context.Context, l *Lock, ask func(Locker, context.Context) (T, error), heard func(T) bool) (failed []error) {
	if l.err != nil {
		return nil
	}
	type answer struct {
		is  T
		err error
	}
	arrived := make(chan answer, len(l.parts))
	for _, p := range l.parts {
		homeOf(p).do(func() {
			is, err := ask(p, ctx)
			arrived <- answer{is, err}
		})
	}
	for range l.parts {
		if a := <-arrived; a.err != nil {
			failed = append(failed, a.err)
		} else if heard(a.is) {
			break
		}
	}
	return failed
}
