package redisson_test

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/redisson"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// must returns the value of a call that does not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A program is one that is no client of ours: it reads and writes the keys.
type program struct {
	t     *testing.T
	ctx   context.Context // ends when a call hangs
	redis rueidis.Client
}

func onServers(t *testing.T, run func(t *testing.T, c *redisson.Client, p *program)) {
	redistest.Over(t, []redistest.Kind{redistest.KindEmbedded, redistest.KindStandalone}, func(t *testing.T, s *redistest.Server) {
		option := testbed.Patient(s.Options())
		client := must(rlock.New(rlock.Config{Redis: option}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		redis := must(rueidis.NewClient(option))
		t.Cleanup(redis.Close)
		ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
		t.Cleanup(cancel)
		run(t, redisson.New(client), &program{t: t, ctx: ctx, redis: redis})
	})
}

func (p *program) do(args ...string) string {
	p.t.Helper()
	m, err := p.redis.Do(p.ctx, p.redis.B().Arbitrary(args...).Build()).ToMessage()
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

// What calls do to the keys, and tell, is in the model of internal/programs.
func TestWhatASynchronizerRefuses(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s, ctx := c.Semaphore("s"), p.ctx
		_, err := s.TryAcquire(ctx, -1, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		require.ErrorIs(t, s.Release(ctx, -1), rlock.ErrInvalidConfig)
		for _, name := range []string{"", strings.Repeat("s", 64<<10+1)} {
			require.ErrorIs(t, c.Semaphore(name).Release(ctx, 1), rlock.ErrInvalidName)
		}
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("the request is over"))
		err = s.Release(ended, 1)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "the request is over")
		p.do("DEL", "s")
		p.do("RPUSH", "s", "x")
		require.ErrorIs(t, s.Acquire(ctx, 1), rlock.ErrWrongType)
		require.ErrorIs(t, s.Release(ctx, 1), rlock.ErrWrongType)
		_, err = s.Delete(ctx)
		require.ErrorIs(t, err, rlock.ErrWrongType)
		assert.Equal(t, "1", p.do("LLEN", "s"))

		permits := c.PermitSemaphore("p")
		require.NoError(t, permits.SetPermits(ctx, 1))
		one := must(permits.Acquire(ctx, 0))
		for what, call := range map[string]func(time.Duration) (bool, error){
			"TryAcquire":  func(d time.Duration) (bool, error) { p, err := permits.TryAcquire(ctx, 0, d); return p != nil, err },
			"UpdateLease": func(d time.Duration) (bool, error) { return permits.UpdateLease(ctx, one.ID(), d) },
			"Expire":      func(d time.Duration) (bool, error) { return permits.Expire(ctx, d) },
			"Semaphore":   func(d time.Duration) (bool, error) { return c.Semaphore("p").Expire(ctx, d) },
		} {
			_, err := call(time.Microsecond)
			require.ErrorIs(t, err, rlock.ErrInvalidLease, what)
		}
		for _, id := range []string{"", "no id", "0a no id"} {
			_, err = permits.Release(ctx, id)
			require.ErrorIs(t, err, rlock.ErrInvalidConfig, id)
		}

		latch := c.CountDownLatch("l")
		_, err = latch.TrySetCount(ctx, 0)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		require.NoError(t, latch.Await(ctx), "it is open")
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
		require.NoError(t, l.Await(w.Ctx))
		assert.Equal(t, time.Second, time.Since(began), "a later caller looks at once")
		require.NoError(t, <-acquired)
		require.NoError(t, <-opened)
		assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		require.NoError(t, <-ended)
		assert.InDelta(t, 5*time.Second, time.Since(began), float64(10*time.Millisecond), "no message reports it, but Redis says when")
	})
}

// A server that refuses for a while delays a waiter by less than a look.
func TestAWaiterOutlastsAServerThatRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		c := redisson.New(w.NewClient().Client)
		must(c.CountDownLatch("l").TrySetCount(w.Ctx, 1))
		waits := []<-chan error{
			result(func() error { return c.Semaphore("s").Acquire(w.Ctx, 1) }),
			result(func() error { _, err := c.PermitSemaphore("p").Acquire(w.Ctx, 0); return err }),
			result(func() error { return c.CountDownLatch("l").Await(w.Ctx) }),
		}
		w.Answer(func(command string, _ ...string) string {
			if command == "get" || strings.HasPrefix(command, "eval") {
				return "BUSY Redis is busy running a script"
			}
			return ""
		})
		time.Sleep(4100 * time.Millisecond)
		require.NoError(t, w.Set("s", "1"))
		require.NoError(t, w.Set("p", "1"))
		w.Del("l")
		w.Answer(nil)
		for _, done := range waits {
			began := time.Now()
			require.NoError(t, <-done)
			assert.LessOrEqual(t, time.Since(began), time.Second)
		}
	})
}

