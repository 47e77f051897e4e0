package calls_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bubble of this package checks that Close leaves no goroutine behind: one that does not
// end fails its test.

func TestCloseReleasesHeldLocks(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		locks := w.Times(testbed.Rounds(1000))
		for i := range locks {
			lock := p.NewLock(fmt.Sprint("lock ", i))
			require.NoError(t, lock.Lock(me))
			if i%10 == 0 {
				require.NoError(t, lock.LockFor(me, time.Hour))
			}
		}
		require.GreaterOrEqual(t, len(w.KeysLeft()), locks)
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, p.Close()) })
		assert.Empty(t, w.KeysLeft())
		assert.Zero(t, p.Logged("lost"), "nothing was")
	})
}

func TestCloseEndsEveryWaitAtOnce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, other.NewLock("theirs").Lock(me))
		require.NoError(t, p.NewLock("ours").Lock(me))
		var results []<-chan error
		for range 3 {
			for _, name := range []string{"theirs", "ours"} {
				them := w.Caller()
				results = append(results, testbed.Start(func() error { return p.NewLock(name).Rival.Lock(them) }))
				results = append(results, testbed.Start(func() error {
					_, err := p.NewLock(name).Rival.TryLockFor(w.Caller(), time.Minute, 0)
					return err
				}))
			}
		}
		synctest.Wait()
		waits := testbed.Waits(t, func() error { return other.NewLock("ours").Rival.Lock(me) })
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			closed := testbed.Start(p.Close)
			require.NoError(t, p.Close(), "again")
			require.NoError(t, <-closed)
			require.NoError(t, <-waits, "what Close releases is granted at once")
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
		})
		require.NoError(t, other.NewLock("theirs").Unlock(me))
		require.NoError(t, other.NewLock("ours").Rival.Unlock(me))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		var sections atomic.Int64
		rounds := w.Times(20)
		for round := range rounds {
			var results []<-chan error
			here, there := w.NewProcess(), w.NewProcess()
			for _, p := range []*testbed.Peer{here, there} {
				for range 4 {
					me := w.Caller()
					results = append(results, testbed.Start(func() error {
						for {
							hold, err := p.NewLock(testbed.Key).Acquire(me)
							if err != nil {
								return err
							}
							sections.Add(1)
							time.Sleep(time.Millisecond)
							if err := hold.Release(me); err != nil {
								return err
							}
						}
					}))
				}
			}
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			if round == rounds-1 { // clients that split the votes at first need longer
				w.Eventually(func() bool { return sections.Load() > 0 }, "a client gets the lock")
			}
			require.NoError(t, here.Close())
			time.Sleep(time.Duration(round) * 700 * time.Microsecond)
			require.NoError(t, there.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
			require.Empty(t, w.KeysLeft())
		}
	})
}

// ours returns how many goroutines this package has started.
func ours() (n int) {
	buffer := make([]byte, 64<<20)
	stacks := string(buffer[:runtime.Stack(buffer, true)])
	return strings.Count(stacks, "\ncreated by github.com/go-rlock/rlock/rlock.")
}

// Contexts end before, while and after Close gives up.
func TestNoGoroutineOutlivesClose(t *testing.T) {
	redistest.Slow(t)
	for name, connect := range connections {
		t.Run(name, func(t *testing.T) {
			testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) { closeAtASilentServer(t, w, connect) })
		})
	}
}

func TestCloseWaitsLongerIfTheConfigGivesTheServerLonger(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(func(c *rlock.Config) { c.Redis.ConnWriteTimeout = 12 * time.Second }), w.Caller()
		one, two := p.NewLock("one"), p.NewLock("two")
		require.NoError(t, one.Do(me, testbed.Nothing)) // the scripts are known
		require.NoError(t, one.Lock(me))
		require.NoError(t, two.Lock(me))
		synctest.Wait() // the client has subscribed to its own channel: a connection that fails makes it verify all locks
		p.Net.SetRoundTrip(8 * time.Second)
		testbed.Within(t, 8*time.Second, 8*time.Second, func() { require.NoError(t, one.Unlock(me)) })
		testbed.Within(t, 8*time.Second, 10*time.Second, func() { require.NoError(t, p.Close()) }) // rueidis allows each of two connections a second
		assert.Empty(t, w.Keys())
	})
}

