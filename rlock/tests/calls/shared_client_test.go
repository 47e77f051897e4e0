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
				_, err := lock.IsLocked(w.Ctx)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
		}
		testbed.Within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, testbed.Key).Lock(w.Caller()), rueidis.ErrClosing)
		})
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
