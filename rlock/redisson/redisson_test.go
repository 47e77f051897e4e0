package redisson_test

import (
	"context"
	"encoding/hex"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/redisson"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// must returns the value of a call that does not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A program is one that is no client of ours: it reads and writes the keys, and hears the messages.
type program struct {
	t     *testing.T
	redis rueidis.Client
	mu    sync.Mutex
	heard []string
}

func onServers(t *testing.T, run func(t *testing.T, c *redisson.Client, p *program)) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		option := s.Options()
		option.DisableCache = true
		client := must(rlock.New(rlock.Config{Redis: option}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		redis := must(rueidis.NewClient(option))
		t.Cleanup(redis.Close)
		run(t, redisson.New(client), &program{t: t, redis: redis})
	})
}

func (p *program) do(args ...string) string {
	p.t.Helper()
	m, err := p.redis.Do(p.t.Context(), p.redis.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return "absent"
	}
	require.NoError(p.t, err)
	if n, err := m.AsInt64(); err == nil {
		return strconv.FormatInt(n, 10)
	}
	text, err := m.ToString()
	require.NoError(p.t, err)
	return text
}

// listen hears the messages on the channel from now on.
func (p *program) listen(channel string) {
	p.t.Helper()
	client, cancel := p.redis.Dedicate()
	p.t.Cleanup(cancel)
	confirmed := make(chan struct{})
	client.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(rueidis.PubSubSubscription) { close(confirmed) },
		OnMessage: func(m rueidis.PubSubMessage) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.heard = append(p.heard, m.Message)
		},
	})
	require.NoError(p.t, client.Do(p.t.Context(), p.redis.B().Subscribe().Channel(channel).Build()).Error())
	<-confirmed
}

// messages returns those since the last call.
func (p *program) messages(channel string) []string {
	p.t.Helper()
	p.do("PUBLISH", channel, "end")
	for {
		p.mu.Lock()
		heard := p.heard
		if n := len(heard); n > 0 && heard[n-1] == "end" {
			p.heard = nil
			p.mu.Unlock()
			return heard[:n-1]
		}
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

// What calls do to the keys, and tell, is in the models.
func TestWhatASemaphoreRefuses(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s, ctx := c.Semaphore("s"), t.Context()
		_, err := s.TryAcquire(ctx, -1, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		require.ErrorIs(t, s.Release(ctx, -1), rlock.ErrInvalidConfig)
		require.ErrorIs(t, c.Semaphore("").Release(ctx, 1), rlock.ErrInvalidName)
		p.do("DEL", "s")
		p.do("RPUSH", "s", "x")
		require.ErrorIs(t, s.Acquire(ctx, 1), rlock.ErrWrongType)
		require.ErrorIs(t, s.Release(ctx, 1), rlock.ErrWrongType)
		assert.Equal(t, "1", p.do("LLEN", "s"))
	})
}

func TestALatchThatIsOpen(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, _ *program) {
		l, ctx := c.CountDownLatch("l"), t.Context()
		_, err := l.TrySetCount(ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		require.NoError(t, l.Await(ctx), "it is open")
		assert.Zero(t, must(l.Count(ctx)))
	})
}

func TestPermitsAreRedissons(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		const channel, set = "redisson_sc:{p}", "{p}:timeout"
		p.listen(channel)
		s, ctx := c.PermitSemaphore("p"), t.Context()
		assert.True(t, must(s.TrySetPermits(ctx, 2)))
		assert.Equal(t, []string{"2"}, p.messages(channel))
		fixed := must(s.Acquire(ctx, time.Hour))
		kept := must(s.Acquire(ctx, 0))
		none := must(s.TryAcquire(ctx, 0, time.Hour))
		assert.Nil(t, none)
		assert.Equal(t, "0", p.do("GET", "p"))
		raw := must(hex.DecodeString(fixed.ID()))
		require.Len(t, raw, 16)
		assert.Regexp(t, `^\d{13}$`, p.do("ZSCORE", set, string(raw)))
		assert.Equal(t, 2, must(s.AcquiredPermits(ctx)))
		assert.True(t, must(s.UpdateLease(ctx, fixed.ID(), 0)))
		assert.Equal(t, "922337203685477", p.do("ZSCORE", set, string(raw)))

		require.NoError(t, fixed.Release(ctx))
		assert.Equal(t, []string{"1"}, p.messages(channel))
		require.Error(t, fixed.Context().Err())
		assert.False(t, must(s.Release(ctx, fixed.ID())))
		require.NoError(t, kept.Err())
		assert.True(t, must(s.Release(ctx, kept.ID())))
		require.ErrorIs(t, kept.Release(ctx), rlock.ErrNotHeld)
		assert.Equal(t, "2", p.do("GET", "p"))
		assert.Equal(t, "0", p.do("EXISTS", set))

		require.NoError(t, s.SetPermits(ctx, 5))
		one := must(s.Acquire(ctx, 0))
		require.NoError(t, s.SetPermits(ctx, 1))
		assert.Zero(t, must(s.AvailablePermits(ctx)))
		require.NoError(t, s.SetPermits(ctx, 0))
		assert.Equal(t, "-1", p.do("GET", "p"))
		require.NoError(t, one.Release(ctx))
		_ = p.messages(channel)

		p.do("SET", "p", "0") // one that has ended is taken back
		p.do("ZADD", set, "1000", "sixteen bytes id")
		swept := must(s.TryAcquire(ctx, 0, time.Hour))
		require.NotNil(t, swept)
		assert.Equal(t, []string{"1"}, p.messages(channel))
		_, err := s.TryAcquire(ctx, 0, time.Microsecond)
		require.ErrorIs(t, err, rlock.ErrInvalidLease)
		_, err = s.Release(ctx, "no id")
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
	})
}