// A connected makes a lock client, and returns its network as well.
type connected func(w *testbed.World) (*rlock.Client, *network.Network)

// connections are the ways in which a lock client may be connected.
var connections = map[string]connected{
	"of its own": func(w *testbed.World) (*rlock.Client, *network.Network) {
		p := w.NewClient()
		return p.Client, p.Net
	},
	"of its own, several": func(w *testbed.World) (*rlock.Client, *network.Network) {
		p := w.NewClient(func(c *rlock.Config) { c.Redis.PipelineMultiplex = 2 })
		return p.Client, p.Net
	},
	"shared": func(w *testbed.World) (*rlock.Client, *network.Network) {
		client, _, n := sharing(w)
		return client, n
	},
	"shared, one that pipelines": func(w *testbed.World) (*rlock.Client, *network.Network) {
		client, _, n := sharing(w, func(o *rueidis.ClientOption) { o.AlwaysPipelining, o.PipelineMultiplex = true, -1 })
		return client, n
	},
}

// A caller leaves while its acquire is in flight. Redis tells the client whether it was
// executed, so Close has nothing to warn of.
func TestCloseIsConfirmedAlthoughCallersHaveLeft(t *testing.T) {
	testbed.EachBubble(t, connections, func(t *testing.T, w *testbed.World, connect connected) {
		random := rand.New(rand.NewPCG(1, 2))
		for round := range testbed.Rounds(12) {
			holder, me := w.NewClient(), w.Caller()
			held := round%3 == 0
			if held {
				require.NoError(t, holder.NewLock(testbed.Key).Lock(me))
			}
			client, n := connect(w)
			lock := client.NewLock(testbed.Key)
			n.SetRoundTrip(20 * time.Millisecond)
			var results []<-chan error
			for range 4 {
				ctx, cancel := context.WithTimeout(w.Caller(), time.Duration(random.IntN(300))*time.Millisecond/10)
				results = append(results, testbed.Start(func() error {
					defer cancel()
					if err := lock.Lock(ctx); err != nil {
						return err
					}
					return lock.Unlock(ctx)
				}))
				time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond / 10)
			}
			for _, result := range results {
				if err := <-result; err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
			testbed.Within(t, 0, 500*time.Millisecond, func() { require.NoError(t, client.Close()) }) // a release that found nothing is sent again
			if held {
				require.NoError(t, holder.NewLock(testbed.Key).Unlock(me))
			}
			require.Empty(t, w.Keys())
			require.NoError(t, holder.Close())
		}
	})
}

func closeAtASilentServer(t *testing.T, w *testbed.World, connect connected) {
	before := ours()
	client, n := connect(w)
	n.Rule(network.Silence)
	var results []<-chan error
	for i := range 200 {
		ctx, cancel := context.WithTimeout(w.Caller(), 8*time.Second/200*time.Duration(i))
		call := func() error { return client.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		if i%4 == 3 {
			call = func() error { _, err := client.NewLock(testbed.Key).IsLocked(ctx); return err }
		}
		results = append(results, testbed.Start(func() error {
			defer cancel()
			return call()
		}))
	}
	synctest.Wait()
	testbed.Within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
	assert.Equal(t, before, ours(), "goroutines")
	sent := len(n.Sent(""))
	time.Sleep(time.Minute)
	assert.Len(t, n.Sent(""), sent, "commands were sent after Close")
	for _, result := range results {
		require.Error(t, <-result)
	}
}

// An attempt without an answer may have been granted the lock: many of them for one lock are one
// lock to the caller of Close.
func TestCloseCountsTheLocksThatAreNotReleased(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		n := p.Net
		n.Rule(network.Silence)
		var results []<-chan error
		for i := range 60 {
			ctx, cancel := context.WithTimeout(w.Caller(), time.Duration(i+1)*time.Millisecond)
			results = append(results, testbed.Start(func() error {
				defer cancel()
				return p.NewSemaphore(fmt.Sprint("lock ", i%2), 50).Lock(ctx)
			}))
		}
		for _, result := range results {
			require.Error(t, <-result)
		}
		err := p.Close()
		require.ErrorIs(t, err, rlock.ErrUnconfirmed)
		assert.Contains(t, err.Error(), "within 30s: 2")
	})
}

