package survey

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// together is the number of locks that are inspected at the same time.
const together = 32

// Held returns the locks of that pattern that are held, by name. Locks that are released meanwhile
// are left out. Beside an error there may be valid locks: if the key of a name, or that of its
// queue, does not belong to a lock, the error is [rlock.ErrWrongType]; if some nodes of a Cluster
// fail, it is that of [Names]. Any other error is returned alone.
func Held(ctx context.Context, client *rlock.Client, pattern string) ([]inspect.Lock, error) {
	names, _, failed := Names(ctx, client, pattern, 0)
	inspections, errs := Inspect(ctx, client, names)
	held := inspections[:0]
	var wrong []error
	for at, err := range errs {
		switch {
		case errors.Is(err, rlock.ErrWrongType):
			wrong = append(wrong, err)
		case err != nil:
			return nil, err
		case inspections[at].HolderCount > 0:
			held = append(held, inspections[at])
		}
	}
	return held, cmp.Or(failed, errors.Join(wrong...))
}

// Names returns the names of the locks of that pattern that are held, in their order and each once.
// If there are more than most, it returns so many, and more is true; 0 stands for all. Beside an
// error there may be names, those on the other nodes of a Cluster.
func Names(ctx context.Context, client *rlock.Client, pattern string, most int) (names []string, more bool, err error) {
	for name, failed := range inspect.Of(client).Locks(ctx, pattern) {
		if failed != nil {
			err = failed
			break
		}
		if more = most > 0 && len(names) == most; more {
			break
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), more, err // SCAN may return a key twice
}

// Inspect inspects each of the locks. An inspection counts if the error of the same index is nil.
func Inspect(ctx context.Context, client *rlock.Client, names []string) (inspections []inspect.Lock, errs []error) {
	inspections, errs = make([]inspect.Lock, len(names)), make([]error, len(names))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(together, len(names)) {
		workers.Go(func() {
			for at := range next {
				inspections[at], errs[at] = inspect.Of(client).Lock(ctx, names[at])
			}
		})
	}
	for at := range names {
		next <- at
	}
	close(next)
	workers.Wait()
	return inspections, errs
}
