// Package recipes has locks that are composed of others: the recipes of docs/recipes.md that need
// no mechanism of their own. The document has them from here, where tests run them in virtual time.
package recipes

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock"
)

// refresh brings the index of a document up to date. Of the calls that come while one works, one
// waits and does the work of all: it begins after they were made, so it reads what they have
// changed. So it does not end with the context of its caller.
func refresh(ctx context.Context, client *rlock.Client, document string, index func(context.Context) error) error {
	err := client.NewLock("lock:index:"+document).Do(context.WithoutCancel(ctx), index, rlock.WithMaxWaiters(1))
	if errors.Is(err, rlock.ErrTooManyWaiters) {
		return nil
	}
	return err
}

// subtree returns the lock of a folder and all below it, such as "photos/2026/march": others may
// lock other folders, none that contains this one or is contained in it.
func subtree(client *rlock.Client, path string) *rlock.Lock {
	var parts []*rlock.Lock
	names := strings.Split(path, "/")
	for i := range names {
		rw := client.NewReadWriteLock("lock:tree:" + strings.Join(names[:i+1], "/"))
		if i < len(names)-1 {
			parts = append(parts, rw.Read())
		} else {
			parts = append(parts, rw.Write())
		}
	}
	return rlock.NewMultiLock(parts...)
}

// limited returns the lock of a job: ten run at once for all tenants, and two for each. A
// multi-lock takes its parts in the order of their names, so the names decide which permit is held
// while the call waits for the other.
func limited(client *rlock.Client, tenant string) *rlock.Lock {
	own := client.NewSemaphore("limit:1:"+tenant, 2)
	all := client.NewSemaphore("limit:2:all", 10)
	return rlock.NewMultiLock(own, all)
}

// work does a piece of work, unless there is a pause: then it waits for the end of that.
func work(ctx context.Context, client *rlock.Client, piece func(context.Context) error) error {
	return client.NewReadWriteLock("lock:maintenance").Read().Do(ctx, piece)
}

// pause waits until all work has ended, and lets none begin for that long. It needs no process that
// stays: the lock is in Redis until then, or until resume.
func pause(ctx context.Context, client *rlock.Client, d time.Duration) error {
	hold, err := client.NewReadWriteLock("lock:maintenance").Write().Acquire(ctx, rlock.WithMinHold(d))
	if err != nil {
		return err
	}
	return hold.Release(ctx)
}

// resume ends a pause.
func resume(ctx context.Context, client *rlock.Client) error {
	_, err := client.NewReadWriteLock("lock:maintenance").Write().ForceUnlock(ctx)
	return err
}

// paced calls an interface that allows five calls a second, and three at once.
func paced(ctx context.Context, client *rlock.Client, call func(context.Context) error) error {
	return client.NewSemaphore("limit:api:at-once", 3).Do(ctx, func(ctx context.Context) error {
		permit, err := client.NewSemaphore("limit:api:a-second", 5).Acquire(ctx, rlock.WithMinHold(time.Second))
		if err != nil {
			return err
		}
		if err := permit.Release(ctx); err != nil { // it stays in use for the rest of the second
			return err
		}
		return call(ctx)
	})
}