// A waiter reads the number before it takes permits, unless a message has just said it. It does so
// once it listens, for a message before.
func TestWhatAWaiterSends(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client := w.NewClient()
		here, there := redisson.New(client.Client).Semaphore("s"), redisson.New(w.NewClient().Client).Semaphore("s")
		must(here.TryAcquire(w.Ctx, 1, 0)) // the scripts are known
		before := len(client.Net.Sent(""))
		sends := func(want ...string) {
			t.Helper()
			synctest.Wait()
			all := client.Net.Sent("")
			var sent []string
			for _, f := range all[before:] {
				if f.Is("GET") || f.Is("EVALSHA") {
					sent = append(sent, f.Args[0])
				}
			}
			before = len(all)
			assert.Equal(t, want, sent)
		}
		waits := func() <-chan error { return result(func() error { return here.Acquire(w.Ctx, 1) }) }
		done := waits()
		sends("EVALSHA", "GET")
		require.NoError(t, there.Release(w.Ctx, 1))
		require.NoError(t, <-done)
		sends("EVALSHA")

		done = waits()
		sends("EVALSHA", "GET")
		client.Net.Rule(network.Nth(1, network.Hold, network.Reply, "GET"))
		time.Sleep(2 * time.Second)
		sends("GET")
		require.NoError(t, there.Release(w.Ctx, 1))
		synctest.Wait()
		time.Sleep(10 * time.Millisecond) // the message is old
		client.Net.Deliver()
		require.NoError(t, <-done)
		sends("GET", "EVALSHA")

		client.Net.Rule(network.Nth(1, network.Hold, network.Reply, "EVALSHA"))
		done = waits()
		require.NoError(t, there.Release(w.Ctx, 1))
		synctest.Wait()
		began := time.Now()
		client.Net.Deliver()
		require.NoError(t, <-done)
		assert.Zero(t, time.Since(began))
	})
}

func TestThePermitOfAHandleIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client := w.NewClient()
		p := redisson.New(client.Client).PermitSemaphore("p")
		must(p.TrySetPermits(w.Ctx, 2))
		kept := must(p.Acquire(w.Ctx, 0))
		fixed := must(p.Acquire(w.Ctx, time.Minute))
		kept.AskNow()
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
		client := must(rlock.New(rlock.Config{Redis: testbed.Patient(server.Options())}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		clients[i] = redisson.New(client)
	}
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
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
		require.NoError(t, redistest.Await(t, acquired), name)
	}
	p := here.PermitSemaphore("{p}")
	must(p.TrySetPermits(ctx, 1))
	one := must(p.Acquire(ctx, 0))
	second := waits(func() error { _, err := there.PermitSemaphore("{p}").Acquire(ctx, time.Minute); return err })
	require.NoError(t, one.Release(ctx))
	require.NoError(t, redistest.Await(t, second))
	must(here.CountDownLatch("l").TrySetCount(ctx, 1))
	opened := waits(func() error { return here.CountDownLatch("l").Await(ctx) })
	require.NoError(t, there.CountDownLatch("l").CountDown(ctx))
	require.NoError(t, redistest.Await(t, opened))

	for _, name := range []string{"a}b", "a{b", "{}x"} {
		require.ErrorIs(t, here.Semaphore(name).Acquire(ctx, 1), rlock.ErrInvalidName, name)
	}
	require.ErrorIs(t, here.CountDownLatch("{t}x").CountDown(ctx), rlock.ErrInvalidName)
}

