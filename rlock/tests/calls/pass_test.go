package calls_test

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
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// passable are the kinds of locks that can be passed on.
var passable = map[string]func(*rlock.Client) *rlock.Lock{
	"plain":  func(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) },
	"fenced": func(c *rlock.Client) *rlock.Lock { return c.NewFencedLock(testbed.Key) },
	"fair":   func(c *rlock.Client) *rlock.Lock { return c.NewFairLock(testbed.Key) },
	"write":  func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Write() },
	"read":   func(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Read() },
	"permit": func(c *rlock.Client) *rlock.Lock { return c.NewSemaphore(testbed.Key, 1) },
}

func eachPassable(t *testing.T, run func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock)) {
	for name, lock := range passable {
		rival := lock // that excludes the holder
		if name == "read" {
			rival = passable["write"]
		}
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) { run(t, w, lock, rival) })
		})
	}
}

func TestALockIsPassedOnAndResumed(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		var told []rlock.ReleasedInfo
		var by []rlock.AcquiredBy
		here := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Released: func(_ context.Context, i rlock.ReleasedInfo) { told = append(told, i) }}
		})
		there := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Acquired: func(_ context.Context, i rlock.AcquiredInfo) { by = append(by, i.AcquiredBy) }}
		})
		others := rival(w.NewClient().Client)
		hold, err := lock(here.Client).Acquire(w.Ctx)
		require.NoError(t, err)
		before, _ := hold.Token()
		sent := len(here.Net.Sent("EVALSHA")) + len(here.Net.Sent("EVAL"))
		text, err := hold.Pass(w.Ctx, 5*time.Second)
		require.NoError(t, err)
		assert.LessOrEqual(t, len(here.Net.Sent("EVALSHA"))+len(here.Net.Sent("EVAL"))-sent, 2, "EVALSHA, and EVAL for a new script")
		assert.Less(t, len(text), 200)

		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrPassed)
		assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrNotHeld)
		assert.False(t, hold.Valid())
		assert.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrNotHeld)
		_, err = hold.Pass(w.Ctx, time.Second)
		assert.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Empty(t, here.Held())
		require.Len(t, told, 1)
		assert.True(t, told[0].Passed)
		shown, err := there.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		assert.Equal(t, 5*time.Second, shown.Holders[0].Lease)

		require.NoError(t, here.Close(), "and Close leaves it")
		time.Sleep(4 * time.Second)
		resumed, err := there.Resume(w.Ctx, text)
		require.NoError(t, err)
		require.Equal(t, []rlock.AcquiredBy{rlock.ByPass}, by)
		after, _ := resumed.Token()
		assert.Equal(t, before, after)
		_, err = w.NewClient().Resume(w.Ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		_, err = there.Resume(w.Ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
		time.Sleep(2 * time.Minute) // the watchdog renews it
		require.True(t, resumed.Valid())
		waits := testbed.Start(func() error { return others.Lock(w.Ctx) })
		synctest.Wait()
		require.NoError(t, resumed.Release(w.Ctx))
		require.NoError(t, <-waits)
	})
}

// Nothing renews it, and the first waiter of any client gets it when its time is over.
func TestALockThatIsNotResumedIsFreeWhenItsTimeIsOver(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there := w.NewClient(), w.NewClient()
		hold, err := lock(here.Client).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		own := rival(here.Client)
		text, err := hold.Pass(w.Ctx, 5*time.Second)
		require.NoError(t, err)
		testbed.Within(t, 5*time.Second, 8*time.Second, func() { require.NoError(t, own.Lock(w.Ctx)) })
		require.NoError(t, own.Unlock(w.Ctx))
		_, err = there.Resume(w.Ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed)
	})
}

