package rlock_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// javaThread is an owner of Redisson, whose UUIDs are of version 4.
const javaThread = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"

func TestInspectShowsAHolderItsDepthAndItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		owner, _ := rlock.OwnerFrom(me)
		lock := p.NewLock(key)
		require.NoError(t, lock.LockFor(me, time.Minute))
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Second) // the second level has been mirrored

		i, err := p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, inspect.KindLock, i.Kind)
		require.Len(t, i.Holders, 1)
		holder := i.Holders[0]
		assert.True(t, strings.HasPrefix(holder.Owner, p.ID()) && strings.HasSuffix(holder.Owner, ":"+fmt.Sprint(owner)), holder.Owner)
		assert.EqualValues(t, 2, holder.Count)
		assert.False(t, holder.Foreign)
		assert.False(t, holder.Shared)
		assert.Equal(t, 1, i.HolderCount)
		assert.Equal(t, w.ttl(key), i.Lease)
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
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		i, err := p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, inspect.Lock{Name: key}, i)
		for _, sent := range p.net.Sent("CLIENT") {
			assert.NotEqual(t, "LIST", sent.Args[1], "a free lock has no clients to look for")
		}
	})
}

func TestInspectShowsTheQueueInTheOrderOfItsTickets(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		holder := w.client()
		hold, err := holder.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		var ids []string
		var waits []<-chan error
		for range 3 {
			p := w.client()
			ids = append(ids, p.ID())
			waits = append(waits, start(func() error {
				return p.NewLock(key).Do(w.ctx, func(context.Context) error { return nil })
			}))
			require.True(t, pending(waits[len(waits)-1]))
		}
		i, err := holder.Inspect(w.ctx, key)
		require.NoError(t, err)
		require.Len(t, i.Queue, 3)
		assert.Equal(t, 3, i.Waiting)
		for at, waiter := range i.Queue {
			assert.True(t, strings.HasPrefix(waiter.Owner, ids[at]), "%d: %s", at, waiter.Owner)
			assert.False(t, waiter.Shared || waiter.Polls || waiter.Foreign)
		}
		require.NoError(t, hold.Release(w.ctx))
		for _, wait := range waits {
			require.NoError(t, <-wait)
		}
	})
}

func TestInspectShowsReadersAndTheWriterThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, elsewhere := w.client(), w.client(), w.client()
		var holds []*rlock.Hold
		for _, p := range []*testClient{here, there} {
			hold, err := readLock([]*rlock.Client{p.Client}, key).Acquire(w.ctx)
			require.NoError(t, err)
			holds = append(holds, hold)
		}
		writer := start(func() error {
			return writeLock([]*rlock.Client{elsewhere.Client}, key).Do(w.ctx, func(context.Context) error { return nil })
		})
		require.True(t, pending(writer))
		i, err := there.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, inspect.KindReadWrite, i.Kind)
		assert.Equal(t, 2, i.HolderCount)
		require.Len(t, i.Holders, 2)
		assert.True(t, i.Holders[0].Shared && i.Holders[1].Shared)
		require.Len(t, i.Queue, 1)
		assert.False(t, i.Queue[0].Shared)
		for _, hold := range holds {
			require.NoError(t, hold.Release(w.ctx))
		}
		require.NoError(t, <-writer)

		require.NoError(t, writeLock([]*rlock.Client{here.Client}, key).Do(w.ctx, func(context.Context) error {
			i, err := there.Inspect(w.ctx, key)
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
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		first, err := p.NewSemaphore(key, 2).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		time.Sleep(time.Second)
		second, err := w.client().NewSemaphore(key, 2).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		other := w.client()
		waiter := start(func() error {
			return other.NewSemaphore(key, 2).Do(w.ctx, func(context.Context) error { return nil })
		})
		require.True(t, pending(waiter))
		i, err := p.Inspect(w.ctx, key)
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
		require.NoError(t, first.Release(w.ctx))
		require.NoError(t, <-waiter)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, second.Release(w.ctx), rlock.ErrLost)
		i, err = p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Zero(t, i.HolderCount)
	})
}