func TestSynchronizersAreInspected(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		client := must(rlock.New(rlock.Config{Redis: testbed.Patient(s.Options()), Prefix: strings.ReplaceAll(t.Name(), "/", ":") + ":"}))
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
		t.Cleanup(cancel)
		c := redisson.New(client)

		none := must(c.Inspect(ctx, "none"))
		assert.False(t, none.Present)
		assert.Empty(t, none.Kind)

		p := c.PermitSemaphore("p{a}")
		require.NoError(t, p.SetPermits(ctx, 5))
		number := must(c.Inspect(ctx, "p{a}"))
		assert.Empty(t, number.Kind, "it may be a latch")
		assert.EqualValues(t, 5, number.Number)
		assert.Equal(t, rlock.NoExpiry, number.Lease)
		must(p.Expire(ctx, time.Hour))
		assert.InDelta(t, time.Hour, must(c.Inspect(ctx, "p{a}")).Lease, float64(time.Minute))
		one := must(p.Acquire(ctx, time.Hour))
		two := must(p.Acquire(ctx, 0))
		require.True(t, must(p.UpdateLease(ctx, two.ID(), 0)))
		permits := must(c.Inspect(ctx, "p{a}"))
		assert.Equal(t, redisson.KindPermitSemaphore, permits.Kind)
		assert.EqualValues(t, 3, permits.Number)
		assert.Equal(t, 2, permits.TakenCount)
		require.Len(t, permits.Taken, 2)
		assert.Equal(t, one.ID(), permits.Taken[0].ID)
		assert.InDelta(t, time.Hour, permits.Taken[0].Lease, float64(time.Minute))
		assert.Equal(t, two.ID(), permits.Taken[1].ID)
		assert.Equal(t, rlock.NoExpiry, permits.Taken[1].Lease)
		if s.Kind != redistest.KindEmbedded {
			require.NotNil(t, permits.Taken[0].Process)
			assert.NotZero(t, permits.Taken[0].Process.PID)
		}

		other := client.NewSemaphore("other:timeout", 1)
		require.NoError(t, other.Lock(ctx)) // its key has no permits of Redisson
		require.True(t, must(c.CountDownLatch("l").TrySetCount(ctx, 3)))
		opened, acquired := make(chan error, 1), make(chan error, 1)
		go func() { opened <- c.CountDownLatch("l").Await(ctx) }()
		go func() { acquired <- c.Semaphore("s").Acquire(ctx, 1) }()
		require.Eventually(t, func() bool {
			latch, err := c.Inspect(ctx, "l")
			semaphore, err2 := c.Inspect(ctx, "s")
			return err == nil && err2 == nil && latch.Kind == redisson.KindCountDownLatch && latch.Number == 3 && latch.Listening == 1 &&
				semaphore.Kind == redisson.KindSemaphore && !semaphore.Present
		}, redistest.Hang, time.Millisecond)
		for pattern, want := range map[string][]string{"": {"l", "p{a}", "s"}, "p*": {"p{a}"}, "[ls]": {"l", "s"}} {
			names := must(c.Names(ctx, pattern))
			assert.Equal(t, want, names, pattern)
		}
		require.NoError(t, other.Unlock(ctx))
		must(c.CountDownLatch("l").Delete(ctx))
		require.NoError(t, c.Semaphore("s").Release(ctx, 1))
		require.NoError(t, redistest.Await(t, opened))
		require.NoError(t, redistest.Await(t, acquired))

		require.NoError(t, client.NewLock("lock").Lock(ctx))
		_, err := c.Inspect(ctx, "lock")
		require.ErrorIs(t, err, rlock.ErrWrongType)
		require.NoError(t, client.NewLock("lock").Unlock(ctx))
	})
}

// section has a permit for 5 ms.
func section(ctx context.Context, c *redisson.Client, kind string) error {
	if kind == "a semaphore" {
		s := c.Semaphore("s")
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
		return s.Release(context.WithoutCancel(ctx), 1)
	}
	permit, err := c.PermitSemaphore("s").Acquire(ctx, time.Minute)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond)
	return permit.Release(ctx)
}

// sections is how many sections a client has until then, by so many goroutines.
func sections(ctx context.Context, c *redisson.Client, kind string, goroutines int, until time.Time) <-chan int {
	counts := make(chan int)
	for range goroutines {
		go func() {
			n := 0
			for time.Now().Before(until) && section(ctx, c, kind) == nil {
				n++
			}
			counts <- n
		}()
	}
	all := make(chan int, 1)
	go func() {
		sum := 0
		for range goroutines {
			sum += <-counts
		}
		all <- sum
	}()
	return all
}

