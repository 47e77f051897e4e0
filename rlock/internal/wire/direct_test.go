package wire_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A lone is a client's Redis whose direct connection has a network of its own, and a call that
// may be sent again and again.
type lone struct {
	*wire.Redis
	t           *testing.T
	order       wire.Order
	net, direct *network.Network
	apart       atomic.Bool // connections that are opened from now on are direct
}

// alone runs a test with a client that was alone for long enough to have a direct connection.
func alone(t *testing.T, change func(*rueidis.ClientOption), run func(t *testing.T, l *lone, server *inmemory.Server)) {
	t.Helper()
	t.Parallel()
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		server := inmemory.New()
		t.Cleanup(server.Close)
		l := &lone{t: t, net: network.New(server.Dial), direct: network.New(server.Dial)}
		option := server.Options()
		option.DialCtxFn = l.dial
		if change != nil {
			change(&option)
		}
		l.net.Record()
		l.direct.Record()
		t.Cleanup(func() {
			l.net.Close()
			l.direct.Close()
		})
		l.connect(option)
		l.send(1) // opens the other connections
		l.apart.Store(true)
		l.send(8)
		run(t, l, server)
	})
}

func (l *lone) dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if !l.apart.Load() {
		return l.net.Dial(ctx, address, dialer, config)
	}
	conn, err := l.direct.Dial(ctx, address, dialer, config)
	if err != nil {
		return nil, err
	}
	return directConn{conn}, nil
}

// A directConn is a connection of the direct network.
type directConn struct{ net.Conn }

// replaceDirect returns a change that puts other connections in place of direct ones.
func replaceDirect(other func(net.Conn) (net.Conn, error)) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) {
		dial := o.DialCtxFn
		o.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
			conn, err := dial(ctx, address, dialer, config)
			if _, direct := conn.(directConn); !direct {
				return conn, err
			}
			return other(conn)
		}
	}
}

// connect connects with the settings of package rlock.
func (l *lone) connect(option rueidis.ClientOption) {
	l.t.Helper()
	option.PipelineMultiplex, option.AlwaysPipelining, option.RingScaleEachConn = -1, true, 8
	option.ConnWriteTimeout, option.Dialer.KeepAlive = 2*time.Second, time.Second
	id := wire.NewID()
	l.Redis = connect(l.t, wire.Options{Redis: option}, id.Prefix)
	keys := keysOf(l.t, l.Redis, "lock", wire.Plain.Layout)
	l.order = wire.Order{Call: wire.Acquire.Call(2, keys.Key, keys.Queue(), "30000", id.Owner(1)), Slot: keys.Slot, First: true}
}

// ask sends one command.
func (l *lone) ask(ctx context.Context) rueidis.RedisResult {
	limit, ok := l.Limits(l.order.Slot).Asks.TryEnter()
	require.True(l.t, ok)
	defer limit.FreeSlot()
	order := l.order
	order.At = time.Now()
	result, _ := l.Send(ctx, order)
	return result
}

// call sends one command, which the server may refuse.
func (l *lone) call(ctx context.Context) error { return l.ask(ctx).NonRedisError() }

// send sends n commands, one after the other, and returns how many were sent directly, and how
// many through the pipeline.
func (l *lone) send(n int) (direct, pipelined int) {
	l.t.Helper()
	directly, otherwise := len(l.direct.Sent("EVALSHA")), len(l.net.Sent("EVALSHA"))
	for range n {
		require.NoError(l.t, l.call(l.t.Context()))
		synctest.Wait() // a connection may be opened in the background
	}
	return len(l.direct.Sent("EVALSHA")) - directly, len(l.net.Sent("EVALSHA")) - otherwise
}

func (l *lone) requireDirect()    { l.requires(2, 0) }
func (l *lone) requirePipelined() { l.requires(0, 2) }

func (l *lone) requires(direct, pipelined int) {
	l.t.Helper()
	d, p := l.send(2)
	require.Equal(l.t, []int{direct, pipelined}, []int{d, p}, "commands sent directly, and pipelined")
}

func TestCallersThatMeetShareThePipeline(t *testing.T) {
	alone(t, nil, func(t *testing.T, l *lone, _ *inmemory.Server) {
		l.direct.Rule(network.All(network.Hold, network.Request, "EVALSHA"))
		first := make(chan error, 1)
		go func() { first <- l.call(t.Context()) }()
		synctest.Wait()
		require.Empty(t, first, "the first caller uses the direct connection")
		begin := time.Now()
		require.NoError(t, l.call(t.Context()))
		require.Zero(t, time.Since(begin), "a caller waited for the direct connection")
		l.direct.Heal()
		require.NoError(t, <-first)
		l.requirePipelined() // after concurrent calls the client uses the pipeline for a while
		l.send(8)
		l.requireDirect()
	})
}

func TestAServerThatTakesNoMoreConnectionsIsUsedThroughThePipeline(t *testing.T) {
	alone(t, nil, func(t *testing.T, l *lone, _ *inmemory.Server) {
		l.direct.Refuse()
		_ = l.call(t.Context()) // over the connection that has just ended
		synctest.Wait()
		for range 20 {
			l.requirePipelined()
			time.Sleep(time.Second)
		}
	})
}

