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
// dials. Then a caller that may leave has to send its command from another goroutine, which costs
// as much as the rest of a Lock.
type connections struct {
	// counted is set if closed is kept: not for a shared client, whose connections are not ours.
	counted bool
	// prompt is set if rueidis' pings end a silent connection within the time of an Unlock.
	prompt bool
	// closed counts the connections closed so far. rueidis closes one before it dials the next.
	closed atomic.Uint64
	// changed is the function of OnChange, or nil.
	changed atomic.Pointer[func(keys []string)]
	// dialled counts the attempts to open a connection.
	dialled atomic.Uint64
	// name is the client name of the connections, or "".
	name string
	// answered is the latest generation (closed + 1) at which a command was sent that was answered.
	answered atomic.Uint64
	// away is the time at which a connection has ended, or a command failed, since the last answer,
	// in nanoseconds since began; 0 for none.
	away atomic.Int64

	// onReplicated is called when a connection for commands that wait for replicas is opened.
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
// error in reply to UNSUBSCRIBE would do so as well: that command is never sent (see package
// pubsub, and Redis.together).
type wire struct {
	net.Conn
	conns      *connections
	address    string
	replicated bool // it was opened for a command that waits for replicas
	asked      atomic.Bool
	// greeting is what the server has sent, while that may be one reply that says why it hangs up.
	// Only the reader uses it, and greeted.
	greeting []byte
	greeted  bool // the server has sent something else
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
// reply, greet returns that reply: rueidis begins with several commands and, if not all of them are
// answered, returns err and not the reply.
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

// Generation returns the number of the present connection. Callers take it before they send a
// command, and pass it to heard when the command is answered.
func (r *Redis) Generation() uint64 { return r.conns.closed.Load() + 1 }

// noteAnsweredAt notes that a command which was sent at that generation was answered. It writes
// only the first time in a generation, since all callers read the value all the time.
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

// Ends reports whether a command that is sent now ends by itself, answered or not, within the time
// of an Unlock.
func (r *Redis) Ends() bool { return r.connected() && r.conns.prompt }

// connected reports whether a command was answered that was sent after the last connection was
// closed. It is false in a Cluster, where a command may be redirected to a node without a
// connection.
func (r *Redis) connected() bool {
	c := r.conns
	return r.hasConnected() && c.counted && !r.cluster && c.answered.Load() == c.closed.Load()+1
}

// OnChange sets the function that is called with tracked keys that another client has changed, and
// without keys if any key may have changed: when a connection has ended, and after the first answer
// over the next one. The reader of a connection calls the function, which must not wait.
func (r *Redis) OnChange(changed func(keys []string)) { r.conns.changed.Store(&changed) }
