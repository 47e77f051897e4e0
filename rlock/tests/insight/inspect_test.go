// Package insight_test is about what a client tells: observers, logs, counters, the holds of a
// process, what Inspect shows, cycles of waits.
package insight_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

func TestLocksVisitsThePrimariesOfAClusterOnceEach(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		client := s.NewClient()
		var taken []string
		for n := range 50 {
			name := fmt.Sprintf("many:%d", n)
			require.NoError(t, client.NewLock(name).Lock(s.Ctx))
			taken = append(taken, name)
		}
		found, err := testbed.Names(s.Ctx, client, "many:*")
		require.NoError(t, err)
		assert.ElementsMatch(t, taken, found, "replicas repeat the names of their primary")
		for _, name := range taken {
			require.NoError(t, client.NewLock(name).Unlock(s.Ctx))
		}
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
		several := []*rlock.Lock{
			p.NewLock("plain"), p.NewReadWriteLock("pair").Read(),
			rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")), rlock.NewRedLock([]*rlock.Client{p.Client}, "red"),
		}
		for _, l := range several {
			require.NoError(t, testbed.ErrorOf(takenHere(w.Ctx, l)), l.Name())
		}
		held := p.Held()
		require.Len(t, held, 5)
		for _, h := range held {
			assert.True(t, strings.HasSuffix(h.Site.Function, ".takenHere"), "%s: %s", h.Name, h.Site)
			assert.Regexp(t, `inspect_test\.go:\d+ .*takenHere$`, h.Site.String())
		}

		time.Sleep(time.Second)
		me := w.Caller()
		require.NoError(t, p.NewLock("done").Do(me, func(context.Context) error {
			held := p.Held()
			assert.Contains(t, held[len(held)-1].Site.Function, "TestHeldShowsWhereALockWasTaken")
			return nil
		}))
	})
}

// What errors tell a person.

func newPlain(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) }

func newRead(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Read() }

func newWrite(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Write() }

func TestARefusalNamesAReaderAndTheCallingGoroutine(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient().Client
		refused := func(lock *rlock.Lock) error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Second))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err
		}
		require.NoError(t, c.NewLock("ours").Do(w.Ctx, func(context.Context) error {
			assert.ErrorContains(t, refused(c.NewLock("ours")), "held by the calling goroutine: use the context of Do or of the Hold")
			return nil
		}))
		hold := testbed.Take(t, w.Ctx, newPlain(c))
		assert.ErrorContains(t, refused(newPlain(c)), "held by the calling goroutine: use the context of Do or of the Hold")
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newPlain(c)), "held by a Hold of this process") })
		require.NoError(t, hold.Release(w.Ctx))

		reader := testbed.Take(t, w.Ctx, newRead(c))
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newWrite(c)), "held by a reader, a Hold of this process") })
		require.NoError(t, reader.Release(w.Ctx))
	})
}

func TestARefusalNamesTheProcessOfAnotherClientThatIsKnown(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	here, there := s.NewClient(), s.NewClient()
	hold := testbed.Take(t, s.Ctx, newPlain(there))
	refused := func() error {
		_, err := newPlain(here).Acquire(s.Ctx, rlock.WithWait(0))
		return err
	}
	require.ErrorContains(t, refused(), "held by "+inspect.Of(there).ID())
	state := testbed.Inspected(t, s.Ctx, here)
	require.ErrorContains(t, refused(), "held by "+state.Holders[0].Process.String()+", owner "+inspect.Of(there).ID())
	require.NoError(t, hold.Release(s.Ctx))
}

func TestAnOwnerThatIsAGoroutineIsNamedAsOne(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		err := w.NewClient().NewLock(testbed.Key).Unlock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Regexp(t, `: goroutine \d+: `, err.Error())
	})
}

// What an operator releases after a look.

// A note enters and goes with its hold on servers of all sorts, and over several of them.
func TestANoteGoesWithItsHoldOnEachServer(t *testing.T) {
	testbed.EachKind(t, func(t *testing.T, s *testbed.Subject) {
		p, q := s.NewProcess(), s.NewProcess()
		acquire := func(lock testbed.Locker, note string) (*rlock.Hold, error) {
			return testbed.Repeat(s.Ctx, lock, func(ctx context.Context) (*rlock.Hold, error) {
				return lock.Acquire(ctx, rlock.WithNote(note))
			})
		}
		shows := func(note string) bool { // a red lock may lack a part
			return slices.ContainsFunc(q.Clients, func(c *rlock.Client) bool {
				for _, key := range s.KindOfLock.KeysOf(testbed.Key) {
					if i, err := inspect.Of(c).Lock(s.Ctx, key); err == nil && len(i.Holders) > 0 && i.Holders[0].Note == note && time.Since(i.Holders[0].Since) < time.Hour {
						return true
					}
				}
				return false
			})
		}
		first, err := acquire(p.NewLock(testbed.Key), "job 7: *3")
		require.NoError(t, err)
		assert.True(t, shows("job 7: *3"))
		var second *rlock.Hold
		next := testbed.Start(func() (err error) {
			second, err = acquire(q.NewLock(testbed.Key).Rival, "job 8")
			return err
		})
		require.NoError(t, first.Release(s.Ctx))
		require.NoError(t, redistest.Await(t, next))
		assert.True(t, shows("job 8"))
		require.NoError(t, second.Release(s.Ctx))
	})
}
