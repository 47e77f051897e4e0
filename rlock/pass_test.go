package rlock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// passable are the kinds of locks that can be passed on.
var passable = map[string]func(*rlock.Client) *rlock.Lock{
	"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(key) },
	"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(key) },
	"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(key) },
	"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Write() },
	"read":   func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(key).Read() },
	"permit": func(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(key, 1) },
}

func eachPassable(t *testing.T, run func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock)) {
	for name, lock := range passable {
		rival := lock // that excludes the holder
		if name == "read" {
			rival = passable["write"]
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) { run(t, w, lock, rival) })
		})
	}
}

func TestALockIsPassedOnAndResumed(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		var told []rlock.ReleasedInfo
		var by []rlock.AcquiredBy
		here := w.client(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Released: func(_ context.Context, i rlock.ReleasedInfo) { told = append(told, i) }}
		})
		there := w.client(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Acquired: func(_ context.Context, i rlock.AcquiredInfo) { by = append(by, i.AcquiredBy) }}
		})
		others := rival(w.client().Client)
		hold, err := lock(here.Client).Acquire(w.ctx)
		require.NoError(t, err)
		before, _ := hold.Token()
		sent := len(here.net.Sent("EVALSHA")) + len(here.net.Sent("EVAL"))
		text, err := hold.Pass(w.ctx, 5*time.Second)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(here.net.Sent("EVALSHA"))+len(here.net.Sent("EVAL"))-sent, 2, "EVALSHA, and EVAL for a new script")
		assert.Less(t, len(text), 200)

		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrPassed)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.False(t, hold.Valid())
		assert.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		_, err = hold.Pass(w.ctx, time.Second)
		assert.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Empty(t, here.Held())
		require.Len(t, told, 1)
		assert.True(t, told[0].Passed)
		shown, err := there.Inspect(w.ctx, key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		assert.Equal(t, 5*time.Second, shown.Holders[0].Lease)

		require.NoError(t, here.Close(), "and Close leaves it")
		time.Sleep(4 * time.Second)
		resumed, err := there.Resume(w.ctx, text)
		require.NoError(t, err)
		require.Equal(t, []rlock.AcquiredBy{rlock.ByPass}, by)
		after, _ := resumed.Token()
		assert.Equal(t, before, after)
		_, err = w.client().Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		_, err = there.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		time.Sleep(2 * time.Minute) // the watchdog renews it
		require.True(t, resumed.Valid())
		waits := start(func() error { return others.Lock(w.ctx) })
		synctest.Wait()
		require.NoError(t, resumed.Release(w.ctx))
		require.NoError(t, <-waits)
	})
}

// Nothing renews it, and the first waiter of any client gets it when its time is over.
func TestALockThatIsNotResumedIsFreeWhenItsTimeIsOver(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there := w.client(), w.client()
		hold, err := lock(here.Client).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		own := rival(here.Client)
		text, err := hold.Pass(w.ctx, 5*time.Second)
		require.NoError(t, err)
		within(t, 5*time.Second, 8*time.Second, func() { require.NoError(t, own.Lock(w.ctx)) })
		require.NoError(t, own.Unlock(w.ctx))
		_, err = there.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
	})
}

// A client forgets a lock that it has passed on. Its reports agree with Redis. Neither the question of a waiter nor a late
// message makes it release the lock, which another client may have by now.
func TestAClientTellsTheTruthOfALockThatItHasPassedOn(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there, third := w.client(), w.client(), w.client()
		hold, err := lock(here.Client).Acquire(w.ctx)
		require.NoError(t, err)
		text, err := hold.Pass(w.ctx, time.Minute)
		require.NoError(t, err)
		section := func(c *rlock.Client) <-chan error {
			return start(func() error { return rival(c).Do(w.ctx, func(context.Context) error { return nil }) })
		}
		waits := []<-chan error{section(third.Client), section(here.Client)}
		time.Sleep(50 * time.Second)
		require.True(t, pending(waits[0]) && pending(waits[1]))
		assert.Empty(t, here.Held())
		assert.Zero(t, here.Stats().Held)
		shown, err := here.Inspect(w.ctx, key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		resumed, err := there.Resume(w.ctx, text)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.True(t, resumed.Valid() && pending(waits[0]) && pending(waits[1]))
		assert.Empty(t, here.Held())
		shown, err = here.Inspect(w.ctx, key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.False(t, shown.Holders[0].Passed)
		require.NoError(t, resumed.Release(w.ctx))
		require.NoError(t, <-waits[0])
		require.NoError(t, <-waits[1])
	})
}

