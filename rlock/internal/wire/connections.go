package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// connections knows whether the client is connected. A command that finds no connection
// waits until there is one, whatever its context says: in rueidis all callers
// wait for the one that connects. A caller that may leave sends such a command from another
// goroutine, which costs as much as all the rest that a Lock does here; with a
// connection there is no need.
type connections struct {
	// counted is set if those that are closed are: not those of a shared client.
	counted bool
	// prompt is set if rueidis, with its pings, gives up a connection that is silent
	// in the time that an Unlock has.
	prompt bool
	// closed counts the connections that rueidis has closed, which it does before
	// it opens another.
	closed atomic.Uint64
	// changed is nil until the client is made: see OnChange.
	changed atomic.Pointer[func(keys []string)]
	// dialled counts the connections that were opened, or tried.
	dialled atomic.Uint64
	// name is what the connections are called, "" for nothing.
	name string
	// answered is closed + 1 as of when a command was sent that was answered.
	answered atomic.Uint64
}

// watch has o's connections watched.
func (c *connections) watch(o rueidis.ClientOption) rueidis.ClientOption {
	if o.DisableTCPNoDelay {
		return o // rueidis must see the bare connection
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
		return &wire{Conn: conn, conns: c}, nil
	}
	return o
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialOf returns how o's connections are opened.
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

// A wire is a connection that reports when it is closed, and that cannot be read
// before something was written to it. A server that refuses a connection says so
// unasked ("ERR max number of clients reached"). rueidis takes that for the answer
// to its first command; but if the caller's context ends before there is one, it
// panics in a goroutine of its own, which ends the process. Another reply that does so is
// an error in answer to UNSUBSCRIBE, which is never sent: see package pubsub and together.
type wire struct {
	net.Conn
	conns *connections
	asked atomic.Bool
	// greeting is the bytes read so far, until greeted: until it is clear that it is more
	// than one reply that says why the server hangs up. They belong to the reader.
	greeting []byte
	greeted  bool
}

func (w *wire) Close() error {
	w.conns.closed.Add(1)
	defer w.conns.change(nil)
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

// longestGreeting is more than any server says when it hangs up.
const longestGreeting = 4 << 10

// greet looks at the first bytes read, and returns why the connection ended in place of err
// if the server has said why. rueidis begins with several commands and, when not all of
// them are answered, keeps the error and not the answer.
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

// errUnasked is what a wire says in place of what the server says unasked.
var errUnasked = errors.New("the server was asked nothing yet")

// Generation is called before a command is sent, and Heard with what it returned when
// the command was answered.
func (r *Redis) Generation() uint64 { return r.conns.closed.Load() + 1 }

// heard notes that a command was answered that was sent at that generation. It stores only a change, which is rare: all callers
// read it all the time.
func (r *Redis) heard(generation uint64) {
	if c := r.conns; c.answered.Load() != generation && c.answered.Swap(generation) != 0 {
		c.change(nil)
	}
}

func (c *connections) change(keys []string) {
	if changed := c.changed.Load(); changed != nil {
		(*changed)(keys)
	}
}

// Ends reports whether a command that is sent now ends by itself, answered or not,
// in the time that an Unlock has.
func (r *Redis) Ends() bool { return r.Connected() && r.conns.prompt }

// Connected reports whether no connection was closed since an answered command was sent. It is
// false in a Cluster, where a redirected command may meet a node for the first time.
func (r *Redis) Connected() bool {
	c := r.conns
	return r.isOpen() && c.counted && !r.cluster && c.answered.Load() == c.closed.Load()+1
}

// OnChange calls changed with tracked keys that another client has changed. It calls it
// without keys if any key may have changed: when a connection has ended, and after the first
// answer over the next one. The reader of a connection calls it, so it must not wait.
func (r *Redis) OnChange(changed func(keys []string)) { r.conns.changed.Store(&changed) }