// Each Close waits until the client is closed, and returns the error of the first.
func TestEachCloseReturnsTheResultOfTheFirst(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		p.Net.Rule(network.Silence)
		first := testbed.Start(func() error {
			require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed)
			return p.Close()
		})
		synctest.Wait()
		testbed.Within(t, 3*time.Second, 6*time.Second, func() { require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed) })
		synctest.Wait()
		require.Len(t, first, 1, "the first has returned")
		require.ErrorIs(t, <-first, rlock.ErrUnconfirmed, "and returned it again")
		testbed.Within(t, 0, 0, func() { require.ErrorIs(t, p.Close(), rlock.ErrUnconfirmed, "later") })
	})
}

// A stuckHandler is a Logger that waits for something else.
type stuckHandler struct {
	slog.Handler
	waits func()
}

func (h stuckHandler) Handle(context.Context, slog.Record) error { h.waits(); return nil }

// Code of the user may wait for something else: Close waits for the Observer and for the Logger for
// a second each. The hooks of Close are called all the same.
func TestCloseWaitsForNoCodeOfTheUserForLong(t *testing.T) {
	testbed.EachBubble(t, map[string]func(c *rlock.Config, waits func()){
		"Released": func(c *rlock.Config, waits func()) {
			c.Observer.Released = func(context.Context, rlock.ReleasedInfo) { waits() }
		},
		"Lost": func(c *rlock.Config, waits func()) {
			c.Observer.Lost = func(context.Context, rlock.LostInfo) { waits() }
		},
		"Renewed": func(c *rlock.Config, waits func()) { c.Observer.Renewed = func(rlock.RenewedInfo) { waits() } },
		"GaveUp": func(c *rlock.Config, waits func()) {
			c.Observer.GaveUp = func(context.Context, rlock.GaveUpInfo) { waits() }
		},
		"Waiting": func(c *rlock.Config, waits func()) {
			c.Observer.Waiting = func(context.Context, rlock.WaitingInfo) { waits() }
		},
		"Closed": func(c *rlock.Config, waits func()) {
			closed := c.Observer.Closed
			c.Observer.Closed = func(c *rlock.Client) { waits(); closed(c) }
		},
		"Logger": func(c *rlock.Config, waits func()) {
			c.Logger = slog.New(stuckHandler{testbed.Quiet.Handler(), waits})
		},
	}, func(t *testing.T, w *testbed.World, stick func(c *rlock.Config, waits func())) {
		var stuck atomic.Bool
		goes, closed := make(chan struct{}), false
		p := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Closed: func(*rlock.Client) { closed = true }}
			stick(c, func() {
				if stuck.Load() {
					<-goes
				}
			})
		})
		first, lost := testbed.Take(t, w.Ctx, p.NewLock("first")), testbed.Take(t, w.Ctx, p.NewLock("lost"))
		both := testbed.Take(t, w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		stuck.Store(true)
		waits := testbed.Start(func() error { return p.NewLock("first").Lock(w.Caller()) })
		time.Sleep(15 * time.Second) // with a renewal
		w.Del("lost")
		testbed.RequireLoss(t, w.Ctx, lost)

		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, p.Close()) })
		for _, hold := range []*rlock.Hold{first, both} {
			assert.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		}
		assert.Empty(t, w.Keys())
		close(goes)
		require.ErrorIs(t, <-waits, rlock.ErrClosed)
		synctest.Wait()
		assert.True(t, closed)
	})
}

