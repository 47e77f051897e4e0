package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
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

func TestAReplicaIsWaitedForUntilItIsAPrimary(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	lock := testbed.Dial(t, s.Options()).NewLock(testbed.Key)
	s.Admin("REPLICAOF", "127.0.0.1", "1")
	require.ErrorContains(t, testbed.ErrorOf(lock.TryLock(s.Ctx)), "READONLY")
	result := testbed.Start(func() error { return lock.Do(s.Ctx, testbed.Nothing) })
	s.Admin("REPLICAOF", "NO", "ONE")
	require.NoError(t, redistest.Await(t, result))
}

// callers starts size calls, each with a number, and returns the function that ends them.
func callers(t *testing.T, ctx context.Context, size int, call func(ctx context.Context, i int) error) (disperse func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	results := make([]<-chan error, size)
	for i := range results {
		results[i] = testbed.Start(func() error { return call(rlock.WithOwner(ctx, rlock.NewOwner()), i) })
	}
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		for _, result := range results {
			require.Error(t, <-result)
		}
	}
}

func TestUnlockIsBoundedHoweverManyLocksAreAskedForMeanwhile(t *testing.T) {
	testbed.EachBubble(t, map[string]func(p *testbed.Client) func(context.Context, int) error{
		"locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"fair locks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error { return p.NewFairLock(fmt.Sprint("lock ", i)).Lock(ctx) }
		},
		"looks": func(p *testbed.Client) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				_, err := p.NewLock(fmt.Sprint("lock ", i)).IsLocked(ctx)
				return err
			}
		},
	}, func(t *testing.T, w *testbed.World, call func(p *testbed.Client) func(context.Context, int) error) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Unlock(me)) // the scripts are known
		require.NoError(t, lock.Lock(me))
		p.Net.Rule(network.Silence)
		disperse := callers(t, w.Ctx, 4000, call(p))
		testbed.Within(t, 0, 5*time.Second, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
		testbed.Within(t, 0, 0, disperse)
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

// slowScript runs a script that takes so long on the primaries, and returns when it has ended.
// They answer BUSY to other commands meanwhile.
func slowScript(s *testbed.Site, d time.Duration) {
	s.T.Helper()
	const script = `local function now() local t = redis.call('time') return t[1] * 1000 + t[2] / 1000 end
		local ends = now() + ARGV[1]
		repeat until now() >= ends`
	var all sync.WaitGroup
	for _, node := range s.Nodes() {
		if s.Role(node)["role"] != "master" {
			continue
		}
		opt := node.Options()
		opt.ForceSingleClient, opt.DisableRetry, opt.ConnWriteTimeout = true, true, testbed.Hang
		client, err := rueidis.NewClient(opt)
		require.NoError(s.T, err)
		defer client.Close()
		all.Go(func() {
			eval := client.B().Arbitrary("EVAL", script, "0", fmt.Sprint(d.Milliseconds())).Blocking()
			if err := client.Do(s.Ctx, eval).Error(); !rueidis.IsRedisNil(err) {
				assert.NoError(s.T, err)
			}
		})
	}
	all.Wait()
}

// A script of another program runs for longer than a contended channel stays subscribed. rueidis
// panics in a goroutine of its own when an UNSUBSCRIBE is answered with BUSY, which would end the
// test's process as well.
func TestASlowScriptOfAnotherProgramEndsNoProcess(t *testing.T) {
	t.Parallel() // it mostly waits
	for kind, launch := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := testbed.At(t, launch(t, "--lua-time-limit", "100"))
			var clients []*rlock.Client
			short := testbed.WithLease(2 * time.Second) // a release that is refused is tried again after a quarter of it
			for _, resp2 := range []bool{false, true} {
				own := func(c *rlock.Config) { c.Redis.AlwaysRESP2 = resp2 }
				shared := func(c *rlock.Config) {
					opt := s.Options()
					opt.AlwaysRESP2 = resp2
					client, err := rueidis.NewClient(opt)
					require.NoError(t, err)
					t.Cleanup(client.Close)
					c.Redis, c.Client = rueidis.ClientOption{}, client
				}
				waits := func(c *rlock.Config) { c.SyncReplicas = testbed.ReplicasOf[kind] }
				clients = append(clients, s.NewClient(own, short), s.NewClient(own, short, waits), s.NewClient(shared, short), s.NewClient(shared, short, waits))
			}
			for i, client := range clients { // each waits for another one: all channels are subscribed
				s.HandOver(clients[(i+1)%len(clients)], client)
			}
			ctx, stop := context.WithCancel(s.Ctx)
			var all sync.WaitGroup
			for _, client := range clients { // a connection for CLIENT LIST, and for WAIT, is given back all the time
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = inspect.Of(client).Lock(ctx, testbed.Key)
						time.Sleep(10 * time.Millisecond)
						_ = client.NewLock(testbed.Key).Do(ctx, testbed.Nothing, rlock.WithWait(10*time.Millisecond))
					}
				})
			}
			slowScript(s, 7*time.Second)
			stop()
			all.Wait()
			for _, client := range clients {
				require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
			}
		})
	}
}