// A failover closes the connections to the old primary, and the client may see one end before
// the other.
func TestNothingIsSentDirectlyAfterThePipelineHasLostItsServer(t *testing.T) {
	alone(t, nil, func(t *testing.T, l *lone, _ *inmemory.Server) {
		l.requireDirect()
		l.net.Cut()
		synctest.Wait()
		opened := len(l.direct.Sent("HELLO"))
		l.apart.Store(false)
		direct, pipelined := len(l.direct.Sent("EVALSHA")), len(l.net.Sent("EVALSHA"))
		require.NoError(t, l.call(t.Context()))
		l.apart.Store(true)
		require.NoError(t, l.call(t.Context()))
		assert.Len(t, l.direct.Sent("EVALSHA"), direct)
		assert.Len(t, l.net.Sent("EVALSHA"), pipelined+2)
		synctest.Wait()
		assert.Len(t, l.direct.Sent("HELLO"), opened+1, "the direct connection is opened again, to the server of the pipeline")
		l.requireDirect()
	})
}

// After a name or a balancer has moved, old connections stay at their server and a new one goes
// to another, where the same lock is free.
func TestNothingIsSentDirectlyToAnotherServerThanThePipelines(t *testing.T) {
	var other atomic.Pointer[inmemory.Server] // nil once the name leads to the first server again
	other.Store(inmemory.New())
	elsewhere := replaceDirect(func(conn net.Conn) (net.Conn, error) {
		if server := other.Load(); server != nil {
			_ = conn.Close()
			return server.Dial()
		}
		return conn, nil
	})
	alone(t, elsewhere, func(t *testing.T, l *lone, _ *inmemory.Server) {
		server := other.Load()
		t.Cleanup(server.Close)
		for range 100 {
			l.requirePipelined()
			time.Sleep(time.Second)
		}
		calls := server.Calls()
		assert.Positive(t, calls["info"], "a direct connection was opened, and asked for its server")
		assert.Zero(t, calls["evalsha"]+calls["eval"], "commands for locks to the other server")
		other.Store(nil)
		time.Sleep(time.Minute)
		l.send(8)
		l.requireDirect() // it is tried again
	})
}

// A user may lack the right to ask.
func TestWithoutARunIDNothingIsSentDirectly(t *testing.T) {
	alone(t, nil, func(t *testing.T, l *lone, server *inmemory.Server) {
		server.Refuse(func(command string, _ ...string) string {
			if command == "info" {
				return "NOPERM this user has no permissions to run the 'info' command"
			}
			return ""
		})
		l.direct.Cut()
		_ = l.call(t.Context()) // over the connection that has just ended
		time.Sleep(2 * time.Second)
		l.send(20)
		l.requirePipelined()
		server.Refuse(nil)
		time.Sleep(time.Minute)
		l.send(4)
		l.requireDirect()
	})
}

func TestAnIdleDirectConnectionIsTriedBeforeItIsUsed(t *testing.T) {
	alone(t, nil, func(t *testing.T, l *lone, _ *inmemory.Server) {
		l.direct.Rule(network.Silence) // the server, or a firewall, has dropped it
		time.Sleep(time.Minute)
		begin := time.Now()
		for range 3 {
			l.requirePipelined()
		}
		assert.Zero(t, time.Since(begin))
		l.direct.Rule(nil)
		time.Sleep(time.Minute)
		l.send(8)
		l.requireDirect()
	})
}

// rueidis would refresh them by itself, even while a command is in flight.
func TestADirectConnectionEndsWithItsCredentials(t *testing.T) {
	expiring := func(o *rueidis.ClientOption) {
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{RefreshAfter: time.Now().Add(10 * time.Second)}, nil
		}
	}
	alone(t, expiring, func(t *testing.T, l *lone, server *inmemory.Server) {
		opened, open := len(l.direct.Sent("HELLO")), server.Miniredis().CurrentConnectionCount()
		for range 39 {
			time.Sleep(250 * time.Millisecond)
			l.requireDirect()
		}
		assert.Len(t, l.direct.Sent("HELLO"), opened)
		time.Sleep(250 * time.Millisecond)
		l.send(2)
		l.requireDirect()
		assert.Len(t, l.direct.Sent("HELLO"), opened+1)
		synctest.Wait()
		assert.Equal(t, open, server.Miniredis().CurrentConnectionCount(), "the former one is closed")
	})
}

// A leavingConn ends a context once an answer is read from the socket, and before the reader
// has it.
type leavingConn struct {
	net.Conn
	leave  *atomic.Pointer[context.CancelFunc] // nil for none
	closed *atomic.Int32
	once   sync.Once
}

func (c *leavingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		if end := c.leave.Swap(nil); end != nil {
			(*end)()
			time.Sleep(time.Millisecond) // the goroutine of context.AfterFunc runs first
		}
	}
	return n, err
}

func (c *leavingConn) Close() error {
	c.once.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}