// A hook that Close calls, or waits for, must not wait for Close.
func TestAHookMayCloseTheClient(t *testing.T) {
	for name, observer := range map[string]rlock.Observer{
		"Released": {Released: func(_ context.Context, i rlock.ReleasedInfo) { _ = i.Client.Close() }},
		"Lost":     {Lost: func(_ context.Context, i rlock.LostInfo) { _ = i.Client.Close() }},
		"Closed":   {Closed: func(c *rlock.Client) { _ = c.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(func(c *rlock.Config) { c.Observer = &observer }), w.Caller()
				require.NoError(t, p.NewLock("lost").LockFor(me, time.Second))
				require.NoError(t, p.NewLock("held").Lock(me))
				time.Sleep(999 * time.Millisecond)
				testbed.Within(t, 0, 0, func() { require.NoError(t, p.Close()) })
				assert.Empty(t, w.Keys())
			})
		})
	}
}

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them. The changes are made to the options of the rueidis client.
func sharing(w *testbed.World, changes ...func(*rueidis.ClientOption)) (*rlock.Client, rueidis.Client, *network.Network) {
	w.T.Helper()
	n := network.New(w.Dial)
	n.Record()
	option := rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: n.Dial,
	}
	for _, change := range changes {
		change(&option)
	}
	shared, err := rueidis.NewClient(option)
	require.NoError(w.T, err)
	client, err := rlock.New(rlock.Config{Client: shared, Logger: testbed.Quiet})
	require.NoError(w.T, err)
	w.T.Cleanup(func() {
		_ = client.Close()
		shared.Close()
		n.Close()
	})
	return client, shared, n
}

func TestALockEndsWithTheSharedClientThatWasClosedFirst(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		clients := make([]*rlock.Client, 3)
		shared := make([]rueidis.Client, 3)
		for i := range clients {
			clients[i], shared[i], _ = sharing(testbed.NewWorld(t, w.Ctx))
		}
		client := clients[0]
		held, me := client.NewLock("held"), w.Caller()
		require.NoError(t, held.Lock(me))
		for _, s := range shared {
			s.Close()
		}
		testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, held.Unlock(me), rlock.ErrUnconfirmed) })
		for name, lock := range map[string]testbed.Locker{
			"lock":       client.NewLock(testbed.Key),
			"fair lock":  client.NewFairLock(testbed.Key),
			"read lock":  client.NewReadWriteLock(testbed.Key).Read(),
			"multi-lock": rlock.NewMultiLock(client.NewLock(testbed.Key), client.NewLock("another")),
		} {
			testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Lock(w.Caller()), rlock.ErrClosed, name) })
			testbed.Within(t, 0, 5*time.Second, func() {
				err := lock.Lock(w.Caller())
				require.ErrorIs(t, err, rlock.ErrClosed, name)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
			testbed.Within(t, 0, 5*time.Second, func() {
				require.ErrorIs(t, testbed.ErrorOf(lock.IsLocked(w.Ctx)), rueidis.ErrClosing, name)
			})
		}
		testbed.Within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, testbed.Key).Lock(w.Caller()), rueidis.ErrClosing)
		})
	})
}

func TestASharedClientWithoutAServerIsTheErrorOfNew(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		_, shared, n := sharing(w)
		n.Refuse()
		n.Cut()
		_, err := rlock.New(rlock.Config{Client: shared})
		require.ErrorContains(t, err, "Config.Client does not reach Redis")
		n.Heal()
		client, err := rlock.New(rlock.Config{Client: shared})
		require.NoError(t, err)
		require.NoError(t, client.Close())
		n.Cut()
		client, err = rlock.New(rlock.Config{Client: shared})
		require.NoError(t, err, "a connection that has ended is opened again")
		require.NoError(t, client.Close())

		_, shared, _ = sharing(w)
		shared.Close()
		_, err = rlock.New(rlock.Config{Client: shared})
		require.ErrorIs(t, err, rueidis.ErrClosing)
	})
}

func TestASharedClientKeepsItsNameAndStaysOpen(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	option := s.Options()
	option.ClientName = "shared"
	shared, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer shared.Close()
	client, err := rlock.New(rlock.Config{Client: shared})
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, []string{"shared"}, s.ClientNames())
	require.NoError(t, client.NewLock(testbed.Key).Lock(s.Ctx))
	require.NoError(t, client.Close())
	left, err := shared.Do(s.Ctx, shared.B().Exists().Key(testbed.Key).Build()).AsInt64()
	require.NoError(t, err, "it was closed")
	assert.Zero(t, left)
}

