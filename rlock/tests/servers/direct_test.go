package servers_test

import (
	"context"
	"crypto/tls"
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
	// after locks and unlocks until the client has sent a script over a connection that was opened after the one with that
	// number, and returns the number and the address of the newest.
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