func TestOnlyTheOnlyLevelOfOneLockIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		outer, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		inner, err := p.NewLock(key).Acquire(outer.Context())
		require.NoError(t, err)
		_, err = outer.Pass(w.ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.NoError(t, inner.Release(w.ctx))
		_, err = outer.Pass(w.ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		require.True(t, outer.Valid())

		many, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.ctx)
		require.NoError(t, err)
		_, err = many.Pass(w.ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.True(t, many.Valid())
		require.NoError(t, many.Release(w.ctx))

		text, err := outer.Pass(w.ctx, time.Minute)
		require.NoError(t, err)
		for name, bad := range map[string]string{
			"nothing": "", "another version": strings.Replace(text, "1", "2", 1), "cut": text[:len(text)-1], "longer": text + "A",
			"another letter": text[:20] + string(rune(text[20]^1)) + text[21:], "too long": text + strings.Repeat("A", 1<<20),
		} {
			_, err = p.Resume(w.ctx, bad)
			require.ErrorIs(t, err, rlock.ErrInvalidPass, name)
		}
		_, err = p.NewLock(key).ForceUnlock(w.ctx)
		require.NoError(t, err)
		_, err = p.Resume(w.ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed, "it was freed by force")
		outer, err = p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		text, err = outer.Pass(w.ctx, time.Minute)
		require.NoError(t, err)
		hold, err := p.Resume(w.ctx, text, rlock.WithLease(10*time.Second))
		require.NoError(t, err, "the process that has passed it on may resume it")
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	})
}

// Of all that resume one wins, also on a real server, and beside the passer's renewals.
func TestOneClientWinsTheRaceForAPass(t *testing.T) {
	races := 300
	if *long {
		races = 10_000
	}
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		var clients []*rlock.Client
		for range 3 {
			c, err := rlock.New(rlock.Config{Redis: s.Options()})
			require.NoError(t, err)
			defer c.Close()
			clients = append(clients, c)
		}
		ctx := t.Context()
		for n := range races {
			hold, err := clients[n%3].NewLock(key).Acquire(ctx)
			require.NoError(t, err)
			text, err := hold.Pass(ctx, 10*time.Second)
			require.NoError(t, err)
			var won atomic.Pointer[rlock.Hold]
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					h, err := c.Resume(ctx, text)
					switch {
					case err == nil && !won.CompareAndSwap(nil, h):
						t.Error("two have resumed the lock")
					case err != nil && !errors.Is(err, rlock.ErrNotPassed):
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NotNil(t, won.Load(), "none has resumed the lock")
			require.NoError(t, won.Load().Release(ctx))
		}
	})
}

// Each permit has a pass of its own: both are resumed at once, by other clients, and neither pass takes the other's permit.
func TestTwoPermitsArePassedOnAndResumedAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		here, there, third := s.client(), s.client(), s.client()
		held := permits(t, s.ctx, here.NewSemaphore(key, 2), 2)
		var passes [2]string
		together := func(do func(i int) error) {
			t.Helper()
			var calls [2]<-chan error
			for i := range calls {
				calls[i] = background(func() error { return do(i) })
			}
			for _, call := range calls {
				require.NoError(t, s.await(call))
			}
		}
		together(func(i int) (err error) {
			passes[i], err = held[i].Pass(s.ctx, time.Minute)
			return err
		})
		assert.NotEqual(t, passes[0], passes[1])
		refused := func() {
			t.Helper()
			for _, c := range []*rlock.Client{here, there, third} {
				_, err := c.NewSemaphore(key, 2).Acquire(s.ctx, rlock.WithWait(0))
				require.ErrorIs(t, err, rlock.ErrNotAcquired)
			}
		}
		refused()
		shown, err := third.Inspect(s.ctx, key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 2)
		for _, h := range shown.Holders {
			assert.True(t, h.Passed)
		}

		together(func(i int) (err error) {
			held[i], err = []*rlock.Client{there, third}[i].Resume(s.ctx, passes[i])
			return err
		})
		refused()
		for i, hold := range held {
			assert.True(t, hold.Valid())
			_, err := here.Resume(s.ctx, passes[i])
			require.ErrorIs(t, err, rlock.ErrNotPassed)
		}
		require.NoError(t, held[0].Release(s.ctx))
		assert.True(t, held[1].Valid())
		again := permits(t, s.ctx, here.NewSemaphore(key, 2), 1)
		refused()
		require.NoError(t, held[1].Release(s.ctx))
		require.NoError(t, again[0].Release(s.ctx))
	})
}

