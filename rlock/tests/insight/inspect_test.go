package insight_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// javaThread is an owner of Redisson, whose UUIDs are of version 4.
const javaThread = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"

func TestInspectShowsAHolderItsDepthAndItsLease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		owner, _ := rlock.OwnerFrom(me)
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.LockFor(me, time.Minute))
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Second) // the second level has been mirrored

		i, err := p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, inspect.KindLock, i.Kind)
		require.Len(t, i.Holders, 1)
		holder := i.Holders[0]
		assert.True(t, strings.HasPrefix(holder.Owner, p.ID()) && strings.HasSuffix(holder.Owner, ":"+fmt.Sprint(owner)), holder.Owner)
		assert.EqualValues(t, 2, holder.Count)
		assert.False(t, holder.Foreign)
		assert.False(t, holder.Shared)
		assert.Equal(t, 1, i.HolderCount)
		assert.Equal(t, w.Remaining(testbed.Key), i.Lease)
		assert.Zero(t, i.Waiting)
		assert.Zero(t, i.Token)
		assert.Zero(t, i.Foreign)
		assert.Nil(t, holder.Process)
		assert.ErrorIs(t, i.Unresolved, rlock.ErrUnsupported, "the embedded server has no CLIENT LIST; the other fields are set")
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestInspectShowsNothingOfAFreeLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		i, err := p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, inspect.Lock{Name: testbed.Key}, i)
		for _, sent := range p.Net.Sent("CLIENT") {
			assert.NotEqual(t, "LIST", sent.Args[1], "a free lock has no clients to look for")
		}
	})
}

func TestInspectShowsTheQueueInTheOrderOfItsTickets(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		holder := w.NewClient()
		hold, err := holder.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		var ids []string
		var waits []<-chan error
		for range 3 {
			p := w.NewClient()
			ids = append(ids, p.ID())
			waits = append(waits, testbed.Start(func() error {
				return p.NewLock(testbed.Key).Do(w.Ctx, func(context.Context) error { return nil })
			}))
			require.True(t, testbed.Pending(waits[len(waits)-1]))
		}
		i, err := holder.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		require.Len(t, i.Queue, 3)
		assert.Equal(t, 3, i.Waiting)
		for at, waiter := range i.Queue {
			assert.True(t, strings.HasPrefix(waiter.Owner, ids[at]), "%d: %s", at, waiter.Owner)
			assert.False(t, waiter.Shared || waiter.Polls || waiter.Foreign)
		}
		require.NoError(t, hold.Release(w.Ctx))
		for _, wait := range waits {
			require.NoError(t, <-wait)
		}
	})
}

func TestInspectShowsReadersAndTheWriterThatWaits(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		here, there, elsewhere := w.NewClient(), w.NewClient(), w.NewClient()
		var holds []*rlock.Hold
		for _, p := range []*testbed.Client{here, there} {
			hold, err := testbed.ReadLock([]*rlock.Client{p.Client}, testbed.Key).Acquire(w.Ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
		}
		writer := testbed.Start(func() error {
			return testbed.WriteLock([]*rlock.Client{elsewhere.Client}, testbed.Key).Do(w.Ctx, func(context.Context) error { return nil })
		})
		require.True(t, testbed.Pending(writer))
		i, err := there.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, inspect.KindReadWrite, i.Kind)
		assert.Equal(t, 2, i.HolderCount)
		require.Len(t, i.Holders, 2)
		assert.True(t, i.Holders[0].Shared && i.Holders[1].Shared)
		require.Len(t, i.Queue, 1)
		assert.False(t, i.Queue[0].Shared)
		for _, hold := range holds {
			require.NoError(t, hold.Release(w.Ctx))
		}
		require.NoError(t, <-writer)

		require.NoError(t, testbed.WriteLock([]*rlock.Client{here.Client}, testbed.Key).Do(w.Ctx, func(context.Context) error {
			i, err := there.Inspect(w.Ctx, testbed.Key)
			require.NoError(t, err)
			require.Len(t, i.Holders, 1)
			assert.Equal(t, inspect.KindReadWrite, i.Kind)
			assert.False(t, i.Holders[0].Shared)
			assert.False(t, strings.HasSuffix(i.Holders[0].Owner, ":write"), i.Holders[0].Owner)
			return nil
		}))
	})
}

