package survey

import (
	"context"
	"errors"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// Synchronizers returns Redisson's semaphores and latches of that pattern that can be distinguished
// from other numbers, by name. For a user without the rights to look for them it returns none, and
// no error: the locks are what the user has asked for.
func Synchronizers(ctx context.Context, client *rlock.Client, pattern string) (found []redisson.State, err error) {
	c := redisson.New(client)
	names, err := c.Names(ctx, pattern)
	for _, name := range names {
		state, failed := c.Inspect(ctx, name)
		switch {
		case errors.Is(failed, rlock.ErrWrongType): // a lock, or gone meanwhile
		case failed != nil:
			err = errors.Join(err, failed)
		case state.Kind != "":
			found = append(found, state)
		}
	}
	if errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrUnsupported) {
		err = nil
	}
	return found, err
}

// Lock inspects the lock of that name. If the name is a number, or no lock of that name is held or
// waited for, it may be one of Redisson's synchronizers: then that is returned instead.
func Lock(ctx context.Context, client *rlock.Client, name string) (inspect.Lock, *redisson.State, error) {
	lock, err := inspect.Of(client).Lock(ctx, name)
	if err == nil && lock.HolderCount+lock.Waiting > 0 || err != nil && !errors.Is(err, rlock.ErrWrongType) {
		return lock, nil, err
	}
	state, failed := redisson.New(client).Inspect(ctx, name)
	if failed == nil && (state.Present || state.Kind != "") {
		return lock, &state, nil
	}
	return lock, nil, err
}