func TestInspectShowsTheLastFencingToken(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewFencedLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		token, err := hold.Token()
		require.NoError(t, err)
		i, err := p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, i.Token, token)
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestInspectShowsTheNoteOfTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withPrefix("shop:"))
		lock := p.NewLock(key)
		hold, err := lock.Acquire(w.ctx)
		require.NoError(t, err)
		i, err := p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Empty(t, i.Note)

		note := lock.Key(inspect.NoteKey)
		_, err = hold.Write(w.ctx, []string{note}, []string{"SET", note, "10.0.0.7:8080"})
		require.NoError(t, err)
		i, err = p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, "10.0.0.7:8080", i.Note)

		require.NoError(t, hold.Release(w.ctx))
		i, err = p.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Empty(t, i.Note, "of a lock without a holder")
	})
}

func TestInspectTellsGuestsFromClientsOfOurs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.HSet(key, javaThread, "3")
		defer w.Del(key)
		i, err := w.client().Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, []inspect.Holder{{Owner: javaThread, Lease: -1, Count: 3, Foreign: true}}, i.Holders)
		assert.EqualValues(t, -1, i.Lease, "its key does not expire")
	})
}

func TestInspectReportsAKeyThatIsNoLock(t *testing.T) {
	for what, make := range map[string]func(w *world){
		"a string":               func(w *world) { require.NoError(w.t, w.Set(key, "x")) },
		"a set of scores":        func(w *world) { _, _ = w.ZAdd(key, 1e15, "Ada") },
		"a hash of something":    func(w *world) { w.HSet(key, "name", "Ada") },
		"a hash of words":        func(w *world) { w.HSet(key, javaThread, "many") },
		"a queue that is a list": func(w *world) { _, _ = w.Lpush("rlock_queue:{"+key+"}", "x") },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				make(w)
				defer w.FlushAll()
				_, err := w.client().Inspect(w.ctx, key)
				require.ErrorIs(t, err, rlock.ErrWrongType)
				assert.Contains(t, err.Error(), key)
				if strings.Contains(what, "queue") {
					assert.Contains(t, err.Error(), "rlock_queue:{"+key+"}")
				}
			})
		})
	}
}

func TestInspectShowsTheFirstThousandOfTenThousandTickets(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		queue := "rlock_queue:{" + key + "}"
		defer w.FlushAll()
		for n := range 10_000 {
			_, err := w.ZAdd(queue, float64(n+1), fmt.Sprintf("x00000000-0000-8000-8000-%012d:1", n))
			require.NoError(t, err)
		}
		_, err := w.ZAdd(queue, 0, "!00000000-0000-8000-8000-000000000000") // a mark is not a waiter
		require.NoError(t, err)
		i, err := w.client().Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, 10_000, i.Waiting)
		require.Len(t, i.Queue, inspect.Limit)
		assert.Equal(t, "00000000-0000-8000-8000-000000000999:1", i.Queue[999].Owner)
	})
}

func TestInspectEndsWithItsContextAndWithItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		ended, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err := p.Inspect(ended, key)
		require.ErrorIs(t, err, context.Canceled)
		_, err = p.Inspect(w.ctx, "")
		require.ErrorIs(t, err, rlock.ErrInvalidName)
		require.NoError(t, p.Close())
		_, err = p.Inspect(w.ctx, key)
		require.ErrorIs(t, err, rlock.ErrClosed)
		for _, err := range p.Locks(w.ctx, "") {
			require.ErrorIs(t, err, rlock.ErrClosed)
		}
	})
}

