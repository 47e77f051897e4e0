// Package insight_test is about what a client tells: observers, logs, counters, the holds of a
// process, what Inspect shows, cycles of waits.
package insight_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestAFreeLockHasNoClientsToLookFor(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.NoError(t, testbed.Inspected(t, w.Ctx, p.Client).Unresolved)
		assert.Zero(t, p.Asked("LIST"))
		testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		shown := testbed.Inspected(t, w.Ctx, p.Client)
		assert.ErrorIs(t, shown.Unresolved, rlock.ErrUnsupported, "the embedded server has no CLIENT LIST; the other fields are set")
		assert.Len(t, shown.Holders, 1)
	})
}

func TestInspectShowsTheFirstThousandOfTenThousandTickets(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		queue := "rlock_queue:{" + testbed.Key + "}"
		defer w.FlushAll()
		for n := range 10_000 {
			require.NoError(t, testbed.ErrorOf(w.ZAdd(queue, float64(n+1), fmt.Sprintf("x00000000-0000-8000-8000-%012d:1", n))))
		}
		require.NoError(t, testbed.ErrorOf(w.ZAdd(queue, 0, "!00000000-0000-8000-8000-000000000000"))) // a mark is not a waiter
		i := testbed.Inspected(t, w.Ctx, w.NewClient().Client)
		assert.Equal(t, 10_000, i.Waiting)
		require.Len(t, i.Queue, inspect.Limit)
		assert.Equal(t, "00000000-0000-8000-8000-000000000999:1", i.Queue[999].Owner)
	})
}

// A reader that is handed over between the two questions of an inspection is no dead one.
func TestInspectShowsAReaderThatIsHandedOverMeanwhile(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, q, r := w.NewClient(), w.NewClient(), w.NewClient()
		testbed.Take(t, w.Ctx, newRead(p.Client))
		testbed.Take(t, w.Ctx, newRead(q.Client))
		holders := func() int { return len(testbed.Inspected(t, w.Ctx, r.Client).Holders) }
		require.Equal(t, 2, holders())
		r.Net.Rule(network.All(network.Hold, network.Request, "EXISTS"))
		shown := make(chan int, 1)
		go func() { shown <- holders() }()
		synctest.Wait()
		fields, err := w.HKeys(testbed.Key)
		require.NoError(t, err)
		owner := fields[slices.IndexFunc(fields, func(f string) bool { return f != "mode" })]
		w.HDel(testbed.Key, owner)
		w.HSet(testbed.Key, owner+"1", "1")
		w.Del("{" + testbed.Key + "}:" + owner + ":rwlock_timeout:1")
		r.Net.Heal()
		assert.Equal(t, 2, <-shown)
		w.FlushAll()
	})
}

func TestLocksReadsNoMorePagesThanAreAskedFor(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		testbed.Take(t, w.Ctx, p.NewLock("orders:1"))
		testbed.Take(t, w.Ctx, p.NewSemaphore("orders:2", 3))
		require.NoError(t, testbed.ErrorOf(w.ZAdd("orders:3", 1, "high score")))
		names, err := testbed.Names(w.Ctx, p.Client, "orders:*")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"orders:1", "orders:2"}, names)
		for name, err := range inspect.Of(p.Client).Locks(w.Ctx, "") {
			require.NoError(t, err)
			require.NotEmpty(t, name)
			break
		}
		assert.Len(t, p.Net.Sent("SCAN"), 3, "one call for each type, and the one before the break")
	})
}

var onServers = []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}

func TestInspectFindsTheProcessesOfAHolderAndOfAWaiter(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there := s.NewClient(), s.NewClient()
		require.NoError(t, here.NewLock(testbed.Key).Lock(s.Ctx))
		waiter := testbed.Start(func() error {
			return there.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing)
		})
		s.AwaitWaiters(1, testbed.Key)
		i := testbed.Inspected(t, s.Ctx, there)
		require.NoError(t, i.Unresolved)
		require.Len(t, i.Holders, 1)
		require.Len(t, i.Queue, 1)
		for _, p := range []*inspect.Process{i.Holders[0].Process, i.Queue[0].Process} {
			require.NotNil(t, p)
			assert.NotEmpty(t, p.Addr)
			p.Addr = ""
			assert.Equal(t, testbed.ThisProcess(t), *p)
		}
		require.NoError(t, here.NewLock(testbed.Key).Unlock(s.Ctx))
		require.NoError(t, redistest.Await(t, waiter))
	})
}

func TestInspectCountsGuestsThatWait(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	client := s.NewClient()
	listening, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	go func() {
		_ = s.Outside.Receive(listening, s.Outside.B().Subscribe().Channel(testbed.Channel).Build(), func(rueidis.PubSubMessage) {})
	}()
	s.AwaitListeners(1, testbed.Plain, testbed.Channel)
	i := testbed.Inspected(t, s.Ctx, client)
	assert.Equal(t, 1, i.Foreign)
}

func withSites(c *rlock.Config) { c.RecordSites = true }

// takenHere acquires the lock in a function with a name.
func takenHere(ctx context.Context, l *rlock.Lock) (*rlock.Hold, error) { return l.Acquire(ctx) }

func TestHeldShowsWhereALockWasTaken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		for _, l := range []*rlock.Lock{
			p.NewLock("plain"), p.NewReadWriteLock("pair").Read(),
			rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "red"),
		} {
			require.NoError(t, testbed.ErrorOf(takenHere(w.Ctx, l)), l.Name())
		}
		require.Len(t, p.Held(), 5)
		for _, h := range p.Held() {
			assert.Regexp(t, `inspect_test\.go:\d+ .*\.takenHere$`, h.Site.String(), h.Name)
		}
		time.Sleep(time.Second)
		require.NoError(t, p.NewLock("done").Do(w.Caller(), func(context.Context) error {
			assert.Contains(t, p.Held()[5].Site.Function, "TestHeldShowsWhereALockWasTaken")
			return nil
		}))
	})
}

// What errors tell a person.

func newPlain(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) }

func newRead(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Read() }

// The stories of refusals.txt have the other holders.
func TestAnErrorNamesTheCallingGoroutine(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient().Client
		refused := func() {
			t.Helper()
			err := testbed.ErrorOf(newPlain(c).Acquire(w.Ctx, rlock.WithWait(time.Second)))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			assert.ErrorContains(t, err, "held by the calling goroutine: use the context of Do or of the Hold")
		}
		require.NoError(t, newPlain(c).Do(w.Ctx, func(context.Context) error { refused(); return nil }))
		hold := testbed.Take(t, w.Ctx, newPlain(c))
		refused()
		require.NoError(t, hold.Release(w.Ctx))
		assert.Regexp(t, `: goroutine \d+: `, newPlain(c).Unlock(t.Context()).Error())
	})
}
