package storms_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// The breadth of a storm is the many names that each of its clients wants beside that of the contest, with a goroutine for
// each: more commands are due at once than a client sends at a time.
type breadth struct {
	*storm

	mu       sync.Mutex // protects following
	sections [][]criticalSection
}

// widen starts the goroutines, which end after the storm. Then each of them gets its lock.
func (s *storm) widen(seed uint64, callers *sync.WaitGroup, healed <-chan struct{}) *breadth {
	b := &breadth{storm: s, sections: make([][]criticalSection, s.kind.names)}
	for i, client := range s.clients {
		if s.kind.names > 0 {
			client.client.Net.SetRoundTrip(upTo(s.random, 300*time.Millisecond)) // until a fault changes it
		}
		for name := range s.kind.names {
			random := rand.New(rand.NewPCG(seed, uint64(1000*(i+1)+name)))
			callers.Go(func() {
				for time.Since(s.begin) < stormTime {
					_ = b.turn(random, client, name, upTo(random, 3*time.Second), 100*time.Millisecond<<random.IntN(6)) // whatever is broken
					time.Sleep(upTo(random, time.Second))
				}
				<-healed
				assert.NoError(s.T, b.turn(random, client, name, recovery, 50*time.Millisecond), "a caller did not get one of the many locks after the storm")
			})
		}
	}
	return b
}

// turn takes one or many of the locks, waiting at most for patience, and holds them at most for longest. An error means
// that it did not get them.
func (b *breadth) turn(random *rand.Rand, via *replaceable, name int, patience, longest time.Duration) error {
	client, lasts := via.current(), upTo(random, longest)
	ctx, cancel := context.WithTimeout(b.Ctx, patience)
	defer cancel()
	lock, names := b.lock(client, name), []int{name}
	switch random.IntN(12) {
	case 0: // several
		parts := []*rlock.Lock{lock}
		for n := range min(20, b.kind.names) - 1 {
			other := (name + n + 1) % b.kind.names
			names, parts = append(names, other), append(parts, b.lock(client, other))
		}
		lock = rlock.NewMultiLock(parts...)
		fallthrough
	case 1, 2, 3:
		hold, err := lock.Acquire(ctx)
		if err != nil {
			return err
		}
		b.section(hold.Context(), lasts, names)
		b.released(hold.Release(b.Ctx))
	case 4, 5, 6, 7:
		inside := false
		err := lock.Do(ctx, func(held context.Context) error {
			inside = true
			b.section(held, lasts, names)
			return nil
		})
		if !inside {
			return err
		}
		b.released(err)
	default:
		me := rlock.WithOwner(b.Ctx, rlock.NewOwner())
		within, cancel := context.WithTimeout(me, patience)
		defer cancel()
		if err := lock.Lock(within); err != nil {
			return err
		}
		from := time.Now()
		time.Sleep(lasts)
		if lock.IsHeld(me) {
			b.note(from, names)
		}
		b.released(lock.Unlock(me))
	}
	return nil
}

func (b *breadth) lock(client *testbed.Client, name int) *rlock.Lock {
	return client.NewLock(fmt.Sprintf("%s:%d", testbed.Key, name))
}

// section is a critical section, which ends with its context, or after a time.
func (b *breadth) section(held context.Context, lasts time.Duration, names []int) {
	from := time.Now()
	select {
	case <-held.Done():
	case <-time.After(lasts):
	}
	b.note(from, names)
}

// note records a section of the names that ends now.
func (b *breadth) note(from time.Time, names []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.sections[name] = append(b.sections[name], criticalSection{exclusive: testbed.Span{From: from, To: time.Now()}})
	}
}

func (b *breadth) released(err error) {
	for _, expected := range []error{nil, rlock.ErrLost, rlock.ErrUnconfirmed, rlock.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, expected) {
			return
		}
	}
	assert.NoError(b.T, err)
}

// noSectionsOverlap asserts that no two of one name do.
func (b *breadth) noSectionsOverlap() {
	all := 0
	for _, sections := range b.sections {
		b.noSectionOverlapsAWriter(sections)
		all += len(sections)
	}
	if b.kind.names > 0 {
		b.T.Logf("%d sections of %d other names", all, b.kind.names)
	}
}
