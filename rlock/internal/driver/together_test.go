package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// many returns locks of one client, in one slot.
func (f *fake) many(c *Client, n int) (locks []*Lock) {
	for i := range n {
		l := NewLock(c, f.kind, fmt.Sprint("many", i))
		locks = append(locks, &l)
	}
	return locks
}

// holdAll acquires the locks for an owner, as parts of a whole.
func holdAll(ctx context.Context, locks []*Lock, o terms.Owner) ([]Handle, error) {
	whole := &terms.Whole{Name: "whole"}
	requests := make([]Request, len(locks))
	for i := range requests {
		requests[i] = Request{Owner: o, Whole: whole}
	}
	return HoldAll(ctx, context.Background(), locks, requests)
}

// areFree asserts that nothing is left of the locks.
func (f *fake) areFree(locks []*Lock) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range locks {
		s := f.at(l.Name.Key)
		s.Expire(server.Time(time.Since(f.start)))
		assert.Empty(f.t, s.Holders, l.Name.Key)
	}
}

func TestFreeLocksAreAcquiredInOneRoundTrip(t *testing.T) {
	for kind := range KindID(KindCount) {
		if kind == SemaphoreKind {
			continue // its name has a number of permits
		}
		bubbleOf(t, kind, func(t *testing.T, f *fake) {
			locks, o := f.many(f.join(nil), 5), terms.NewOwner()
			f.fate = func(_ uint32, cmd *core.Command) fate {
				if cmd.Op == core.Acquire {
					time.Sleep(time.Millisecond) // of the pipeline's commands, one after the other
				}
				return passes
			}
			holds, err := holdAll(t.Context(), locks, o)
			require.NoError(t, err)
			require.Len(t, holds, 5)
			assert.Equal(t, []core.Op{core.Acquire, core.Acquire, core.Acquire, core.Acquire, core.Acquire}, f.ops(core.Acquire, core.Join, core.Leave))
			again, err := holdAll(t.Context(), locks, o)
			require.NoError(t, err, "they nest")
			assert.Equal(t, 5, f.count(core.Acquire))
			for _, h := range append(holds, again...) {
				require.NoError(t, h.Release(t.Context()))
			}
			f.areFree(locks)
		})
	}
}

// The first that is not free ends it, here or in Redis. A grant behind that is released.
func TestLocksBehindTheFirstThatIsNotFreeAreNotKept(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fake) {
			c := f.join(nil)
			locks, holder := f.many(c, 5), c
			if elsewhere {
				holder = f.join(nil)
			}
			theirs := NewLock(holder, f.kind, locks[2].Name.Key)
			held, err := theirs.Hold(t.Context(), t.Context(), Request{Owner: terms.NewOwner()})
			require.NoError(t, err)
			holds, err := holdAll(t.Context(), locks, terms.NewOwner())
			require.ErrorIs(t, err, terms.ErrNotAcquired)
			require.ErrorContains(t, err, locks[2].Name.Key)
			require.Len(t, holds, 2)
			for _, h := range holds {
				assert.True(t, Valid(h))
				require.NoError(t, h.Release(t.Context()))
			}
			require.NoError(t, held.Release(t.Context()))
			f.areFree(locks)
		})
	}
}

// A caller that leaves while the commands are in flight holds nothing, whatever their answers say.
func TestACallerThatLeavesARowHoldsNothing(t *testing.T) {
	for _, what := range []fate{held, late} {
		bubble(t, func(t *testing.T, f *fake) {
			locks := f.many(f.join(nil), 3)
			f.fate = func(_ uint32, cmd *core.Command) fate {
				if cmd.Op == core.Acquire {
					return what
				}
				return passes
			}
			ctx, cancel := context.WithCancel(t.Context())
			result := make(chan error, 1)
			go func() {
				_, err := holdAll(ctx, locks, terms.NewOwner())
				result <- err
			}()
			synctest.Wait()
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
			for range locks { // one after the other, as the fake wire does
				f.deliver(0)
				synctest.Wait()
			}
			f.areFree(locks)
		})
	}
}

func TestARowOfAClosedClientIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		locks := f.many(c, 3)
		require.NoError(t, c.Close())
		holds, err := holdAll(t.Context(), locks, terms.NewOwner())
		require.ErrorIs(t, err, wire.ErrClosed)
		assert.Empty(t, holds)
	})
}

// Two clients acquire rows of the same locks, and commands are lost, late and refused: no lock has two holders, and nothing
// is left.
func TestRowsBesideEachOther(t *testing.T) {
	for seed := range uint64(redistest.Rounds(200)) {
		bubble(t, func(t *testing.T, f *fake) {
			random := rand.New(rand.NewPCG(seed, 0))
			f.fate = func(uint32, *core.Command) fate {
				if n := random.IntN(12); n == int(lost) || n == int(unheard) || n == int(refused) {
					return fate(n)
				}
				return passes
			}
			inside := make(map[string]int)
			var all []*Lock
			for range 2 {
				locks := f.many(f.join(nil), 4)
				all = locks
				for range 2 {
					o := terms.NewOwner()
					go func() {
						for range 5 {
							holds, _ := holdAll(t.Context(), locks, o)
							for i := range holds {
								f.mu.Lock()
								if inside[locks[i].Name.Key]++; Valid(holds[i]) {
									assert.Equal(t, 1, inside[locks[i].Name.Key], "seed %d: %s", seed, locks[i].Name.Key)
								}
								f.mu.Unlock()
							}
							time.Sleep(time.Millisecond)
							for i, h := range holds {
								f.mu.Lock()
								inside[locks[i].Name.Key]--
								f.mu.Unlock()
								_ = h.Release(t.Context())
							}
						}
					}()
				}
			}
			time.Sleep(5 * time.Minute)
			f.mu.Lock()
			f.fate = nil
			f.mu.Unlock()
			time.Sleep(time.Minute)
			f.areFree(all)
		})
	}
}

// A call that core ends before its command is over: while the release of a lock has no answer, an attempt for it waits for that
// answer, but not for long, and its lock is as any other afterwards.
func TestARowWhoseLockIsBeingReleasedHasNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		locks := f.many(c, 3)
		holds, err := holdAll(t.Context(), locks, terms.NewOwner())
		require.NoError(t, err)
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Leave {
				return held
			}
			return passes
		}
		released := make(chan error, 1)
		go func() { released <- holds[0].Release(t.Context()) }()
		synctest.Wait()
		for range 3 {
			_, err = holdAll(t.Context(), locks, terms.NewOwner())
			require.ErrorIs(t, err, terms.ErrUnanswered)
		}
		f.fate = nil
		f.deliver(0)
		require.NoError(t, <-released)
		for _, h := range holds[1:] {
			require.NoError(t, h.Release(t.Context()))
		}
		again, err := holdAll(t.Context(), locks, terms.NewOwner())
		require.NoError(t, err)
		waits, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		_, err = locks[0].Hold(waits, waits, Request{Owner: terms.NewOwner(), Wait: terms.Forever})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, h := range again {
			require.True(t, Valid(h))
			require.NoError(t, h.Release(t.Context()))
		}
		f.areFree(locks)
		time.Sleep(time.Minute) // the keeper has given back the ticket of the call that has waited
		assert.Nil(t, c.lockOf(locks[0]), "it is forgotten")
	})
}

// lockOf returns the lock as the client keeps it, nil if it has forgotten it.
func (c *Client) lockOf(l *Lock) *lock {
	one, _ := c.enterIfAny(l.Name, 0)
	if one != nil {
		one.shard.exit(one)
	}
	return one
}
