package servers_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A client that is made before Redis can be reached.

func lazy(c *rlock.Config) { c.Lazy = true }

// madeBefore returns a lazy client of a server that cannot be reached until its net heals.
func madeBefore(w *testbed.World, changes ...func(*rlock.Config)) (*testbed.Client, *network.Network) {
	gate := network.New(w.Dial)
	w.T.Cleanup(gate.Close)
	gate.Refuse()
	dial := func() (net.Conn, error) { return gate.Dial(w.Ctx, "", nil, nil) }
	return testbed.NewTestClient(w.T, dial, append(changes, lazy)...), gate
}

func TestALazyClientWaitsForRedisAndSaysSoOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, gate := madeBefore(w)
		lock, me := p.NewLock(testbed.Key), w.Caller()
		waits := testbed.Waits(t, func() error { return lock.Lock(me) })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(waits))
		assert.Equal(t, 1, p.Logged("there is no connection to Redis yet"))
		assert.Equal(t, 0, p.Logged("connected to Redis"))
		assert.EqualValues(t, 1, p.Stats().Waiting)

		gate.Heal()
		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, <-waits) })
		assert.Equal(t, 1, p.Logged("connected to Redis"))
		assert.Len(t, w.Fields(testbed.Key), 1)
		other := w.NewClient(lazy) // nothing tells it from another client
		waits = testbed.Waits(t, func() error { return other.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing) })
		testbed.Within(t, 0, 0, func() { // the grant is heard
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-waits)
		})
		assert.Zero(t, other.Logged("Redis yet"))
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

func TestALazyClientFailsAsInAnOutage(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, gate := madeBefore(w)
		lock := p.NewLock(testbed.Key)
		require.ErrorContains(t, testbed.ErrorOf(lock.TryLock(w.Caller())), "cannot connect to [127.0.0.1:6379]")
		testbed.Within(t, time.Second, 2*time.Second, func() {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Second))
			require.ErrorContains(t, err, "cannot connect to [127.0.0.1:6379]")
		})
		ctx, cancel := context.WithTimeout(w.Caller(), time.Second)
		defer cancel()
		testbed.Within(t, time.Second, time.Second, func() { require.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded) })
		for what, ask := range testbed.Questions {
			testbed.Within(t, time.Second, 5*time.Second, func() {
				require.ErrorContains(t, ask(w.Ctx, p.Client, lock), "cannot connect to", what)
			})
			looks := testbed.Waits(t, func() error { return ask(w.Ctx, p.Client, lock) })
			gate.Heal()
			require.NoError(t, <-looks, what)
			require.NoError(t, p.Close())
			p, gate = madeBefore(w)
			lock = p.NewLock(testbed.Key)
		}
	})
}

func TestALazyClientThatHasNeverConnectedCloses(t *testing.T) {
	testbed.EachBubble(t, testbed.Outages, func(t *testing.T, w *testbed.World, rule func(*network.Network)) {
		p, gate := madeBefore(w)
		gate.Heal()
		rule(gate)
		waits := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(w.Caller()) })
		testbed.Within(t, 0, 6*time.Second, func() { require.NoError(t, p.Close()) })
		require.ErrorIs(t, <-waits, rlock.ErrClosed)
	})
}

// What New checks of the server fails the calls of a lazy client, until the server has changed.
func TestALazyClientTellsTheErrorsOfNew(t *testing.T) {
	for what, c := range map[string]struct {
		config func(*rlock.Config)
		reply  string
		is     error
	}{
		"a password is missing": {func(*rlock.Config) {}, "-NOAUTH HELLO must be called with the client already authenticated\r\n", rlock.ErrNoPermission},
		"sharded pub/sub":       {func(c *rlock.Config) { c.Advanced.PubSub = rlock.PubSubSharded }, "-ERR unknown command 'PUBSUB'\r\n", rlock.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				var cured atomic.Bool
				f := &fakeServer{reply: func(command string) string {
					switch {
					case strings.HasPrefix(command, "HELLO") && (cured.Load() || c.reply[1] != 'N'):
						return hello("7.0.15", "standalone")
					case strings.HasPrefix(command, "CLUSTER"):
						return noCluster
					case !cured.Load():
						return c.reply
					case strings.HasPrefix(command, "PUBSUB"):
						return "*0\r\n"
					}
					return "$-1\r\n" // the acquire is granted
				}}
				config := f.config()
				c.config(&config)
				_, refused := rlock.New(config)
				require.ErrorIs(t, refused, c.is)
				log := &testbed.Journal{}
				config.Lazy, config.Logger = true, slog.New(slog.NewTextHandler(log, nil))
				client, err := rlock.New(config)
				require.NoError(t, err)
				defer client.Close()
				err = client.NewLock(testbed.Key).Lock(t.Context())
				require.ErrorIs(t, err, c.is)
				assert.ErrorContains(t, err, strings.TrimPrefix(refused.Error(), "rlock: "))
				time.Sleep(time.Minute)
				assert.Equal(t, 1, log.Count("Redis cannot be used"))

				cured.Store(true)
				time.Sleep(2 * time.Second)
				require.NoError(t, client.NewLock(testbed.Key).Lock(t.Context()))
			})
		})
	}
}

func TestNewContextTriesUntilRedisCanBeReached(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		gate := network.New(w.Dial)
		defer gate.Close()
		gate.Refuse()
		config := rlock.Config{Logger: testbed.Quiet, Redis: rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: gate.Dial,
		}}
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		testbed.Within(t, time.Minute, time.Minute, func() {
			_, err := rlock.NewContext(ctx, config)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "cannot connect to [127.0.0.1:6379]")
		})
		var client *rlock.Client
		connects := testbed.Start(func() (err error) { client, err = rlock.NewContext(w.Ctx, config); return err })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(connects))
		gate.Heal()
		testbed.Within(t, 0, time.Second, func() { require.NoError(t, <-connects) })
		require.NoError(t, client.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing))
		require.NoError(t, client.Close())
	})
}

// A wrong password is no outage.
func TestNewContextDoesNotWaitForWhatWaitingDoesNotCure(t *testing.T) {
	aside(t, func(t *testing.T) {
		f := &fakeServer{reply: func(string) string { return "-WRONGPASS invalid username-password pair or user is disabled.\r\n" }}
		testbed.Within(t, 0, 0, func() {
			require.ErrorIs(t, testbed.ErrorOf(rlock.NewContext(t.Context(), f.config())), rlock.ErrNoPermission)
		})
	})
}