// Clients that pass the lock to one another in each section have hand-offs inside of each: no tenure of theirs is contended for
// long enough to end them.
func TestOthersHaveTheirShareBesideClientsThatPassTheLockInEachSection(t *testing.T) {
	manyCommands(t)
	for _, kind := range []string{"plain", "write"} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				lock := passable[kind]
				here, there, third := w.client(), w.client(), w.client()
				end := time.Now().Add(2 * time.Second)
				var sections, others int // the lock protects them
				var all sync.WaitGroup
				for range 4 {
					for _, pair := range [][2]*testClient{{here, there}, {there, here}} {
						all.Go(func() {
							for time.Now().Before(end) {
								hold, err := lock(pair[0].Client).Acquire(w.ctx)
								if !assert.NoError(w.t, err) {
									return
								}
								time.Sleep(section / 2)
								text, err := hold.Pass(w.ctx, time.Minute)
								assert.NoError(w.t, err)
								hold, err = pair[1].Resume(w.ctx, text)
								if !assert.NoError(w.t, err) {
									return
								}
								time.Sleep(section / 2)
								sections++
								assert.NoError(w.t, hold.Release(w.ctx))
							}
						})
					}
					all.Go(func() {
						for time.Now().Before(end) {
							assert.NoError(w.t, lock(third.Client).Do(w.ctx, func(context.Context) error {
								time.Sleep(section)
								others++
								return nil
							}))
						}
					})
				}
				all.Wait()
				t.Logf("sections: theirs %d, of the third client %d", sections, others)
				assert.Greater(t, 6*others, sections, "half a fair part")
				assert.Greater(t, 10*sections, others)
			})
		})
	}
}

// Such a thread sleeps for as long as the lease that it has read, unless it is told.
func TestAThreadOfRedissonHasALockThatIsLeftToAShorterLeaseInTime(t *testing.T) {
	for kind, take := range map[string]struct {
		channel string
		holds   []string
		left    func(w *world, p *rlock.Client)
	}{
		"passed on": {channel, []string{foreignOwner, "1"}, func(w *world, p *rlock.Client) {
			hold, err := p.NewLock(key).Acquire(w.ctx)
			require.NoError(w.t, err)
			time.Sleep(time.Second)
			_, err = hold.Pass(w.ctx, 2*time.Second)
			require.NoError(w.t, err)
		}},
		"a write lock, passed on": {rwChannel, []string{"mode", "write", foreignOwner + ":write", "1"}, func(w *world, p *rlock.Client) {
			hold, err := p.NewReadWriteLock(key).Write().Acquire(w.ctx)
			require.NoError(w.t, err)
			time.Sleep(time.Second)
			_, err = hold.Pass(w.ctx, 2*time.Second)
			require.NoError(w.t, err)
		}},
		"detached": {channel, []string{foreignOwner, "1"}, func(w *world, p *rlock.Client) {
			outer, err := p.NewLock(key).Acquire(w.ctx, rlock.WithLease(3*time.Second))
			require.NoError(w.t, err)
			inner, err := p.NewLock(key).Acquire(outer.Context())
			require.NoError(w.t, err)
			time.Sleep(time.Second)
			require.NoError(w.t, inner.Release(w.ctx))
			require.NoError(w.t, outer.Detach(w.ctx))
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				v := w.visitor(take.channel, take.holds...)
				left := start(func() error { take.left(w, w.client().Client); return nil })
				time.Sleep(time.Second / 2)
				within(t, 2*time.Second, 3*time.Second, func() { v.lock() })
				require.NoError(t, <-left)
			})
		})
	}
}