// In virtual time.
func bubble(t *testing.T, run func(t *testing.T, w *testbed.World)) { testbed.Bubble(t, run) }

func result(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	synctest.Wait()
	return done
}

// Waiters of a process are served in order, a large request is not starved by small ones, and one
// that leaves takes no wake-up along.
func TestWaitersOfAProcessAreServedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		s, ctx := redisson.New(w.NewClient().Client).Semaphore("s"), w.Ctx
		var order []string
		var mu sync.Mutex
		takes := func(ctx context.Context, who string, n int) <-chan error {
			return result(func() error {
				err := s.Acquire(ctx, n)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					order = append(order, who)
				}
				return err
			})
		}
		leaving, leave := context.WithCancel(ctx)
		gone, two, one := takes(leaving, "gone", 3), takes(ctx, "two", 2), takes(ctx, "one", 1)
		require.NoError(t, s.Release(ctx, 1))
		synctest.Wait()
		assert.False(t, must(s.TryAcquire(ctx, 1, 0)), "it does not go before those that wait")
		require.NoError(t, s.Release(ctx, 1))
		synctest.Wait()
		assert.Empty(t, order, "a large request is not starved by small ones")
		began := time.Now()
		leave()
		require.ErrorIs(t, <-gone, context.Canceled)
		require.NoError(t, <-two)
		assert.Equal(t, began, time.Now(), "the next one looks at once")
		require.NoError(t, s.Release(ctx, 1))
		require.NoError(t, <-one)
		assert.Equal(t, []string{"two", "one"}, order)
	})
}

// A message that is lost delays a waiter by its look, and a reconnection has it look at once.
func TestAWaiterDoesNotSleepForEver(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		c := redisson.New(w.NewClient().Client)
		s, l, p := c.Semaphore("s"), c.CountDownLatch("l"), c.PermitSemaphore("p")
		must(l.TrySetCount(w.Ctx, 1))
		must(p.TrySetPermits(w.Ctx, 1))
		must(p.Acquire(w.Ctx, 5*time.Second))
		began := time.Now()
		acquired := result(func() error { return s.Acquire(w.Ctx, 1) })
		opened := result(func() error { return l.Await(w.Ctx) })
		ended := result(func() error { _, err := p.Acquire(w.Ctx, time.Second); return err })
		time.Sleep(time.Second)
		require.NoError(t, w.Set("s", "1"))
		w.Del("l")
		require.NoError(t, <-acquired)
		require.NoError(t, <-opened)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		require.NoError(t, <-ended)
		assert.InDelta(t, 5*time.Second, time.Since(began), float64(2*time.Second))
	})
}

func TestThePermitOfAHandleIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client := w.NewClient()
		p := redisson.New(client.Client).PermitSemaphore("p")
		must(p.TrySetPermits(w.Ctx, 2))
		kept := must(p.Acquire(w.Ctx, 0))
		fixed := must(p.Acquire(w.Ctx, time.Minute))
		time.Sleep(10 * time.Minute)
		require.NoError(t, kept.Err())
		require.ErrorIs(t, fixed.Err(), rlock.ErrLost)
		assert.Equal(t, 1, must(p.AvailablePermits(w.Ctx)))

		client.Net.Rule(network.Silence) // Redis is silent
		began := time.Now()
		<-kept.Context().Done()
		require.ErrorIs(t, kept.Err(), rlock.ErrLost)
		assert.Less(t, time.Since(began), 30*time.Second, "before its lease ends in Redis")
	})
}