// A client forgets a lock that it has passed on. Its reports agree with Redis. Neither the question of a waiter nor a late
// message makes it release the lock, which another client may have by now.
func TestAClientTellsTheTruthOfALockThatItHasPassedOn(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there, third := w.NewClient(), w.NewClient(), w.NewClient()
		hold, err := lock(here.Client).Acquire(w.Ctx)
		require.NoError(t, err)
		text, err := hold.Pass(w.Ctx, time.Minute)
		require.NoError(t, err)
		section := func(c *rlock.Client) <-chan error {
			return testbed.Start(func() error { return rival(c).Do(w.Ctx, func(context.Context) error { return nil }) })
		}
		waits := []<-chan error{section(third.Client), section(here.Client)}
		time.Sleep(50 * time.Second)
		require.True(t, testbed.Pending(waits[0]) && testbed.Pending(waits[1]))
		assert.Empty(t, here.Held())
		assert.Zero(t, here.Stats().Held)
		shown, err := here.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.True(t, shown.Holders[0].Passed)
		resumed, err := there.Resume(w.Ctx, text)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.True(t, resumed.Valid() && testbed.Pending(waits[0]) && testbed.Pending(waits[1]))
		assert.Empty(t, here.Held())
		shown, err = here.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 1)
		assert.False(t, shown.Holders[0].Passed)
		require.NoError(t, resumed.Release(w.Ctx))
		require.NoError(t, <-waits[0])
		require.NoError(t, <-waits[1])
	})
}

func TestOnlyTheOnlyLevelOfOneLockIsPassedOn(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		outer, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		inner, err := p.NewLock(testbed.Key).Acquire(outer.Context())
		require.NoError(t, err)
		_, err = outer.Pass(w.Ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.NoError(t, inner.Release(w.Ctx))
		_, err = outer.Pass(w.Ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		require.True(t, outer.Valid())

		many, err := rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")).Acquire(w.Ctx)
		require.NoError(t, err)
		_, err = many.Pass(w.Ctx, time.Second)
		require.ErrorIs(t, err, rlock.ErrPass)
		require.True(t, many.Valid())
		require.NoError(t, many.Release(w.Ctx))

		text, err := outer.Pass(w.Ctx, time.Minute)
		require.NoError(t, err)
		for name, bad := range map[string]string{
			"nothing": "", "another version": strings.Replace(text, "1", "2", 1), "cut": text[:len(text)-1], "longer": text + "A",
			"another letter": text[:20] + string(rune(text[20]^1)) + text[21:], "too long": text + strings.Repeat("A", 1<<20),
		} {
			_, err = p.Resume(w.Ctx, bad)
			require.ErrorIs(t, err, rlock.ErrInvalidPass, name)
		}
		_, err = p.NewLock(testbed.Key).ForceUnlock(w.Ctx)
		require.NoError(t, err)
		_, err = p.Resume(w.Ctx, text)
		require.ErrorIs(t, err, rlock.ErrNotPassed, "it was freed by force")
		outer, err = p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		text, err = outer.Pass(w.Ctx, time.Minute)
		require.NoError(t, err)
		hold, err := p.Resume(w.Ctx, text, rlock.WithLease(10*time.Second))
		require.NoError(t, err, "the process that has passed it on may resume it")
		time.Sleep(11 * time.Second)
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	})
}

// Of all that resume one wins, also on a real server, and beside the passer's renewals.
func TestOneClientWinsTheRaceForAPass(t *testing.T) {
	races := 300
	if *testbed.Long {
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
			hold, err := clients[n%3].NewLock(testbed.Key).Acquire(ctx)
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
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there, third := s.NewClient(), s.NewClient(), s.NewClient()
		held := testbed.Permits(t, s.Ctx, here.NewSemaphore(testbed.Key, 2), 2)
		var passes [2]string
		together := func(do func(i int) error) {
			t.Helper()
			var calls [2]<-chan error
			for i := range calls {
				calls[i] = testbed.Start(func() error { return do(i) })
			}
			for _, call := range calls {
				require.NoError(t, s.Await(call))
			}
		}
		together(func(i int) (err error) {
			passes[i], err = held[i].Pass(s.Ctx, time.Minute)
			return err
		})
		assert.NotEqual(t, passes[0], passes[1])
		refused := func() {
			t.Helper()
			for _, c := range []*rlock.Client{here, there, third} {
				_, err := c.NewSemaphore(testbed.Key, 2).Acquire(s.Ctx, rlock.WithWait(0))
				require.ErrorIs(t, err, rlock.ErrNotAcquired)
			}
		}
		refused()
		shown, err := third.Inspect(s.Ctx, testbed.Key)
		require.NoError(t, err)
		require.Len(t, shown.Holders, 2)
		for _, h := range shown.Holders {
			assert.True(t, h.Passed)
		}

		together(func(i int) (err error) {
			held[i], err = []*rlock.Client{there, third}[i].Resume(s.Ctx, passes[i])
			return err
		})
		refused()
		for i, hold := range held {
			assert.True(t, hold.Valid())
			_, err := here.Resume(s.Ctx, passes[i])
			require.ErrorIs(t, err, rlock.ErrNotPassed)
		}
		require.NoError(t, held[0].Release(s.Ctx))
		assert.True(t, held[1].Valid())
		again := testbed.Permits(t, s.Ctx, here.NewSemaphore(testbed.Key, 2), 1)
		refused()
		require.NoError(t, held[1].Release(s.Ctx))
		require.NoError(t, again[0].Release(s.Ctx))
	})
}