// A loner is a client whose direct connection has a network of its own. All other connections
// use the testClient's.
type loner struct {
	*testbed.Client
	direct *network.Network
	w      *testbed.World
	// apart marks the connections that are opened from now on as direct.
	apart atomic.Bool
}

// newLoner returns a client that was alone for long enough to have a direct connection.
func newLoner(w *testbed.World, changes ...func(*rlock.Config)) *loner {
	w.T.Helper()
	l := &loner{direct: network.New(w.Dial), w: w}
	l.direct.Record()
	w.T.Cleanup(l.direct.Close)
	l.Client = w.NewClient(append(changes, func(c *rlock.Config) {
		dial := c.Redis.DialCtxFn
		c.Redis.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			if l.apart.Load() {
				return l.direct.Dial(ctx, address, dialer, config)
			}
			return dial(ctx, address, dialer, config)
		}
	})...)
	l.pairs(1) // opens the other connections
	l.apart.Store(true)
	l.pairs(8)
	return l
}

// pairs locks and unlocks n times, and returns how many commands were sent directly, and how
// many through the pipeline.
func (l *loner) pairs(n int) (direct, pipelined int) {
	l.w.T.Helper()
	me := rlock.WithOwner(context.Background(), rlock.NewOwner())
	directly, otherwise := len(l.direct.Sent("EVALSHA")), len(l.Net.Sent("EVALSHA"))
	for range n {
		require.NoError(l.w.T, l.NewLock("alone").Lock(me))
		require.NoError(l.w.T, l.NewLock("alone").Unlock(me))
		synctest.Wait() // a connection may be opened in the background
	}
	return len(l.direct.Sent("EVALSHA")) - directly, len(l.Net.Sent("EVALSHA")) - otherwise
}

// requireDirect checks that a pair of commands is sent directly.
func (l *loner) requireDirect() {
	l.w.T.Helper()
	direct, pipelined := l.pairs(1)
	require.Equal(l.w.T, []int{2, 0}, []int{direct, pipelined}, "commands sent directly, and pipelined")
}

func TestADirectCallThatIsCancelledReturnsAtOnce(t *testing.T) {
	testbed.EachBubble(t, map[string]network.Stage{
		"the request is held": network.Request, "the reply is held": network.Reply,
	}, func(t *testing.T, w *testbed.World, stage network.Stage) {
		p, other := newLoner(w), w.NewClient()
		p.direct.Rule(testbed.Scripts(1, network.Hold, stage, "acquired"))
		released := testbed.ScriptsOf(p.Net, "released")
		ctx, cancel := context.WithCancel(w.Caller())
		result := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(ctx) })
		testbed.Within(t, 0, 0, func() {
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
		})
		time.Sleep(time.Second)
		assert.Equal(t, released, testbed.ScriptsOf(p.Net, "released"),
			"the release waits for the answer to the acquire, which may still be executed")
		p.direct.Heal()
		them := w.Caller()
		testbed.Within(t, 0, 100*time.Millisecond, func() { require.NoError(t, other.NewLock(testbed.Key).Lock(them)) })
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		synctest.Wait()
		assert.Empty(t, w.Keys())
		p.pairs(8)
		p.requireDirect() // over a new connection
	})
}

// The acquire is executed long after its caller, its release and even its connection are
// gone.
func TestADirectAcquireThatIsExecutedLateIsUndone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := newLoner(w)
		p.direct.Rule(testbed.Scripts(1, network.Hold, network.Request, "acquired"))
		ctx, cancel := context.WithCancel(w.Caller())
		result := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(ctx) })
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		time.Sleep(10*time.Second + 5*time.Millisecond) // between two ticks of the keeper, which releases again and again
		released := testbed.ScriptsOf(p.Net, "released")
		assert.NotZero(t, released)
		assert.Empty(t, w.Keys())
		p.direct.Heal()
		synctest.Wait()
		require.NotEmpty(t, w.Keys(), "the acquire was not executed")
		w.Eventually(func() bool { return len(w.Keys()) == 0 }, "the lock is released")
		assert.Greater(t, testbed.ScriptsOf(p.Net, "released"), released, "no release was sent before the lease ended")
	})
}

func TestCloseEndsADirectCallAndLeavesNothingBehind(t *testing.T) {
	testbed.EachBubble(t, map[string]func(w *testbed.World) context.Context{
		"a context that may end": (*testbed.World).Caller,
		"one that never ends":    func(*testbed.World) context.Context { return rlock.WithOwner(context.Background(), rlock.NewOwner()) },
		"one that has ended":     nil,
	}, func(t *testing.T, w *testbed.World, ctx func(w *testbed.World) context.Context) {
		p := newLoner(w)
		p.direct.Rule(network.Silence)
		var me context.Context
		cancel := func() {}
		if ctx != nil {
			me = ctx(w)
		} else {
			me, cancel = context.WithCancel(w.Caller())
		}
		result := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(me) })
		cancel()
		synctest.Wait()
		testbed.Within(t, 0, 5*time.Second, func() { _ = p.Close() })
		require.Error(t, <-result)
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