// A process that is nearer to Redis than another one is always sooner. With one permit it leaves
// the other its turn.
func TestAPermitIsNotTakenAgainAtOnceWhileOthersWait(t *testing.T) {
	for _, kind := range []string{"a semaphore", "permits with leases"} {
		for name, goroutines := range map[string]int{"one": 1, "eight": 8} {
			t.Run(kind+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *testbed.World) {
					near, far := w.NewClient(), w.NewClient()
					far.Net.SetRoundTrip(4 * time.Millisecond)
					here, there := redisson.New(near.Client), redisson.New(far.Client)
					require.NoError(t, here.Semaphore("s").Release(w.Ctx, 1))
					until := time.Now().Add(2 * time.Second)
					ours, theirs := sections(w.Ctx, here, kind, goroutines, until), sections(w.Ctx, there, kind, goroutines, until)
					n, m := <-ours, <-theirs
					assert.Greater(t, m, n/2, "the far one")
					assert.Greater(t, n, m/2, "the near one")
				})
			})
		}
	}
}

// A release begins a turn if it puts this process ahead of the others, and does not prolong one. A
// release of another process ends it, also after messages of this process were lost.
func TestWhenATurnBeginsAndEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		client, name := w.NewClient(), "a}b" // in a Cluster a name with one brace is refused
		here, there := redisson.New(client.Client).Semaphore(name), redisson.New(w.NewClient().Client).Semaphore(name)
		listens := func(s *redisson.Semaphore) { require.False(t, must(s.TryAcquire(w.Ctx, 100, time.Millisecond))) }
		releases := func(by *redisson.Semaphore) {
			require.NoError(t, by.Release(w.Ctx, 1))
			synctest.Wait()
		}
		takesAfter := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			require.NoError(t, here.Acquire(w.Ctx, 1))
			assert.Equal(t, want, time.Since(began))
		}
		listens(here)
		releases(here) // no other process listens
		listens(there)
		releases(here)
		takesAfter(10 * time.Millisecond)
		time.Sleep(time.Second) // the turn that no process has used is over
		releases(here)
		releases(there) // as many
		releases(there) // one more
		releases(here)  // as many
		takesAfter(0)
		client.Net.Rule(network.Deaf)
		releases(here)
		time.Sleep(4 * time.Millisecond)
		releases(here)
		takesAfter(6 * time.Millisecond)

		client.Net.Rule(nil)
		client.Net.Cut()
		time.Sleep(time.Second)
		listens(here)
		releases(here)
		releases(there)
		takesAfter(0)
	})
}

// A client that listens, and does not wait, costs a part of the time, also if callers of this
// process wait. A turn is forgotten after a minute.
func TestATurnInVainIsRare(t *testing.T) {
	for _, goroutines := range []int{1, 2} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			here, there := redisson.New(w.NewClient().Client), redisson.New(w.NewClient().Client)
			for _, name := range []string{"other", "s"} {
				require.False(t, must(there.Semaphore(name).TryAcquire(w.Ctx, 1, time.Millisecond)))
				time.Sleep(time.Second)
				require.NoError(t, here.Semaphore(name).Release(w.Ctx, 1))
				assert.Equal(t, 1, here.Turns())
				time.Sleep(time.Minute)
			}
			require.False(t, must(there.Semaphore("s").TryAcquire(w.Ctx, 2, time.Millisecond)))
			n := <-sections(w.Ctx, here, "a semaphore", goroutines, time.Now().Add(2*time.Second))
			assert.InDelta(t, 400*16/17, n, 20)
		})
	}
}

// A release that sends no message, of a permit that is not held or by a command that Redis refuses,
// is not waited for: the next message is that of another client, which has had its turn.
func TestAReleaseOfNothingIsNotHeard(t *testing.T) {
	for name, x := range map[string]struct {
		refused error
		number  bool // the release is one of Semaphore
	}{"of no permit": {}, "of a permit, refused": {refused: rlock.ErrNoPermission}, "of a number, refused": {rlock.ErrNoPermission, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *testbed.World) {
				client := redisson.New(w.NewClient().Client)
				here, there := client.PermitSemaphore("p"), redisson.New(w.NewClient().Client).PermitSemaphore("p")
				require.NoError(t, here.SetPermits(w.Ctx, 1))
				first := must(here.Acquire(w.Ctx, 0))
				theirs := result(func() error { return must(there.Acquire(w.Ctx, 0)).Release(w.Ctx) })
				ours := result(func() error { return must(here.Acquire(w.Ctx, 0)).Release(w.Ctx) })
				began := time.Now()
				if x.refused != nil {
					w.AnswerScripts("NOPERM no permission")
				}
				var err error
				if x.number {
					err = client.Semaphore("p").Release(w.Ctx, 1)
				} else {
					_, err = here.Release(w.Ctx, strings.Repeat("00", 16))
				}
				require.ErrorIs(t, err, x.refused)
				w.AnswerScripts("")
				require.NoError(t, first.Release(w.Ctx))
				require.NoError(t, <-theirs)
				require.NoError(t, <-ours)
				assert.Zero(t, time.Since(began))
			})
		})
	}
}

