package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connections knows whether the client is connected. In rueidis a command that finds no connection
// waits until there is one, whatever its context says, since all callers wait for the caller that
// dials. If there is none, a caller that may leave has to send its command from another goroutine,
// which costs as much as the rest of a Lock.
type connections struct {
	// counted is set if closed is kept up to date. It is not for a shared client, whose connections
	// are not ours.
	counted bool
	// prompt is set if rueidis' pings end a silent connection within the time of an Unlock.
	prompt bool
	// closed is the number of connections closed so far. rueidis closes a connection before it
	// dials the next.
	closed atomic.Uint64
	// changed is the function of OnChange, or nil.
	changed atomic.Pointer[func(keys []string)]
	// dialled is the number of attempts to open a connection.
	dialled atomic.Uint64
	// name is the client name of the connections, or "".
	name string
	// answered is the latest generation (closed + 1) in which a command was sent that has an
	// answer.
	answered atomic.Uint64
	// away is the time of the first end of a connection, or first command that failed, since the
	// last answer, in nanoseconds since began; 0 for none.
	away atomic.Int64

	// onReplicated is called when a connection is opened for commands that wait for replicas.
	onReplicated func()

	mu   sync.Mutex         // guards the field below
	open map[*wire]struct{} // the connections that rueidis has not closed
}

// wrapDials makes o wrap each connection into a wire.
func (c *connections) wrapDials(o rueidis.ClientOption) rueidis.ClientOption {
	if o.DisableTCPNoDelay {
		return o // rueidis needs the connection itself
	}
	c.counted = true
	silence := 2*o.Dialer.KeepAlive + o.ConnWriteTimeout
	c.prompt = o.Dialer.KeepAlive > 0 && o.ConnWriteTimeout > 0 && silence <= patienceOf(o)+freshness
	connect := dialOf(o)
	o.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		c.dialled.Add(1)
		conn, err := connect(ctx, address, dialer, config)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn, conns: c, address: address, replicated: ctx.Value(replicated{}) != nil}
		c.opened(w)
		return w, nil
	}
	return o
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialOf returns the function that opens o's connections.
func dialOf(o rueidis.ClientOption) dialFunc {
	if o.DialCtxFn != nil {
		return o.DialCtxFn
	}
	return func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		switch {
		case o.DialFn != nil:
			return o.DialFn(address, dialer, config)
		case config != nil:
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, "tcp", address)
		default:
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
}

// A wire is a connection that reports when it is closed, and that cannot be read before something
// was written to it. A server that refuses a connection says so unasked ("ERR max number of clients
// reached"). rueidis takes that for the answer to its first command; but if the caller's context
// ends before rueidis has sent one, it panics in a goroutine of its own, which ends the process. An
// error in reply to UNSUBSCRIBE would end the process as well, so that command is never sent (see
// package pubsub, and Redis.doTwo).
type wire struct {
	net.Conn
	conns      *connections
	address    string
	replicated bool // the connection was opened for a command that waits for replicas
	asked      atomic.Bool
	// greeting is what the server has sent, as long as it may be the one reply with which the
	// server hangs up. Only the reader uses greeting and greeted.
	greeting []byte
	greeted  bool // the server has sent more than a greeting
}

func (w *wire) Close() error {
	w.conns.closed.Add(1)
	w.conns.away.CompareAndSwap(0, int64(time.Since(began)))
	w.conns.mu.Lock()
	delete(w.conns.open, w)
	w.conns.mu.Unlock()
	defer w.conns.tellChanged(nil)
	return w.Conn.Close()
}

func (w *wire) Write(b []byte) (int, error) {
	w.asked.Store(true)
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	if !w.asked.Load() {
		return 0, errUnasked
	}
	n, err := w.Conn.Read(b)
	if !w.greeted {
		err = w.greet(b[:n], err)
	}
	return n, err
}

// longestGreeting is longer than any reply with which a server hangs up.
const longestGreeting = 4 << 10

// greet keeps the first bytes read. When the connection ends with err, and these bytes are an error
// reply, greet returns that reply: rueidis begins with several commands, and returns err in place
// of the reply if not all of them are answered.
func (w *wire) greet(read []byte, err error) error {
	w.greeting = append(w.greeting, read...)
	line, rest, whole := strings.Cut(string(w.greeting), "\r\n")
	text, refused := strings.CutPrefix(line, "-")
	if !refused || rest != "" || len(line) > longestGreeting {
		w.greeted, w.greeting = len(w.greeting) > 0, nil
		return err
	}
	if err == nil || !whole {
		return err
	}
	return &rejection{reply: strings.TrimPrefix(text, "ERR "), cause: err}
}

// errUnasked is the error of a read before anything was written.
var errUnasked = errors.New("the server was asked nothing yet")

// Generation returns the number of the present connection. A caller takes it before it sends a
// command, and passes it to noteAnsweredAt when the command is answered.
func (r *Redis) Generation() uint64 { return r.conns.closed.Load() + 1 }

// noteAnsweredAt notes that a command which was sent in the generation was answered. It writes the
// value only once in a generation, since all callers read it all the time.
func (r *Redis) noteAnsweredAt(generation uint64) {
	if c := r.conns; c.answered.Load() != generation && c.answered.Swap(generation) != 0 {
		c.tellChanged(nil)
	}
}

func (c *connections) tellChanged(keys []string) {
	if changed := c.changed.Load(); changed != nil {
		(*changed)(keys)
	}
}

// Ends reports whether a command that is sent now ends by itself within the time of an Unlock,
// answered or not.
func (r *Redis) Ends() bool { return r.connected() && r.conns.prompt }

// connected reports whether a command was answered that was sent after the last connection was
// closed. It is false in a Cluster, where a command may be redirected to a node without a
// connection.
func (r *Redis) connected() bool {
	c := r.conns
	return r.hasConnected() && c.counted && !r.cluster && c.answered.Load() == c.closed.Load()+1
}

// OnChange sets the function that is called with tracked keys that another client has changed. It
// is called without keys if any key may have changed: when a connection has ended, and after the
// first answer over the next one. The reader of a connection calls the function, which must not
// wait.
func (r *Redis) OnChange(changed func(keys []string)) { r.conns.changed.Store(&changed) }
