package insight_test

import (
	"context"
	"fmt"
	"slices"
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

// said puts the state of a lock into words: a holder is the index of its client, its count, and what else is known of it.
func said(i inspect.Lock, clients ...*testbed.Client) string {
	who := func(owner string) any {
		return slices.IndexFunc(clients, func(p *testbed.Client) bool { return strings.HasPrefix(owner, p.ID()) })
	}
	var holders []string
	for _, h := range i.Holders {
		holder := fmt.Sprintf(" %d*%d", who(h.Owner), h.Count)
		if h.Lease != i.Lease {
			holder += fmt.Sprint(" for ", h.Lease)
		}
		if h.Shared {
			holder += " reads"
		}
		if strings.HasSuffix(h.Owner, ":write") || h.Foreign || h.Passed {
			holder += fmt.Sprintf(" and %+v", h)
		}
		holders = append(holders, holder)
	}
	slices.Sort(holders) // a hash has no order
	text := fmt.Sprintf("%s for %v, held by %d:%s", i.Kind, i.Lease, i.HolderCount, strings.Join(holders, ""))
	text += fmt.Sprintf("; %d wait:", i.Waiting)
	for _, w := range i.Queue {
		text += fmt.Sprint(" ", who(w.Owner))
		if w.Shared {
			text += " reads"
		}
		if w.Polls || w.Foreign {
			text += fmt.Sprintf(" and %+v", w)
		}
	}
	return text
}

func TestInspectShowsAHolderItsDepthAndItsLease(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		i := testbed.Inspected(t, w.Ctx, p.Client)
		assert.Equal(t, inspect.Lock{Name: testbed.Key}, i)
		for _, sent := range p.Net.Sent("CLIENT") {
			assert.NotEqual(t, "LIST", sent.Args[1], "a free lock has no clients to look for")
		}

		owner, _ := rlock.OwnerFrom(me)
		require.NoError(t, lock.LockFor(me, time.Minute))
		require.NoError(t, lock.LockFor(me, time.Minute))
		time.Sleep(20 * time.Second) // the second level has been mirrored
		i = testbed.Inspected(t, w.Ctx, p.Client)
		assert.Equal(t, "lock for "+w.Remaining(testbed.Key).String()+", held by 1: 0*2; 0 wait:", said(i, p))
		assert.True(t, strings.HasSuffix(i.Holders[0].Owner, ":"+fmt.Sprint(owner)), i.Holders[0].Owner)
		assert.Zero(t, i.Token)
		assert.Zero(t, i.Foreign)
		assert.Nil(t, i.Holders[0].Process)
		assert.ErrorIs(t, i.Unresolved, rlock.ErrUnsupported, "the embedded server has no CLIENT LIST; the other fields are set")
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
	})
}

func TestInspectShowsHoldersAndTheQueueInTheOrderOfItsTickets(t *testing.T) {
	type contended struct {
		held, wanted func(*rlock.Client) *rlock.Lock
		holders      int
		shown        string
	}
	testbed.EachBubble(t, map[string]contended{
		"plain":     {newPlain, newPlain, 1, "lock for 59s, held by 1: 0*1; 2 wait: 2 3"},
		"write":     {newWrite, newRead, 1, "read-write for 59s, held by 1: 0*1; 2 wait: 2 reads 3 reads"},
		"read":      {newRead, newWrite, 2, "read-write for 1m0s, held by 2: 0*1 reads 1*1 reads; 2 wait: 2 3"},
		"semaphore": {newPermit, newPermit, 1, "semaphore for 59s, held by 1: 0*1; 2 wait: 2 3"},
		"permits":   {newPermits, newPermits, 2, "semaphore for 1m0s, held by 2: 0*1 for 59s 1*1; 2 wait: 2 3"},
	}, func(t *testing.T, w *testbed.World, c contended) {
		clients := []*testbed.Client{w.NewClient(), w.NewClient(), w.NewClient(), w.NewClient()}
		var holds []*rlock.Hold
		for at, p := range clients[:c.holders] {
			time.Sleep(time.Duration(at) * time.Second)
			hold := testbed.Take(t, w.Ctx, c.held(p.Client), rlock.WithLease(time.Minute))
			holds = append(holds, hold)
		}
		if c.holders == 1 {
			time.Sleep(time.Second)
		}
		var calls []<-chan error
		for _, p := range clients[2:] {
			calls = append(calls, testbed.Waits(t, func() error { return c.wanted(p.Client).Do(w.Ctx, testbed.Nothing) }))
		}
		i := testbed.Inspected(t, w.Ctx, clients[1].Client)
		assert.Equal(t, c.shown, said(i, clients...))
		testbed.Release(t, w.Ctx, holds...)
		testbed.Succeed(t, calls...)
		i = testbed.Inspected(t, w.Ctx, clients[1].Client)
		assert.Zero(t, i.HolderCount)
	})
}

