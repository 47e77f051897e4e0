//go:build strict

package redisson

import "github.com/go-rlock/rlock/rlock/internal/wire"

// With the build tag "strict", which only tests set, each script is refused a key that it has not
// declared.
func init() {
	for _, s := range []*wire.Script{
		semaphoreAcquire, semaphoreAdd, semaphoreDrain, semaphoreSet, semaphoreAddIf, semaphoreDelete, semaphoreExpire,
		permitsAcquire, permitsRelease, permitsUpdate, permitsRead, permitsSet, permitsLease, permitsDelete, permitsExpire,
		latchSet, latchDown, latchDelete,
	} {
		s.BeStrict()
	}
}