func TestInspectShowsTheHoldersOfASemaphoreWithTheirLeasesAndTheWaiters(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		first, err := p.NewSemaphore(testbed.Key, 2).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := w.NewClient().NewSemaphore(testbed.Key, 2).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		other := w.NewClient()
		waiter := testbed.Start(func() error {
			return other.NewSemaphore(testbed.Key, 2).Do(w.Ctx, func(context.Context) error { return nil })
		})
		require.True(t, testbed.Pending(waiter))
		i, err := p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, rlock.KindSemaphore, i.Kind)
		require.Len(t, i.Holders, 2)
		assert.Equal(t, 2, i.HolderCount)
		assert.True(t, strings.HasPrefix(i.Holders[0].Owner, p.ID()))
		assert.Equal(t, 59*time.Second, i.Holders[0].Lease)
		assert.Equal(t, time.Minute, i.Holders[1].Lease)
		assert.Equal(t, time.Minute, i.Lease)
		require.Len(t, i.Queue, 1)
		assert.True(t, strings.HasPrefix(i.Queue[0].Owner, other.ID()))
		require.NoError(t, first.Release(w.Ctx))
		require.NoError(t, <-waiter)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, second.Release(w.Ctx), rlock.ErrLost)
		i, err = p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Zero(t, i.HolderCount)
	})
}

func TestInspectShowsTheLastFencingToken(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hold, err := p.NewFencedLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		token, err := hold.Token()
		require.NoError(t, err)
		i, err := p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, i.Token, token)
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestInspectShowsTheNoteOfTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(testbed.WithPrefix("shop:"))
		lock := p.NewLock(testbed.Key)
		hold, err := lock.Acquire(w.Ctx)
		require.NoError(t, err)
		i, err := p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Empty(t, i.Note)

		note := lock.Key(inspect.NoteKey)
		_, err = hold.Write(w.Ctx, []string{note}, []string{"SET", note, "10.0.0.7:8080"})
		require.NoError(t, err)
		i, err = p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, "10.0.0.7:8080", i.Note)

		require.NoError(t, hold.Release(w.Ctx))
		i, err = p.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Empty(t, i.Note, "of a lock without a holder")
	})
}

func TestInspectTellsGuestsFromClientsOfOurs(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		w.HSet(testbed.Key, javaThread, "3")
		defer w.Del(testbed.Key)
		i, err := w.NewClient().Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, []inspect.Holder{{Owner: javaThread, Lease: -1, Count: 3, Foreign: true}}, i.Holders)
		assert.EqualValues(t, -1, i.Lease, "its key does not expire")
	})
}

func TestInspectReportsAKeyThatIsNoLock(t *testing.T) {
	for what, make := range map[string]func(w *testbed.World){
		"a string":               func(w *testbed.World) { require.NoError(w.T, w.Set(testbed.Key, "x")) },
		"a set of scores":        func(w *testbed.World) { _, _ = w.ZAdd(testbed.Key, 1e15, "Ada") },
		"a hash of something":    func(w *testbed.World) { w.HSet(testbed.Key, "name", "Ada") },
		"a hash of words":        func(w *testbed.World) { w.HSet(testbed.Key, javaThread, "many") },
		"a queue that is a list": func(w *testbed.World) { _, _ = w.Lpush("rlock_queue:{"+testbed.Key+"}", "x") },
	} {
		t.Run(what, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				make(w)
				defer w.FlushAll()
				_, err := w.NewClient().Inspect(w.Ctx, testbed.Key)
				require.ErrorIs(t, err, rlock.ErrWrongType)
				assert.Contains(t, err.Error(), testbed.Key)
				if strings.Contains(what, "queue") {
					assert.Contains(t, err.Error(), "rlock_queue:{"+testbed.Key+"}")
				}
			})
		})
	}
}

func TestInspectShowsTheFirstThousandOfTenThousandTickets(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		queue := "rlock_queue:{" + testbed.Key + "}"
		defer w.FlushAll()
		for n := range 10_000 {
			_, err := w.ZAdd(queue, float64(n+1), fmt.Sprintf("x00000000-0000-8000-8000-%012d:1", n))
			require.NoError(t, err)
		}
		_, err := w.ZAdd(queue, 0, "!00000000-0000-8000-8000-000000000000") // a mark is not a waiter
		require.NoError(t, err)
		i, err := w.NewClient().Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, 10_000, i.Waiting)
		require.Len(t, i.Queue, inspect.Limit)
		assert.Equal(t, "00000000-0000-8000-8000-000000000999:1", i.Queue[999].Owner)
	})
}