// A command without an answer is not sent again, but for the acquire of a permit, whose id makes it
// one.
func TestALostAnswerIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client := w.NewClient()
		c := redisson.New(client.Client)
		s, p := c.Semaphore("s"), c.PermitSemaphore("p")
		must(s.TrySetPermits(w.Ctx, 5))
		must(p.TrySetPermits(w.Ctx, 5))
		must(s.TryAcquire(w.Ctx, 1, 0)) // the scripts are known
		known := must(p.Acquire(w.Ctx, time.Hour))
		require.NoError(t, known.Release(w.Ctx))

		client.Net.Rule(network.Nth(1, network.Cut, network.Reply, "EVALSHA"))
		require.ErrorIs(t, s.Acquire(w.Ctx, 1), rlock.ErrUnconfirmed)
		assert.Equal(t, 3, must(s.AvailablePermits(w.Ctx)), "it was executed once")

		client.Net.Rule(network.Nth(1, network.Cut, network.Reply, "EVALSHA"))
		must(p.Acquire(w.Ctx, time.Hour))
		assert.Equal(t, 1, must(p.AcquiredPermits(w.Ctx)), "it took one permit")
		assert.Equal(t, 4, must(p.AvailablePermits(w.Ctx)))

		client.Net.Rule(network.Nth(1, network.Hold, network.Reply, "EVALSHA"))
		slow := must(p.Acquire(w.Ctx, 10*time.Second)) // its first answer is waited for, in vain
		require.NoError(t, slow.Err())
		raw := must(hex.DecodeString(slow.ID()))
		end := must(w.ZScore("{p}:timeout", string(raw)))
		<-slow.Context().Done()
		assert.Less(t, time.Now().UnixMilli(), int64(end), "it ends here before it ends in Redis")
	})
}

func TestCloseEndsTheWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client := w.NewClient()
		c := redisson.New(client.Client)
		must(c.CountDownLatch("l").TrySetCount(w.Ctx, 1))
		acquired := result(func() error { return c.Semaphore("s").Acquire(w.Ctx, 1) })
		opened := result(func() error { return c.CountDownLatch("l").Await(w.Ctx) })
		require.NoError(t, client.Close())
		require.ErrorIs(t, <-acquired, rlock.ErrClosed)
		require.ErrorIs(t, <-opened, rlock.ErrClosed)
	})
}

// In a Cluster a message comes by sharded channels, and a name whose channel has another slot is
// refused.
func TestSynchronizersInACluster(t *testing.T) {
	server := redistest.Cluster(t)
	var clients [2]*redisson.Client
	for i := range clients {
		client := must(rlock.New(rlock.Config{Redis: server.Options()}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		clients[i] = redisson.New(client)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	here, there := clients[0], clients[1]
	waits := func(call func() error) <-chan error {
		done := make(chan error, 1)
		go func() { done <- call() }()
		return done
	}
	for _, name := range []string{"s", "{t}s", "t{a}b"} {
		acquired := waits(func() error { return here.Semaphore(name).Acquire(ctx, 2) })
		require.NoError(t, there.Semaphore(name).Release(ctx, 2))
		require.NoError(t, <-acquired, name)
	}
	p := here.PermitSemaphore("{p}")
	must(p.TrySetPermits(ctx, 1))
	one := must(p.Acquire(ctx, 0))
	second := waits(func() error { _, err := there.PermitSemaphore("{p}").Acquire(ctx, time.Minute); return err })
	require.NoError(t, one.Release(ctx))
	require.NoError(t, <-second)
	must(here.CountDownLatch("l").TrySetCount(ctx, 1))
	opened := waits(func() error { return here.CountDownLatch("l").Await(ctx) })
	require.NoError(t, there.CountDownLatch("l").CountDown(ctx))
	require.NoError(t, <-opened)

	for _, name := range []string{"a}b", "a{b", "{}x"} {
		require.ErrorIs(t, here.Semaphore(name).Acquire(ctx, 1), rlock.ErrInvalidName, name)
	}
	require.ErrorIs(t, here.CountDownLatch("{t}x").CountDown(ctx), rlock.ErrInvalidName)
}

// BenchmarkSemaphore acquires and releases a permit without contention; BenchmarkRaw is two EVALSHA
// of a default client:
//
//	go test -run - -bench . -count 5 ./rlock/redisson
func BenchmarkSemaphore(b *testing.B) {
	client := must(rlock.New(rlock.Config{Redis: redistest.Standalone(b).Options()}))
	b.Cleanup(func() { _ = client.Close() })
	s, ctx := redisson.New(client).Semaphore("bench"), context.Background()
	require.NoError(b, s.Release(ctx, 1))
	for b.Loop() {
		if s.Acquire(ctx, 1) != nil || s.Release(ctx, 1) != nil {
			b.Fatal("an error")
		}
	}
}

func BenchmarkRaw(b *testing.B) {
	redis := must(rueidis.NewClient(redistest.Standalone(b).Options()))
	b.Cleanup(redis.Close)
	script := rueidis.NewLuaScript("redis.call('incrby', KEYS[1], ARGV[1]) return redis.call('publish', KEYS[1], '1')")
	for b.Loop() {
		for range 2 {
			if err := script.Exec(context.Background(), redis, []string{"{raw}"}, []string{"1"}).Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
