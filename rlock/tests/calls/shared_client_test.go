package calls_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them. The changes are made to the options of the rueidis client.
func sharing(w *testbed.World, changes ...func(*rueidis.ClientOption)) (*rlock.Client, rueidis.Client, *network.Network) {
	w.T.Helper()
	n := network.New(w.Dial)
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

// The rueidis client of a program has rueidis' defaults: several connections, and commands
// that may overtake each other.
func TestClientsThatShareARueidisClientExcludeEachOtherAndLeaveItOpen(t *testing.T) {
	testbed.EachExclusiveKind(t, func(t *testing.T, s *testbed.Subject) {
		shared := make(map[*testbed.Site]rueidis.Client)
		for _, site := range s.Sites {
			client, err := rueidis.NewClient(site.Options())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			shared[site] = client
		}
		sharing := func() *testbed.Process {
			return s.With(func(site *testbed.Site) *rlock.Client {
				return site.NewClient(func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, shared[site] })
			})
		}

		processes := []*testbed.Process{sharing(), sharing(), s.NewProcess()}
		r := new(testbed.Record)
		for _, p := range processes {
			r.Work(s.Site, p.NewLock(testbed.Key), 4, testbed.Rounds(12))
		}
		r.Check(t, 3*4*testbed.Rounds(12))
		for _, p := range processes {
			for _, client := range p.Clients {
				require.NoError(t, client.Close())
			}
		}
		for _, client := range shared {
			assert.NoError(t, client.Do(s.Ctx, client.B().Exists().Key(testbed.Key).Build()).Error(), "the client was closed")
		}
	})
}

func TestCloseLeavesASharedClientOpen(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		shared, me := w.Outsider(), w.Caller()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: testbed.Quiet})
		require.NoError(t, err)
		second, err := rlock.New(rlock.Config{Client: shared, Logger: testbed.Quiet})
		require.NoError(t, err)
		defer second.Close()
		require.NoError(t, client.NewLock(testbed.Key).Lock(me))
		require.NoError(t, client.Close())
		assert.Empty(t, w.Keys())
		require.NoError(t, shared.Do(w.Ctx, shared.B().Ping().Build()).Error())
		require.NoError(t, second.NewLock(testbed.Key).Lock(me))
		require.NoError(t, second.NewLock(testbed.Key).Unlock(me))
	})
}

func TestWithASharedClientCloseIsBoundedTooWhenTheServerIsSilent(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		net := network.New(w.Dial)
		defer net.Close()
		shared, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: net.Dial,
		})
		require.NoError(t, err)
		defer shared.Close()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: testbed.Quiet})
		require.NoError(t, err)
		require.NoError(t, client.NewLock("held").Lock(w.Caller()))
		net.Rule(network.Silence)
		me := w.Caller()
		result := testbed.Start(func() error { return client.NewLock(testbed.Key).Lock(me) })
		require.True(t, testbed.Pending(result))
		// Without AlwaysPipelining a single command of rueidis, here the last try of the
		// release, ends at its own deadline and not when it is cancelled.
		testbed.Within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
		// An acquire in flight ends as soon as the shared client drops it.
		require.ErrorIs(t, <-result, rlock.ErrClosed)
	})
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
				_, err := lock.IsLocked(w.Ctx)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
		}
		testbed.Within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, testbed.Key).Lock(w.Caller()), rueidis.ErrClosing)
		})
	})
}

func TestASharedClientKeepsItsName(t *testing.T) {
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
}