func TestInspectEndsWithItsContextAndWithItsClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		ended, cancel := context.WithCancel(w.Ctx)
		cancel()
		_, err := p.Inspect(ended, testbed.Key)
		require.ErrorIs(t, err, context.Canceled)
		_, err = p.Inspect(w.Ctx, "")
		require.ErrorIs(t, err, rlock.ErrInvalidName)
		require.NoError(t, p.Close())
		_, err = p.Inspect(w.Ctx, testbed.Key)
		require.ErrorIs(t, err, rlock.ErrClosed)
		for _, err := range p.Locks(w.Ctx, "") {
			require.ErrorIs(t, err, rlock.ErrClosed)
		}
	})
}

func TestLocksFindsTheHeldLocksOfAllKindsAndNothingElse(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		_, err := p.NewLock("orders:1").Acquire(w.Ctx)
		require.NoError(t, err)
		_, err = p.NewFencedLock("orders:2").Acquire(w.Ctx)
		require.NoError(t, err)
		_, err = testbed.ReadLock([]*rlock.Client{p.Client}, "orders:3").Acquire(w.Ctx)
		require.NoError(t, err)
		w.HSet("orders:4", javaThread, "1")
		_, err = p.NewSemaphore("orders:7", 3).Acquire(w.Ctx)
		require.NoError(t, err)
		_, err = w.ZAdd("orders:8", 1, "high score")
		require.NoError(t, err)
		_, err = p.NewLock("users:1").Acquire(w.Ctx)
		require.NoError(t, err)
		w.HSet("orders:5", "total", "12")
		require.NoError(t, w.Set("orders:6", "x"))
		defer w.FlushAll()

		var names []string
		for name, err := range p.Locks(w.Ctx, "orders:*") {
			require.NoError(t, err)
			names = append(names, name)
		}
		assert.ElementsMatch(t, []string{"orders:1", "orders:2", "orders:3", "orders:4", "orders:7"}, names)
		for name, err := range p.Locks(w.Ctx, "") {
			require.NoError(t, err)
			require.NotEmpty(t, name)
			break // no further page is requested
		}
		assert.Len(t, p.Net.Sent("SCAN"), 3, "one call for each type, and the one before the break")
	})
}

var onServers = []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}

func TestInspectFindsTheProcessesOfAHolderAndOfAWaiter(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there := s.NewClient(), s.NewClient()
		require.NoError(t, here.NewLock(testbed.Key).Lock(s.Ctx))
		waiter := testbed.Start(func() error {
			return there.NewLock(testbed.Key).Do(s.Ctx, func(context.Context) error { return nil })
		})
		s.AwaitWaiters(1, testbed.Key)
		i, err := there.Inspect(s.Ctx, testbed.Key)
		require.NoError(t, err)
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
		require.NoError(t, s.Await(waiter))
	})
}

func TestLocksVisitsThePrimariesOfAClusterOnceEach(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		client := s.NewClient()
		var taken, found []string
		for n := range 50 {
			name := fmt.Sprintf("many:%d", n)
			require.NoError(t, client.NewLock(name).Lock(s.Ctx))
			taken = append(taken, name)
		}
		for name, err := range client.Locks(s.Ctx, "many:*") {
			require.NoError(t, err)
			found = append(found, name)
		}
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
	i, err := client.Inspect(s.Ctx, testbed.Key)
	require.NoError(t, err)
	assert.Equal(t, 1, i.Foreign)
}

func TestInspectLeavesOutReadersThatHaveDied(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dead, living, looks := w.NewClient(), w.NewClient(), w.NewClient()
		_, err := dead.NewReadWriteLock(testbed.Key).Read().Acquire(w.Ctx)
		require.NoError(t, err)
		hold, err := living.NewReadWriteLock(testbed.Key).Read().Acquire(w.Ctx)
		require.NoError(t, err)
		state, err := looks.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, 2, state.HolderCount)

		dead.Net.Refuse()
		time.Sleep(time.Minute)
		state, err = looks.Inspect(w.Ctx, testbed.Key)
		require.NoError(t, err)
		assert.Equal(t, 1, state.HolderCount)
		require.Len(t, state.Holders, 1)
		assert.True(t, strings.HasPrefix(state.Holders[0].Owner, living.ID()))
		require.NoError(t, hold.Release(w.Ctx))
		dead.Net.Heal()
	})
}