// Clients that pass the lock to one another in each section have hand-offs inside of each: no tenure of theirs is contended for
// long enough to end them.
func TestOthersHaveTheirShareBesideClientsThatPassTheLockInEachSection(t *testing.T) {
	testbed.ManyCommands(t)
	for _, kind := range []string{"plain", "write"} {
		t.Run(kind, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				lock := passable[kind]
				here, there, third := w.NewClient(), w.NewClient(), w.NewClient()
				end := time.Now().Add(2 * time.Second)
				var sections, others int // the lock protects them
				var all sync.WaitGroup
				for range 4 {
					for _, pair := range [][2]*testbed.Client{{here, there}, {there, here}} {
						all.Go(func() {
							for time.Now().Before(end) {
								hold, err := lock(pair[0].Client).Acquire(w.Ctx)
								if !assert.NoError(w.T, err) {
									return
								}
								time.Sleep(testbed.Section / 2)
								text, err := hold.Pass(w.Ctx, time.Minute)
								assert.NoError(w.T, err)
								hold, err = pair[1].Resume(w.Ctx, text)
								if !assert.NoError(w.T, err) {
									return
								}
								time.Sleep(testbed.Section / 2)
								sections++
								assert.NoError(w.T, hold.Release(w.Ctx))
							}
						})
					}
					all.Go(func() {
						for time.Now().Before(end) {
							assert.NoError(w.T, lock(third.Client).Do(w.Ctx, func(context.Context) error {
								time.Sleep(testbed.Section)
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
		left    func(w *testbed.World, p *rlock.Client)
	}{
		"passed on": {testbed.Channel, []string{testbed.ForeignOwner, "1"}, func(w *testbed.World, p *rlock.Client) {
			hold, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
			require.NoError(w.T, err)
			time.Sleep(time.Second)
			_, err = hold.Pass(w.Ctx, 2*time.Second)
			require.NoError(w.T, err)
		}},
		"a write lock, passed on": {testbed.RWChannel, []string{"mode", "write", testbed.ForeignOwner + ":write", "1"}, func(w *testbed.World, p *rlock.Client) {
			hold, err := p.NewReadWriteLock(testbed.Key).Write().Acquire(w.Ctx)
			require.NoError(w.T, err)
			time.Sleep(time.Second)
			_, err = hold.Pass(w.Ctx, 2*time.Second)
			require.NoError(w.T, err)
		}},
		"detached": {testbed.Channel, []string{testbed.ForeignOwner, "1"}, func(w *testbed.World, p *rlock.Client) {
			outer, err := p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithLease(3*time.Second))
			require.NoError(w.T, err)
			inner, err := p.NewLock(testbed.Key).Acquire(outer.Context())
			require.NoError(w.T, err)
			time.Sleep(time.Second)
			require.NoError(w.T, inner.Release(w.Ctx))
			require.NoError(w.T, outer.Detach(w.Ctx))
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				v := newVisitor(w, take.channel, take.holds...)
				left := testbed.Start(func() error { take.left(w, w.NewClient().Client); return nil })
				time.Sleep(time.Second / 2)
				testbed.Within(t, 2*time.Second, 3*time.Second, func() { v.lock() })
				require.NoError(t, <-left)
			})
		})
	}
}