// A caller that leaves the others their turn when its client is closed returns at once.
func TestAClientThatIsClosedInATurnOfTheOthers(t *testing.T) {
	for after := range 10 {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			near, far := w.NewClient(), w.NewClient()
			far.Net.SetRoundTrip(4 * time.Millisecond)
			here, there := redisson.New(near.Client), redisson.New(far.Client)
			require.NoError(t, here.Semaphore("s").Release(w.Ctx, 1))
			until := time.Now().Add(150 * time.Millisecond)
			ctx, cancel := context.WithDeadline(w.Ctx, until) // a permit may be lost with the client
			defer cancel()
			ours, theirs := sections(w.Ctx, here, "a semaphore", 2, until), sections(ctx, there, "a semaphore", 1, until)
			time.Sleep(time.Duration(60+3*after) * time.Millisecond)
			require.NoError(t, near.Close())
			closed := time.Now()
			<-ours
			assert.LessOrEqual(t, time.Since(closed), 5*time.Millisecond, "after %d ms", 60+3*after)
			<-theirs
		})
	}
}

// What users test with the kit, in virtual time: see docs/testing.md.
func withTheKit(t *testing.T, run func(t *testing.T, server *rlocktest.Server)) {
	t.Helper()
	t.Parallel()
	redistest.WithoutServer(t)
	synctest.Test(t, func(t *testing.T) { run(t, rlocktest.NewServer(t)) })
}

func TestWithTheKitAnErrorOfTheServerIsTheCallers(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		c := redisson.New(server.Client())
		require.NoError(t, c.Semaphore("s").Release(t.Context(), 1))
		waits := result(func() error { return c.Semaphore("none").Acquire(t.Context(), 1) })
		server.Refuse("NOPERM no permission", "get", "pubsub")
		require.ErrorIs(t, <-waits, rlock.ErrNoPermission)
		_, err := c.Names(t.Context(), "")
		require.ErrorIs(t, err, rlock.ErrNoPermission)
		server.Refuse("NOPERM no permission", "pubsub")
		assert.Equal(t, -1, must(c.Inspect(t.Context(), "s")).Listening)
		server.Refuse("NOPERM no permission", "evalsha")
		require.ErrorIs(t, c.Semaphore("s").Acquire(t.Context(), 1), rlock.ErrNoPermission)
		require.ErrorIs(t, c.CountDownLatch("l").CountDown(t.Context()), rlock.ErrNoPermission)
		_, err = c.PermitSemaphore("p").Acquire(t.Context(), 0)
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
			_, err = redisson.New(client).Names(ended, "orders:*")
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, `rlock: redisson: list names "orders:*": `)
			_, err = inspect.Of(client).Lock(ended, "s")
			require.ErrorIs(t, err, context.Canceled)
			synctest.Wait()
			require.Zero(t, inspect.Of(client).Stats().Commands, "an answer might come first")
		}
		server.Heal()
	})
}

// The first command is built when the client knows by which family its server publishes.
func TestWithTheKitALazyClientPublishesByTheFamilyOfItsServer(t *testing.T) {
	withTheKit(t, func(t *testing.T, server *rlocktest.Server) {
		option := server.Options()
		dial := option.DialCtxFn
		between := network.New(func() (net.Conn, error) { return dial(t.Context(), option.InitAddress[0], nil, nil) })
		defer between.Close()
		var by []string
		between.Rule(func(f network.Frame) network.Fate {
			switch {
			case f.Stage == network.Reply && f.Is("PUBSUB"):
				return network.Replace("*0\r\n")
			case f.Stage == network.Reply && f.Is("EVALSHA"):
				return network.Replace(":1\r\n")
			case f.Is("EVALSHA"):
				by = append(by, f.Args[len(f.Args)-1])
			}
			return network.Pass
		})
		option.DialCtxFn = between.Dial
		client := must(rlock.New(rlock.Config{Redis: option, Lazy: true, Advanced: rlock.Advanced{PubSub: rlock.PubSubSharded}}))
		require.NoError(t, redisson.New(client).CountDownLatch("l").CountDown(t.Context()))
		assert.Equal(t, []string{"spublish"}, by)
		require.NoError(t, client.Close())
	})
}