func TestInspectShowsTheTokenAndTheNoteOfTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(testbed.WithPrefix("shop:"))
		lock := p.NewFencedLock(testbed.Key)
		hold := testbed.Take(t, w.Ctx, lock)
		note := lock.Key(inspect.NoteKey)
		_, err := hold.Write(w.Ctx, []string{note}, []string{"SET", note, "10.0.0.7:8080"})
		require.NoError(t, err)
		i := testbed.Inspected(t, w.Ctx, p.Client)
		assert.Equal(t, "10.0.0.7:8080", i.Note)
		assert.GreaterOrEqual(t, i.Token, testbed.TokenOf(t, hold))

		require.NoError(t, hold.Release(w.Ctx))
		i = testbed.Inspected(t, w.Ctx, p.Client)
		assert.Empty(t, i.Note, "of a lock without a holder")
	})
}

func TestInspectTellsGuestsFromClientsOfOurs(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		w.HSet(testbed.Key, javaThread, "3")
		defer w.Del(testbed.Key)
		i := testbed.Inspected(t, w.Ctx, w.NewClient().Client)
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
				_, err := inspect.Of(w.NewClient().Client).Lock(w.Ctx, testbed.Key)
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
			require.NoError(t, testbed.ErrorOf(w.ZAdd(queue, float64(n+1), fmt.Sprintf("x00000000-0000-8000-8000-%012d:1", n))))
		}
		require.NoError(t, testbed.ErrorOf(w.ZAdd(queue, 0, "!00000000-0000-8000-8000-000000000000"))) // a mark is not a waiter
		i := testbed.Inspected(t, w.Ctx, w.NewClient().Client)
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
		require.ErrorIs(t, testbed.ErrorOf(inspect.Of(p.Client).Lock(ended, testbed.Key)), context.Canceled)
		require.ErrorIs(t, testbed.ErrorOf(inspect.Of(p.Client).Lock(w.Ctx, "")), rlock.ErrInvalidName)
		require.NoError(t, p.Close())
		require.ErrorIs(t, testbed.ErrorOf(inspect.Of(p.Client).Lock(w.Ctx, testbed.Key)), rlock.ErrClosed)
		for _, err := range inspect.Of(p.Client).Locks(w.Ctx, "") {
			require.ErrorIs(t, err, rlock.ErrClosed)
		}
	})
}

func TestLocksFindsTheHeldLocksOfAllKindsAndNothingElse(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		testbed.Take(t, w.Ctx, p.NewLock("orders:1"))
		testbed.Take(t, w.Ctx, p.NewFencedLock("orders:2"))
		testbed.Take(t, w.Ctx, testbed.ReadLock([]*rlock.Client{p.Client}, "orders:3"))
		w.HSet("orders:4", javaThread, "1")
		testbed.Take(t, w.Ctx, p.NewSemaphore("orders:7", 3))
		testbed.Take(t, w.Ctx, p.NewSemaphore("orders:9", 3), rlock.WithPermits(2))
		require.NoError(t, testbed.ErrorOf(w.ZAdd("orders:8", 1, "high score")))
		testbed.Take(t, w.Ctx, p.NewLock("users:1"))
		w.HSet("orders:5", "total", "12")
		require.NoError(t, w.Set("orders:6", "x"))
		defer w.FlushAll()

		names, err := testbed.Names(w.Ctx, p.Client, "orders:*")
		require.NoError(t, err)
		assert.ElementsMatch(t, []string{"orders:1", "orders:2", "orders:3", "orders:4", "orders:7", "orders:9"}, names)
		for name, err := range inspect.Of(p.Client).Locks(w.Ctx, "") {
			require.NoError(t, err)
			require.NotEmpty(t, name)
			break // no further page is requested
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
		require.NoError(t, s.Await(waiter))
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

func TestInspectLeavesOutReadersThatHaveDied(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		dead, living, looks := w.NewClient(), w.NewClient(), w.NewClient()
		testbed.Take(t, w.Ctx, dead.NewReadWriteLock(testbed.Key).Read())
		hold := testbed.Take(t, w.Ctx, living.NewReadWriteLock(testbed.Key).Read())
		state := testbed.Inspected(t, w.Ctx, looks.Client)
		assert.Equal(t, 2, state.HolderCount)

		dead.Net.Refuse()
		time.Sleep(time.Minute)
		state = testbed.Inspected(t, w.Ctx, looks.Client)
		assert.Equal(t, 1, state.HolderCount)
		require.Len(t, state.Holders, 1)
		assert.True(t, strings.HasPrefix(state.Holders[0].Owner, living.ID()))
		require.NoError(t, hold.Release(w.Ctx))
		dead.Net.Heal()
	})
}
