package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The server closes the connection before the client has sent a command, when the caller has
// left: rueidis panics at an answer without a question, in a goroutine of its own.
func TestAConnectionThatIsRefusedWhileItsCallerLeavesIsNoPanic(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var leave atomic.Pointer[context.CancelFunc] // nil: the server takes connections
		p := w.NewClient(func(c *rlock.Config) {
			dial := c.Redis.DialCtxFn
			c.Redis.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
				left := leave.Load()
				if left == nil {
					return dial(ctx, addr, dialer, config)
				}
				ours, theirs := net.Pipe()
				go func() {
					_, _ = ours.Write([]byte("-ERR max number of clients reached\r\n"))
					_ = ours.Close()
				}()
				(*left)()
				return theirs, nil
			}
		})
		for range 30 {
			ctx, cancel := context.WithCancel(w.Caller())
			synctest.Wait() // otherwise the release of the last acquire would connect again
			p.Net.Cut()
			synctest.Wait()
			leave.Store(&cancel)
			require.ErrorIs(t, p.NewLock(testbed.Key).Lock(ctx), context.Canceled)
			synctest.Wait()
			leave.Store(nil)
			me := w.Caller()
			require.NoError(t, p.NewLock(testbed.Key).Do(me, testbed.Nothing))
		}
	})
}

func TestUnlockIsBoundedHoweverManyLocksAreAskedForMeanwhile(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(me, testbed.Nothing)) // the scripts are known
		require.NoError(t, lock.Lock(me))
		p.Net.Rule(network.Silence)
		ctx, cancel := context.WithCancel(w.Ctx)
		var results []<-chan error
		for i := range 4000 {
			results = append(results, testbed.Start(func() error { return p.NewLock(fmt.Sprint(i)).Lock(ctx) }))
		}
		synctest.Wait()
		testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
		testbed.Within(t, 0, 0, func() {
			cancel()
			for _, result := range results {
				require.Error(t, <-result)
			}
		})
	})
}

// Unlocks that are not answered may stand in rueidis' ring for as long as the connection lasts.
// They must not fill it, since a command that finds it full waits whatever its context says.
func TestUnlockIsBoundedHoweverManyCameBefore(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(func(c *rlock.Config) { c.Redis.Dialer.KeepAlive = time.Hour }), w.Caller() // no ping ends the connection
		const waves, size = 4, 128                                                                       // the ring has room for 256
		for i := range waves * size {
			require.NoError(t, p.NewLock(fmt.Sprint("lock ", i)).Lock(me))
		}
		p.Net.Rule(network.Silence)
		for wave := range waves {
			testbed.Within(t, 0, 4*time.Second, func() {
				var results []<-chan error
				for i := range size {
					results = append(results, testbed.Start(func() error { return p.NewLock(fmt.Sprint("lock ", wave*size+i)).Unlock(me) }))
				}
				for _, result := range results {
					require.ErrorIs(t, <-result, rlock.ErrUnconfirmed)
				}
			})
		}
	})
}

func TestALookOutlivesAConnectionThatEnds(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, me := w.NewClient(), w.NewClient(), w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(me))
		p.Net.Rule(network.Nth(1, network.Cut, network.Reply, "EXISTS"))
		assert.True(t, testbed.IsLocked(t, w.Ctx, p.NewLock(testbed.Key)))
		require.NoError(t, other.NewLock(testbed.Key).Unlock(me))
	})
}

func TestWherePubSubIsRefusedWaitersPollAndTheRefusalIsLoggedOnce(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, them := w.NewClient(), w.NewClient(), w.Caller()
		w.Answer(testbed.RefusePubSub)
		names := []string{"one", "two", "three"}
		var results []<-chan error
		owners := []context.Context{w.Caller(), w.Caller(), w.Caller()}
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Lock(them))
			results = append(results, testbed.Start(func() error { return p.NewLock(name).Lock(owners[i]) }))
		}
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged("refuses to notify waiters"))
		assert.Zero(t, p.Logged("User default"), "the user is not named")
		for i, name := range names {
			require.NoError(t, other.NewLock(name).Unlock(them))
			testbed.Within(t, 0, 128*time.Millisecond, func() { require.NoError(t, <-results[i]) })
			require.NoError(t, p.NewLock(name).Unlock(owners[i]))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestAWaiterIsWokenByTheMessageOfTheRelease(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) { s.Wakes(s.NewClient(), s.NewClient(), s.Family()) })
}

// Redisson: testAutoExpire.
func TestAWaiterGetsTheLockWhenTheLeaseOfADeadHolderEnds(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		lock := s.NewLock()
		s.Set(testbed.Key, "a-process-that-died:1", time.Hour)
		assert.False(t, s.IsFree(lock))
		s.Number("PEXPIRE", testbed.Key, "100")
		require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
	})
}

func TestALoneCallerOfARealServerIsServedDirectly(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel}, func(t *testing.T, server *redistest.Server) {
		servesDirectly(testbed.At(t, server))
	})
	t.Run("with the least rights", func(t *testing.T) {
		s := testbed.At(t, redistest.Standalone(t))
		limited := s.Limited(s.Rights("every lock", "one primary", "direct connection")...)
		servesDirectly(s, func(c *rlock.Config) { c.Redis = limited.Redis })
	})
	t.Run("tls", func(t *testing.T) {
		server, config := redistest.TLS(t)
		s := testbed.At(t, server)
		servesDirectly(s, func(c *rlock.Config) {
			c.Redis.InitAddress = []string{s.TLSAddr()}
			c.Redis.TLSConfig = config
		})
	})
}

func servesDirectly(s *testbed.Site, changes ...func(*rlock.Config)) {
	t, client := s.T, s.NewClient(changes...)
	lock := client.NewLock(testbed.Key)
	// after locks and unlocks until the client has sent a script over a connection that was opened
	// after the one with that number, and returns the number and the address of the newest.
	after := func(last int) (number int, address string) {
		for number <= last {
			require.NoError(t, lock.Do(s.Ctx, testbed.Nothing))
			list, err := s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
			require.NoError(t, err)
			for line := range strings.Lines(list) {
				fields := make(map[string]string)
				for _, word := range strings.Fields(line) {
					name, value, _ := strings.Cut(word, "=")
					fields[name] = value
				}
				id, _ := strconv.Atoi(fields["id"])
				if strings.HasSuffix(fields["name"], inspect.Of(client).ID()) && fields["cmd"] == "evalsha" && id > number {
					number, address = id, fields["addr"]
				}
			}
		}
		return number, address
	}
	pipelined, _ := after(0)
	number, direct := after(pipelined)
	for range 3 {
		// The server closes the connection while it is idle: that fails no command, though
		// TryLock is not retried.
		s.Admin("CLIENT", "KILL", "ADDR", direct)
		assert.True(t, testbed.Tries(t, s.Ctx, lock))
		require.NoError(t, lock.Unlock(s.Ctx))
		number, direct = after(number)
	}
}