func TestACancelledLockReturnsTheContextsErrorAndHoldsNothing(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		here, there := s.NewLock(), s.NewLock()
		ended, cancel := context.WithCancel(s.Ctx)
		cancel()
		assert.ErrorIs(t, here.Lock(ended), context.Canceled, "a free lock must not be taken with a context that has ended")

		require.NoError(t, here.Lock(s.Ctx))
		for what, lock := range map[string]testbed.Locker{"behind a goroutine": here.Rival, "behind a client": there.Rival} {
			ctx, cancel := context.WithCancel(s.Ctx)
			ctx, queued := testbed.Queueing(ctx)
			waiter := testbed.Start(func() error { return lock.Lock(ctx) })
			redistest.Await(t, queued)
			cancel()
			assert.ErrorIs(t, redistest.Await(t, waiter), context.Canceled, what)

			ctx, cancel = context.WithTimeout(s.Ctx, 10*time.Millisecond)
			testbed.Elsewhere(func() { assert.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded, what) })
			cancel()
		}
		assert.True(t, here.IsHeld(s.Ctx))
		require.NoError(t, here.Unlock(s.Ctx))
		for _, lock := range []testbed.Locker{here.Rival, there.Rival} {
			require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
		}
	})
}

// A context that ends, at every step of a blocking lock. Each test ends with no lock held
// without a holder.

func TestAWaiterOfARemoteHolderLeavesAtOnceAndLeavesNothing(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, other, me := w.NewProcess(), w.NewProcess(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		lock := p.NewLock(testbed.Key)
		for _, after := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second} {
			ctx, cancel := context.WithCancel(w.Caller())
			result := testbed.Start(func() error { return lock.Rival.Lock(ctx) })
			time.Sleep(after)
			testbed.Within(t, 0, 0, func() {
				cancel()
				require.ErrorIs(t, <-result, context.Canceled)
			})
		}
		time.Sleep(10 * time.Second)
		for _, world := range w.Worlds {
			assert.Empty(t, testbed.LockChannels(world.Miniredis), "the subscription lingers for 5 s")
		}
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
		time.Sleep(time.Minute)
		assert.Empty(t, w.KeysLeft())
	})
}

func TestAnAttemptAfterACancelledLockGetsTheFreeLock(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		if w.Kind.Servers > 0 || w.Kind.Keys != nil {
			t.Skip("its parts are released in the background, and held until then")
		}
		if w.Kind.Many {
			t.Skip("a single attempt does not wait for the release of a cancelled one")
		}
		p := w.NewProcess()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(w.Ctx, testbed.Nothing)) // the scripts are known
		w.Settle()
		p.Networks(func(n *network.Network) { n.SetRoundTrip(roundTrip) })
		for after := time.Millisecond; after < 2*roundTrip; after += time.Millisecond {
			ctx, cancel := context.WithCancel(w.Caller())
			leaves := testbed.Start(func() error { return lock.Lock(ctx) })
			time.Sleep(after)
			cancel()
			if err := <-leaves; err == nil { // granted before it was cancelled
				require.NoError(t, lock.Unlock(ctx))
				continue
			}
			me := w.Caller()
			testbed.Within(t, roundTrip, 4*roundTrip, func() {
				require.True(t, testbed.Tries(t, me, lock), "cancelled after %v", after)
			})
			require.NoError(t, lock.Unlock(me))
			w.Settle()
		}
		time.Sleep(time.Second)
		assert.Empty(t, w.KeysLeft())
	})
}

// A constructor that returns no error panics if its client is nil. What it makes would panic later,
// at its first use.
func TestANilClientIsAPanicOfEachConstructor(t *testing.T) {
	for what, construct := range map[string]func(){
		"inspect.Of":     func() { inspect.Of(nil) },
		"redisson.New":   func() { redisson.New(nil) },
		"once.New":       func() { once.New(nil, once.Options{}) },
		"elect.New":      func() { elect.New(nil, testbed.Key) },
		"idempotent.New": func() { idempotent.New(nil, idempotent.Options{Who: func(*http.Request) string { return "" }}) },
	} {
		assert.Panics(t, construct, what)
	}
}
