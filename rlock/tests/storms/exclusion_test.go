package storms_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A wide load is that of a service: some thousand names in one client, each with a goroutine or two, and more commands due
// than there are places for. Its sections last from 0 to 100 ms, so that all else comes between the end of one and the
// command that says so: renewals, notices of changed keys, connections that end, and callers that leave.
type wide struct {
	t      *testing.T
	client *rlock.Client
	inside []atomic.Int32 // of each name
	done   atomic.Int64   // sections
	gaveUp atomic.Int64
	lost   atomic.Int64
}

const (
	wideNames  = 1500
	wideRounds = 4 // sections of each goroutine
)

func TestAClientHasThousandsOfNames(t *testing.T) {
	redistest.Slow(t)
	for _, tracked := range []int{0, -1} {
		t.Run(fmt.Sprintf("TrackedKeys %d", tracked), func(t *testing.T) {
			redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, server *redistest.Server) {
				s := testbed.At(t, server)
				w := &wide{t: t, inside: make([]atomic.Int32, wideNames)}
				w.client = s.NewClient(func(c *rlock.Config) { c.Advanced.TrackedKeys, c.Lease = tracked, 3*time.Second })
				w.run(s)
				require.NoError(t, w.client.Close())
				left, err := s.Outside.Do(context.Background(), s.Outside.B().Dbsize().Build()).AsInt64()
				require.NoError(t, err)
				assert.Zero(t, left)
				t.Logf("%d sections, %d given up, %d lost", w.done.Load(), w.gaveUp.Load(), w.lost.Load())
				assert.Greater(t, w.done.Load(), int64(wideNames))
				assert.Positive(t, w.gaveUp.Load())
			})
		})
	}
}

func (w *wide) run(s *testbed.Site) {
	var workers sync.WaitGroup
	for i := range wideNames {
		workers.Go(func() { w.work(uint64(i), i) })
		if i%5 == 0 { // two want this one
			workers.Go(func() { w.work(uint64(i+wideNames), i) })
		}
	}
	for i := range 4 {
		workers.Go(func() { w.several(uint64(i)) })
	}
	for range 3 { // each time when a good part of the sections is over
		for before := w.done.Load(); w.done.Load() < before+wideNames/2 && w.done.Load() < wideNames*wideRounds/2; {
			time.Sleep(time.Millisecond)
		}
		s.Outside.Do(context.Background(), s.Outside.B().Arbitrary("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal").Build())
	}
	workers.Wait()
}

// work has sections of one name, one after the other.
func (w *wide) work(seed uint64, i int) {
	random := rand.New(rand.NewPCG(seed, 1))
	lock := w.client.NewLock(fmt.Sprintf("wide:%d", i))
	for round := range wideRounds {
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if random.IntN(8) == 0 {
			ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(int(20*time.Millisecond))))
		}
		lasts := time.Duration(random.IntN(int(100 * time.Millisecond)))
		var err error
		switch (i + round) % 3 {
		case 0:
			var hold *rlock.Hold
			if hold, err = lock.Acquire(ctx); err == nil {
				w.section(hold.Context(), lasts, i)
				err = hold.Release(context.Background())
			}
		case 1:
			err = lock.Do(ctx, func(ctx context.Context) error {
				w.section(ctx, lasts, i)
				return nil
			})
		default:
			me := rlock.WithOwner(ctx, rlock.NewOwner())
			if err = lock.Lock(me); err == nil {
				w.section(ctx, lasts/2, i)
				if nested := lock.Lock(context.WithoutCancel(me)); nested == nil {
					assert.NoError(w.t, ignoreLoss(lock.Unlock(me)))
				} else {
					assert.NoError(w.t, ignoreLoss(nested))
				}
				err = lock.Unlock(me)
			}
		}
		cancel()
		w.ended(err)
	}
}

// several has sections of fifty names at once.
func (w *wide) several(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2))
	for range wideRounds {
		names := random.Perm(wideNames)[:50]
		locks := make([]*rlock.Lock, len(names))
		for j, i := range names {
			locks[j] = w.client.NewLock(fmt.Sprintf("wide:%d", i))
		}
		w.ended(rlock.NewMultiLock(locks...).Do(context.Background(), func(ctx context.Context) error {
			w.section(ctx, 10*time.Millisecond, names...)
			return nil
		}))
	}
}

// section is the critical section of the names. A hold that was lost ends it.
func (w *wide) section(held context.Context, lasts time.Duration, names ...int) {
	for _, i := range names {
		if n := w.inside[i].Add(1); n != 1 && held.Err() == nil {
			w.t.Errorf("%d are inside of name %d", n, i)
		}
	}
	select {
	case <-held.Done():
	case <-time.After(lasts):
	}
	for _, i := range names {
		w.inside[i].Add(-1)
	}
}

// ended counts how a section has ended.
func (w *wide) ended(err error) {
	switch {
	case err == nil, errors.Is(err, rlock.ErrUnconfirmed): // the lease ends it
		w.done.Add(1)
	case errors.Is(err, rlock.ErrLost):
		w.lost.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		w.gaveUp.Add(1)
	default:
		w.t.Errorf("%v", err)
	}
}

func ignoreLoss(err error) error {
	if errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed) {
		return nil
	}
	return err
}
