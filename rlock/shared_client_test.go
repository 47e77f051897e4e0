package rlock_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharing returns a lock client that shares a rueidis client of the world's server, and the
// network between them. The changes are made to the options of the rueidis client.
func (w *world) sharing(changes ...func(*rueidis.ClientOption)) (*rlock.Client, rueidis.Client, *network.Network) {
	w.t.Helper()
	n := network.New(w.Dial)
	option := rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: n.Dial,
	}
	for _, change := range changes {
		change(&option)
	}
	shared, err := rueidis.NewClient(option)
	require.NoError(w.t, err)
	client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		_ = client.Close()
		shared.Close()
		n.Close()
	})
	return client, shared, n
}

// The rueidis client of a program has rueidis' defaults: several connections, and commands
// that may overtake each other.
func TestClientsThatShareARueidisClientExcludeEachOtherAndLeaveItOpen(t *testing.T) {
	eachExclusiveKind(t, func(t *testing.T, s *subject) {
		shared := make(map[*site]rueidis.Client)
		for _, site := range s.sites {
			client, err := rueidis.NewClient(site.Options())
			require.NoError(t, err)
			t.Cleanup(client.Close)
			shared[site] = client
		}
		sharing := func() *process {
			return s.with(func(site *site) *rlock.Client {
				return site.client(func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, shared[site] })
			})
		}

		processes := []*process{sharing(), sharing(), s.process()}
		r := new(record)
		for _, p := range processes {
			r.work(s.site, p.lock(key), 4, rounds(12))
		}
		r.check(t, 3*4*rounds(12))
		for _, p := range processes {
			for _, client := range p.clients {
				require.NoError(t, client.Close())
			}
		}
		for _, client := range shared {
			assert.NoError(t, client.Do(s.ctx, client.B().Exists().Key(key).Build()).Error(), "the client was closed")
		}
	})
}

func TestCloseLeavesASharedClientOpen(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		shared, me := w.outsider(), w.caller()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		second, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		defer second.Close()
		require.NoError(t, client.NewLock(key).Lock(me))
		require.NoError(t, client.Close())
		assert.Empty(t, w.Keys())
		require.NoError(t, shared.Do(w.ctx, shared.B().Ping().Build()).Error())
		require.NoError(t, second.NewLock(key).Lock(me))
		require.NoError(t, second.NewLock(key).Unlock(me))
	})
}

func TestWithASharedClientCloseIsBoundedTooWhenTheServerIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		net := network.New(w.Dial)
		defer net.Close()
		shared, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DisableCache: true, DialCtxFn: net.Dial,
		})
		require.NoError(t, err)
		defer shared.Close()
		client, err := rlock.New(rlock.Config{Client: shared, Logger: quiet})
		require.NoError(t, err)
		require.NoError(t, client.NewLock("held").Lock(w.caller()))
		net.Rule(network.Silence)
		me := w.caller()
		result := start(func() error { return client.NewLock(key).Lock(me) })
		require.True(t, pending(result))
		// Without AlwaysPipelining a single command of rueidis, here the last try of the
		// release, ends at its own deadline and not when it is cancelled.
		within(t, 3*time.Second, 7*time.Second, func() { require.ErrorIs(t, client.Close(), rlock.ErrUnconfirmed) })
		// An acquire in flight ends as soon as the shared client drops it.
		require.ErrorIs(t, <-result, rlock.ErrClosed)
	})
}

func TestALockEndsWithTheSharedClientThatWasClosedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		clients := make([]*rlock.Client, 3)
		shared := make([]rueidis.Client, 3)
		for i := range clients {
			clients[i], shared[i], _ = newWorld(t, w.ctx).sharing()
		}
		client := clients[0]
		held, me := client.NewLock("held"), w.caller()
		require.NoError(t, held.Lock(me))
		for _, s := range shared {
			s.Close()
		}
		within(t, 0, 5*time.Second, func() { require.ErrorIs(t, held.Unlock(me), rlock.ErrUnconfirmed) })
		for name, lock := range map[string]locker{
			"lock":       client.NewLock(key),
			"fair lock":  client.NewFairLock(key),
			"read lock":  client.NewReadWriteLock(key).Read(),
			"multi-lock": rlock.NewMultiLock(client.NewLock(key), client.NewLock("another")),
		} {
			within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Lock(w.caller()), rlock.ErrClosed, name) })
			within(t, 0, 5*time.Second, func() {
				err := lock.Lock(w.caller())
				require.ErrorIs(t, err, rlock.ErrClosed, name)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
			within(t, 0, 5*time.Second, func() {
				_, err := lock.IsLocked(w.ctx)
				require.ErrorIs(t, err, rueidis.ErrClosing, name)
			})
		}
		within(t, 0, 5*time.Second, func() {
			require.ErrorIs(t, rlock.NewRedLock(clients, key).Lock(w.caller()), rueidis.ErrClosing)
		})
	})
}

func TestASharedClientKeepsItsName(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	option := s.Options()
	option.ClientName = "shared"
	shared, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer shared.Close()
	client, err := rlock.New(rlock.Config{Client: shared})
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, []string{"shared"}, s.clientNames())
}
