package calls_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
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

// Each bubble checks that Close leaves no goroutine behind: one that does not end fails its test.
// The stories of close.txt have what Close releases, and what it ends.

func TestCloseReleasesAThousandLocksAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		for i := range 1000 {
			testbed.Take(t, w.Ctx, p.NewLock(fmt.Sprint("lock ", i)))
		}
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, p.Close()) })
		assert.Empty(t, w.Keys())
		assert.Zero(t, p.Logged("lost"), "nothing was")
	})
}

func TestClientsThatAreClosedInTheMiddleOfEverythingLeaveNothingBehind(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		var sections atomic.Int64
		const rounds = 6
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
			time.Sleep(time.Duration(round) * 1300 * time.Microsecond)
			if round == rounds-1 { // clients that split the votes at first need longer
				w.Eventually(func() bool { return sections.Load() > 0 }, "a client gets the lock")
			}
			require.NoError(t, here.Close())
			time.Sleep(time.Duration(round) * 1300 * time.Microsecond)
			require.NoError(t, there.Close())
			for _, result := range results {
				require.ErrorIs(t, <-result, rlock.ErrClosed)
			}
			require.Empty(t, w.KeysLeft())
		}
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

// A userHandler is a Logger that calls a function.
type userHandler struct {
	slog.Handler
	calls func()
}

func (h userHandler) Enabled(context.Context, slog.Level) bool { h.calls(); return true }

func (h userHandler) Handle(context.Context, slog.Record) error { h.calls(); return nil }

// usersCode has all places where code of the user is called: it sets one to a function.
var usersCode = map[string]func(c *rlock.Config, calls func()){
	"Released": func(c *rlock.Config, calls func()) {
		c.Observer.Released = func(context.Context, rlock.ReleasedInfo) { calls() }
	},
	"Lost": func(c *rlock.Config, calls func()) {
		c.Observer.Lost = func(context.Context, rlock.LostInfo) { calls() }
	},
	"Renewed": func(c *rlock.Config, calls func()) { c.Observer.Renewed = func(rlock.RenewedInfo) { calls() } },
	"GaveUp": func(c *rlock.Config, calls func()) {
		c.Observer.GaveUp = func(context.Context, rlock.GaveUpInfo) { calls() }
	},
	"Waiting": func(c *rlock.Config, calls func()) {
		c.Observer.Waiting = func(context.Context, rlock.WaitingInfo) { calls() }
	},
	"Closed": func(c *rlock.Config, calls func()) {
		closed := c.Observer.Closed
		c.Observer.Closed = func(c *rlock.Client) { calls(); closed(c) }
	},
	"Logger": func(c *rlock.Config, calls func()) {
		c.Logger = slog.New(userHandler{testbed.Quiet.Handler(), calls})
	},
}

// A hook or a Logger may block. Meanwhile other locks are held and taken. Close waits for the
// Observer and for the Logger for a second each, and calls its own hooks all the same.
func TestCloseWaitsForNoCodeOfTheUserForLong(t *testing.T) {
	testbed.EachBubble(t, usersCode, func(t *testing.T, w *testbed.World, set func(c *rlock.Config, calls func())) {
		var stuck atomic.Bool
		goes, closed := make(chan struct{}), false
		p := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Closed: func(*rlock.Client) { closed = true }}
			set(c, func() {
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
		time.Sleep(time.Minute)
		testbed.Within(t, 0, 0, func() { testbed.Take(t, w.Ctx, p.NewLock("another")) })
		require.True(t, first.Valid() && both.Valid())

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
func TestCodeOfTheUserMayCallTheClientAndCloseIt(t *testing.T) {
	testbed.EachBubble(t, usersCode, func(t *testing.T, w *testbed.World, set func(c *rlock.Config, calls func())) {
		var client atomic.Pointer[testbed.Client]
		p, me := w.NewClient(func(c *rlock.Config) {
			c.Observer = &rlock.Observer{Closed: func(*rlock.Client) {}}
			set(c, func() {
				if called := client.Swap(nil); called != nil {
					_ = called.NewLock("another").Do(w.Ctx, testbed.Nothing)
					_ = called.Close()
				}
			})
		}), w.Caller()
		require.NoError(t, p.NewLock("lost").LockFor(me, time.Second))
		require.NoError(t, p.NewLock("held").Lock(me))
		client.Store(p)
		_, _ = p.NewLock("held").TryLockFor(w.Caller(), time.Millisecond, 0)
		time.Sleep(15 * time.Second) // with a renewal
		testbed.Within(t, 0, 0, func() { require.NoError(t, p.Close()) })
		synctest.Wait()
		assert.Nil(t, client.Load(), "it was called")
		assert.Empty(t, w.Keys())
	})
}

// The panic of the handler is on the standard error.
func TestALoggerThatPanicsEndsNothing(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		calls := 0
		p := w.NewClient(func(c *rlock.Config) {
			c.Logger = slog.New(userHandler{testbed.Quiet.Handler(), func() { calls++; panic("boom") }})
		})
		for i := range 2 {
			hold := testbed.Take(t, w.Ctx, p.NewLock(fmt.Sprint(i)))
			w.Del(fmt.Sprint(i))
			time.Sleep(time.Minute)
			testbed.RequireLoss(t, w.Ctx, hold)
		}
		require.NoError(t, p.Close())
		assert.GreaterOrEqual(t, calls, 2, "it is called again")
	})
}

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them.
func sharing(w *testbed.World) (*rlock.Client, rueidis.Client, *network.Network) {
	w.T.Helper()
	n := network.New(w.Dial)
	n.Record()
	option := w.Redis.Options()
	option.DialCtxFn = n.Dial
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
		hold := testbed.Take(t, w.Ctx, client.NewLock("held"))
		for _, s := range shared {
			s.Close()
		}
		testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrUnconfirmed) })
		one := client.NewLock(testbed.Key)
		for _, lock := range []*rlock.Lock{one, one, client.NewReadWriteLock(testbed.Key).Read(), rlock.NewMultiLock(one, client.NewLock("another")), rlock.NewRedLock(clients, testbed.Key)} {
			testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Lock(w.Caller()), rueidis.ErrClosing) })
			require.ErrorIs(t, testbed.ErrorOf(lock.IsLocked(w.Ctx)), rueidis.ErrClosing)
		}
		require.ErrorIs(t, one.Lock(w.Caller()), rlock.ErrClosed)
	})
}

func TestASharedClientWithoutAServerIsTheErrorOfNew(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		_, shared, n := sharing(w)
		opens := func() error {
			client, err := rlock.New(rlock.Config{Client: shared})
			if err == nil {
				err = client.Close()
			}
			return err
		}
		n.Refuse()
		n.Cut()
		require.ErrorContains(t, opens(), "Config.Client does not reach Redis")
		n.Heal()
		require.NoError(t, opens())
		n.Cut()
		require.NoError(t, opens(), "a connection that has ended is opened again")
		_, shared, _ = sharing(w)
		shared.Close()
		require.ErrorIs(t, opens(), rueidis.ErrClosing)
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
	assert.Equal(t, []string{"shared"}, s.ClientNames())
	require.NoError(t, client.NewLock(testbed.Key).Lock(s.Ctx))
	require.NoError(t, client.Close())
	left, err := shared.Do(s.Ctx, shared.B().Exists().Key(testbed.Key).Build()).AsInt64()
	require.NoError(t, err, "it was closed")
	assert.Zero(t, left)
}

// A constructor that returns no error panics if its client is nil: otherwise its lock would panic
// later, at the first use.
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