func TestADirectConnectionIsKeptIfACallerLeavesAsTheAnswerComes(t *testing.T) {
	var opened, closed atomic.Int32
	var leave atomic.Pointer[context.CancelFunc]
	watched := replaceDirect(func(conn net.Conn) (net.Conn, error) {
		opened.Add(1)
		return &leavingConn{Conn: conn, leave: &leave, closed: &closed}, nil
	})
	alone(t, watched, func(t *testing.T, l *lone, _ *inmemory.Server) {
		l.requireDirect()
		require.EqualValues(t, 1, opened.Load())
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			leave.Store(&cancel)
			_ = l.call(ctx) // it succeeds or not
			require.Nil(t, leave.Load(), "the command was sent directly")
			time.Sleep(5 * time.Second) // the connection is idle for so long that the next caller checks it
			l.send(1)
			time.Sleep(time.Minute)
			l.send(20)
		}
		assert.EqualValues(t, 1, opened.Load(), "opened")
		assert.Zero(t, closed.Load(), "closed")
	})
}

// The caller goes on at once, and the answer, which may come later, shows that the command was
// executed. Close ends such a call, too.
func TestADirectCallThatItsCallerLeavesIsLateUntilItsAnswer(t *testing.T) {
	for _, stage := range []network.Stage{network.Request, network.Reply} {
		for name, end := range map[string]func(l *lone, leave func()){
			"leaves": func(_ *lone, leave func()) { leave() },
			"closes": func(l *lone, _ func()) { l.Stop(); l.Close() },
		} {
			t.Run(fmt.Sprint(name, stage), func(t *testing.T) {
				alone(t, nil, func(t *testing.T, l *lone, _ *inmemory.Server) {
					l.direct.Rule(network.All(network.Hold, stage, "EVALSHA"))
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					var sent wire.Sent
					left := make(chan error, 1)
					go func() {
						order := l.order
						order.At = time.Now()
						result, at := l.Send(ctx, order)
						sent = at
						left <- result.NonRedisError()
					}()
					synctest.Wait()
					require.Empty(t, left)
					begin := time.Now()
					end(l, leave)
					require.Error(t, <-left)
					require.Less(t, time.Since(begin), 5*time.Second)
					if name == "closes" {
						require.False(t, l.IsSettled(sent.Generation))
						return
					}
					require.Zero(t, time.Since(begin))
					require.True(t, sent.IsLate())
					time.Sleep(time.Second)
					l.direct.Heal()
					require.True(t, l.IsSettled(sent.AwaitAnswer(t.Context()).Generation))
					l.send(20)
					l.requireDirect() // over a new connection
				})
			})
		}
	}
}

// The release of a tenure whose acquire is not settled is sent again until the lease would be over,
// and Close waits for it.
func TestACallWhoseContextHasEndedIsSettled(t *testing.T) {
	id := wire.NewID()
	redis := openWith(t, redistest.Embedded(t), id, func(o *wire.Options) {
		o.Redis.PipelineMultiplex, o.Redis.AlwaysPipelining, o.Redis.ConnWriteTimeout = -1, true, time.Minute // as package rlock
	})
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	send := func(ctx context.Context) (err error, settled bool) {
		acquire := wire.Acquire.Call(2, keys.Key, keys.Queue(), "30000", id.Owner(1))
		result, sent := redis.Send(ctx, wire.Order{Call: acquire, Slot: keys.Slot, First: true, At: time.Now()})
		return result.NonRedisError(), redis.IsSettled(sent.Generation)
	}
	require.Eventually(t, func() bool { // it is alone for long enough to have a direct connection
		err, settled := send(t.Context())
		return err == nil && settled && redis.HasDirect()
	}, redistest.Hang, time.Millisecond)

	over, cancel := context.WithCancel(t.Context())
	cancel()
	commands := redis.Commands()
	err, settled := send(over)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, commands, redis.Commands(), "it was sent")
	require.True(t, settled)
}

func TestCommandsHaveAnOrderOverOneConnectionOnly(t *testing.T) {
	server := redistest.Embedded(t)
	for _, c := range []struct {
		multiplex int
		shared    bool
		ordered   bool
	}{{-1, false, true}, {1, false, false}, {-1, true, false}} {
		redis := openWith(t, server, wire.NewID(), func(o *wire.Options) {
			if o.Redis.PipelineMultiplex = c.multiplex; c.shared {
				shared, err := rueidis.NewClient(o.Redis)
				require.NoError(t, err)
				t.Cleanup(shared.Close)
				*o = wire.Options{Client: shared}
			}
		})
		require.NoError(t, do(t, redis, "PING").Error())
		require.Equal(t, c.ordered, redis.Ordered(), "%+v", c)
		mark := redis.Generation()
		require.Equal(t, c.ordered, redis.IsSettled(mark), "%+v", c)
	}
}

func TestAConnectionThatIsClosedHereIsNotOpen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	isOpen := wire.OpenCheck(conn)
	if isOpen == nil {
		t.Skip("this system cannot tell")
	}
	assert.True(t, isOpen())
	require.NoError(t, conn.Close())
	assert.False(t, isOpen())
}