func TestLocksFindsTheHeldLocksOfAllKindsAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		_, err := p.NewLock("orders:1").Acquire(w.ctx)
		require.NoError(t, err)
		_, err = p.NewFencedLock("orders:2").Acquire(w.ctx)
		require.NoError(t, err)
		_, err = readLock([]*rlock.Client{p.Client}, "orders:3").Acquire(w.ctx)
		require.NoError(t, err)
		w.HSet("orders:4", javaThread, "1")
		_, err = p.NewSemaphore("orders:7", 3).Acquire(w.ctx)
		require.NoError(t, err)
		_, err = w.ZAdd("orders:8", 1, "high score")
		require.NoError(t, err)
		_, err = p.NewLock("users:1").Acquire(w.ctx)
		require.NoError(t, err)
		w.HSet("orders:5", "total", "12")
		require.NoError(t, w.Set("orders:6", "x"))
		defer w.FlushAll()

		var names []string
		for name, err := range p.Locks(w.ctx, "orders:*") {
			require.NoError(t, err)
			names = append(names, name)
		}
		assert.ElementsMatch(t, []string{"orders:1", "orders:2", "orders:3", "orders:4", "orders:7"}, names)
		for name, err := range p.Locks(w.ctx, "") {
			require.NoError(t, err)
			require.NotEmpty(t, name)
			break // no further page is requested
		}
		assert.Len(t, p.net.Sent("SCAN"), 3, "one call for each type, and the one before the break")
	})
}

// thisProcess returns what Inspect reports of the test's own process, but for the address.
func thisProcess(t *testing.T) inspect.Process {
	host, err := os.Hostname()
	require.NoError(t, err)
	return inspect.Process{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}
}

var onServers = []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}

func TestInspectFindsTheProcessesOfAHolderAndOfAWaiter(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		here, there := s.client(), s.client()
		require.NoError(t, here.NewLock(key).Lock(s.ctx))
		waiter := background(func() error {
			return there.NewLock(key).Do(s.ctx, func(context.Context) error { return nil })
		})
		s.awaitWaiters(1, key)
		i, err := there.Inspect(s.ctx, key)
		require.NoError(t, err)
		require.NoError(t, i.Unresolved)
		require.Len(t, i.Holders, 1)
		require.Len(t, i.Queue, 1)
		for _, p := range []*inspect.Process{i.Holders[0].Process, i.Queue[0].Process} {
			require.NotNil(t, p)
			assert.NotEmpty(t, p.Addr)
			p.Addr = ""
			assert.Equal(t, thisProcess(t), *p)
		}
		require.NoError(t, here.NewLock(key).Unlock(s.ctx))
		require.NoError(t, s.await(waiter))
	})
}

func TestLocksVisitsThePrimariesOfAClusterOnceEach(t *testing.T) {
	redistest.Over(t, onServers, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		client := s.client()
		var taken, found []string
		for n := range 50 {
			name := fmt.Sprintf("many:%d", n)
			require.NoError(t, client.NewLock(name).Lock(s.ctx))
			taken = append(taken, name)
		}
		for name, err := range client.Locks(s.ctx, "many:*") {
			require.NoError(t, err)
			found = append(found, name)
		}
		assert.ElementsMatch(t, taken, found, "replicas repeat the names of their primary")
		for _, name := range taken {
			require.NoError(t, client.NewLock(name).Unlock(s.ctx))
		}
	})
}

func TestInspectCountsGuestsThatWait(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	client := s.client()
	listening, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		_ = s.outside.Receive(listening, s.outside.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
	}()
	s.awaitListeners(1, plain, channel)
	i, err := client.Inspect(s.ctx, key)
	require.NoError(t, err)
	assert.Equal(t, 1, i.Foreign)
}

func TestInspectLeavesOutReadersThatHaveDied(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		dead, living, looks := w.client(), w.client(), w.client()
		_, err := dead.NewReadWriteLock(key).Read().Acquire(w.ctx)
		require.NoError(t, err)
		hold, err := living.NewReadWriteLock(key).Read().Acquire(w.ctx)
		require.NoError(t, err)
		state, err := looks.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, 2, state.HolderCount)

		dead.net.Refuse()
		time.Sleep(time.Minute)
		state, err = looks.Inspect(w.ctx, key)
		require.NoError(t, err)
		assert.Equal(t, 1, state.HolderCount)
		require.Len(t, state.Holders, 1)
		assert.True(t, strings.HasPrefix(state.Holders[0].Owner, living.ID()))
		require.NoError(t, hold.Release(w.ctx))
		dead.net.Heal()
	})
}