// A key of that name may hold a text that is no number, or one with which Redis does not count: with
// leading zeros, or too many digits. A permit that has ended is not taken out then, since it could
// not be given back.
func TestATextThatIsNoNumber(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s, permits, l, ctx := c.Semaphore("p"), c.PermitSemaphore("p"), c.CountDownLatch("p"), p.ctx
		p.do("ZADD", "{p}:timeout", "1", "0123456789abcdef") // has ended
		for i, text := range []string{"dark", "01", "-0", "-01", "00", "123456789012345678901"} {
			p.do("SET", "p", text)
			calls := map[string]func() error{
				"Semaphore.Acquire":          func() error { return s.Acquire(ctx, 1) },
				"Semaphore.DrainPermits":     func() error { _, err := s.DrainPermits(ctx); return err },
				"Semaphore.TrySetPermits":    func() error { _, err := s.TrySetPermits(ctx, 1); return err },
				"PermitSemaphore.Acquire":    func() error { _, err := permits.Acquire(ctx, 0); return err },
				"PermitSemaphore.Permits":    func() error { _, err := permits.Permits(ctx); return err },
				"CountDownLatch.TrySetCount": func() error { _, err := l.TrySetCount(ctx, 1); return err },
			}
			if i == 0 {
				maps.Copy(calls, map[string]func() error{
					"Semaphore.Release":          func() error { return s.Release(ctx, 1) },
					"Semaphore.ReleaseIfExists":  func() error { _, err := s.ReleaseIfExists(ctx, 1); return err },
					"Semaphore.AvailablePermits": func() error { _, err := s.AvailablePermits(ctx); return err },
					"PermitSemaphore.SetPermits": func() error { return permits.SetPermits(ctx, 3) },
					"PermitSemaphore.AddPermits": func() error { return permits.AddPermits(ctx, 3) },
					"CountDownLatch.Await":       func() error { return l.Await(ctx) },
					"CountDownLatch.Count":       func() error { _, err := l.Count(ctx); return err },
					"CountDownLatch.CountDown":   func() error { return l.CountDown(ctx) },
				})
			}
			for call, do := range calls {
				assert.ErrorIs(t, do(), rlock.ErrWrongType, "%s with %q", call, text)
				assert.Equal(t, "1", p.do("ZCARD", "{p}:timeout"), "%s with %q", call, text)
			}
			assert.Equal(t, text, must(p.redis.Do(ctx, p.redis.B().Get().Key("p").Build()).ToString()))
		}
	})
}

// Lua writes a number from 1e17 on in a form that is none for Redis.
func TestALargeNumberIsOneToRedis(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		large := int64(200_000_000_000_000_000)
		s, ctx := c.Semaphore("s"), p.ctx
		p.do("SET", "s", strconv.FormatInt(large, 10))
		drained, err := s.DrainPermits(ctx)
		require.NoError(t, err)
		assert.Equal(t, int(large), drained)
		assert.Equal(t, "0", p.do("GET", "s"))

		require.NoError(t, c.PermitSemaphore("p").SetPermits(ctx, 2))
		p.do("PEXPIRE", "p", strconv.FormatInt(large, 10))
		permit, err := c.PermitSemaphore("p").Acquire(ctx, time.Minute)
		require.NoError(t, err)
		require.NoError(t, permit.Release(ctx))
	})
}

// A number that would become too large is a number all the same: the key is of the right type.
func TestANumberThatIsFullIsANumber(t *testing.T) {
	onServers(t, func(t *testing.T, c *redisson.Client, p *program) {
		s, ctx := c.Semaphore("s"), p.ctx
		p.do("SET", "s", strconv.FormatInt(math.MaxInt64, 10))
		err := s.AddPermits(ctx, 1)
		require.ErrorContains(t, err, "overflow")
		require.NotErrorIs(t, err, rlock.ErrWrongType)
		require.NoError(t, s.Acquire(ctx, 1))
	})
}
