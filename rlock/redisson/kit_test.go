package redisson_test

import (
	"context"
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// What users test with the kit, in virtual time: see docs/testing.md.
func withTheKit(t *testing.T, run func(t *testing.T, server *rlocktest.Server)) {
	t.Helper()
	t.Parallel()
	redistest.WithoutServer(t)
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		server.HangAfter(24 * time.Hour)
		run(t, server)
	})
}

func TestWithTheKitASemaphoreIsWaitedForForHours(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		here, there := redisson.New(server.Client()).Semaphore("s"), redisson.New(server.Client()).Semaphore("s")
		began := time.Now()
		waits := result(func() error { return here.Acquire(t.Context(), 1) })
		time.Sleep(5 * time.Hour)
		require.NoError(t, there.Release(t.Context(), 1))
		require.NoError(t, <-waits)
		assert.Equal(t, 5*time.Hour, time.Since(began), "it is told")
		assert.False(t, must(there.TryAcquire(t.Context(), 1, time.Minute)))
		assert.Equal(t, 5*time.Hour+time.Minute, time.Since(began))
	})
}

func TestWithTheKitAServerThatIsGoneDelaysAWaiter(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		cut, other := server.Client(), redisson.New(server.Client())
		s := redisson.New(cut).Semaphore("s")
		waits := result(func() error { return s.Acquire(t.Context(), 1) })
		server.Cut(cut)
		require.NoError(t, other.Semaphore("s").Release(t.Context(), 1))
		time.Sleep(time.Minute)
		server.Heal(cut)
		healed := time.Now()
		require.NoError(t, <-waits)
		assert.Less(t, time.Since(healed), 10*time.Second)
	})
}

func TestWithTheKitAPermitEndsWithItsClient(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		dying := server.Client()
		p, other := redisson.New(dying).PermitSemaphore("p"), redisson.New(server.Client()).PermitSemaphore("p")
		require.NoError(t, p.SetPermits(t.Context(), 1))
		permit := must(p.Acquire(t.Context(), 0))
		time.Sleep(time.Hour) // the watchdog keeps it
		require.NoError(t, permit.Err())
		server.Kill(dying)
		began := time.Now()
		raw := must(hex.DecodeString(permit.ID()))
		end := must(server.Miniredis().ZScore("{p}:timeout", string(raw)))
		<-permit.Context().Done()
		assert.Less(t, time.Now().UnixMilli(), int64(end), "its holder knows before the lease ends in Redis")
		next := must(other.Acquire(t.Context(), time.Minute))
		assert.LessOrEqual(t, time.Since(began), 30*time.Second+2*time.Second, "the lease and a look")
		require.ErrorIs(t, permit.Err(), rlock.ErrLost)
		<-next.Context().Done() // a minute
		require.ErrorIs(t, next.Err(), rlock.ErrLost)
	})
}

func TestWithTheKitALatchOpensForAll(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		here, there := redisson.New(server.Client()).CountDownLatch("l"), redisson.New(server.Client()).CountDownLatch("l")
		require.True(t, must(here.TrySetCount(t.Context(), 2)))
		began := time.Now()
		one, two := result(func() error { return here.Await(t.Context()) }), result(func() error { return there.Await(t.Context()) })
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, here.Await(short), context.DeadlineExceeded)
		for range 2 {
			time.Sleep(time.Hour)
			require.NoError(t, there.CountDown(t.Context()))
		}
		require.NoError(t, <-one)
		require.NoError(t, <-two)
		assert.Equal(t, 2*time.Hour+time.Minute, time.Since(began))
	})
}

func TestWithTheKitAnErrorOfTheServerIsTheCallers(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		c := redisson.New(server.Client())
		require.NoError(t, c.Semaphore("s").Release(t.Context(), 1))
		server.Refuse("NOPERM no permission", "evalsha")
		require.ErrorIs(t, c.Semaphore("s").Acquire(t.Context(), 1), rlock.ErrNoPermission)
		require.ErrorIs(t, c.CountDownLatch("l").CountDown(t.Context()), rlock.ErrNoPermission)
		_, err := c.PermitSemaphore("p").Acquire(t.Context(), 0)
		require.ErrorIs(t, err, rlock.ErrNoPermission)
		server.Heal()
		require.NoError(t, c.Semaphore("s").Acquire(t.Context(), 1))
	})
}

// A question whose context ends returns its error.
func TestWithTheKitAQuestionReturnsTheErrorOfItsContext(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		for _, lazy := range []bool{false, true} {
			client := server.Client(func(c *rlock.Config) { c.Lazy = lazy })
			if lazy {
				server.Cut()
				client = server.Client(func(c *rlock.Config) { c.Lazy = true })
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := redisson.New(client).Inspect(ended, "s")
			require.ErrorIs(t, err, context.Canceled)
			_, err = redisson.New(client).Names(ended, "")
			require.ErrorIs(t, err, context.Canceled)
			_, err = inspect.Of(client).Lock(ended, "s")
			require.ErrorIs(t, err, context.Canceled)
		}
		server.Heal()
	})
}

// Nothing keeps the permits of a client that is closed, and their holders know.
func TestWithTheKitAPermitEndsWhenItsClientIsClosed(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client()
		s := redisson.New(client).PermitSemaphore("p")
		require.NoError(t, s.SetPermits(t.Context(), 2))
		kept := must(s.Acquire(t.Context(), 0))
		fixed := must(s.Acquire(t.Context(), time.Minute))
		require.NoError(t, client.Close())
		synctest.Wait()
		for _, p := range []*redisson.Permit{kept, fixed} {
			require.ErrorIs(t, p.Err(), rlock.ErrClosed)
			require.ErrorIs(t, p.Release(t.Context()), rlock.ErrClosed)
		}
	})
}

// A lazy client knows by which command its scripts notify waiters once it is connected, and not
// before.
func TestWithTheKitALazyClientCallsBeforeItIsConnected(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client(func(c *rlock.Config) { c.Lazy = true })
		assert.True(t, must(redisson.New(client).Semaphore("s").TrySetPermits(t.Context(), 3)))
	})
}
