package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// An Order is a call that is sent alone, in the goroutine of its caller. The caller has a slot of
// its node's limits.
type Order struct {
	Call
	Slot  uint16
	First bool      // no other command of the tenure is in flight, or was left behind
	At    time.Time // the present time

	// HasSource is set if a source of a user is a part of the call: then an error reply may come
	// from the source, whatever it says.
	HasSource bool
}

// A Sent says where a command was sent, so that later answers show whether it may still be
// executed. The zero Sent is an unknown place.
type Sent struct {
	Generation uint64      // the generation of the pipelined connection, or executed; 0 if neither is known
	late       *directConn // the direct connection on which the command was left behind, or nil
}

// executed stands for a command that has been executed, or never will be. No connection has this
// generation.
const executed = math.MaxUint64

// Send makes the call, over the direct connection if it is the first call of its tenure and nothing
// else is in flight. If ctx ends before there is an answer, it returns the error of ctx.
func (r *Redis) Send(ctx context.Context, o Order) (rueidis.RedisResult, Sent) {
	if o.First {
		if l := r.direct.acquireConn(r.Limits(o.Slot), o.At); l != nil {
			result, sent := r.direct.doCall(ctx, l, o.Call)
			r.noteReply(o, result.Error())
			return result, sent
		}
	}
	generation := r.Generation()
	client := r.Client
	if h, heeds := client.(*heedful); heeds && o.HasSource {
		client = h.Client
	}
	r.sent.n.Add(1)
	result := o.Call.send(ctx, client)
	if o.HasSource {
		r.noteReply(o, result.Error())
	}
	if result.NonRedisError() == nil {
		r.noteAnsweredAt(generation)
	}
	return result, Sent{Generation: generation}
}

// IsSettled reports whether a command with that generation has been executed, or never will be. The
// caller has the answer to a command that was sent later over the pipeline.
func (r *Redis) IsSettled(generation uint64) bool {
	return generation == executed || generation != 0 && r.Ordered() && r.Generation() == generation
}

// IsLate reports whether the command was left behind on the direct connection. No other command
// follows there whose answer would show that it was executed: the caller has to call AwaitAnswer or
// GiveUp, once.
func (s Sent) IsLate() bool { return s.late != nil }

// AwaitAnswer waits for the answer, or until ctx ends.
func (s Sent) AwaitAnswer(ctx context.Context) Sent {
	if s.late.awaitAnswer(ctx) {
		return Sent{Generation: executed}
	}
	return Sent{}
}

// GiveUp closes the connection.
func (s Sent) GiveUp() { s.late.cut() }

const (
	// directAfter is the number of consecutive commands that have to find nothing else in flight
	// before the direct connection is used, so that goroutines which take turns share the pipeline.
	directAfter = 8
	// reopenAfter is the least time between two direct connections. After a connection could not be
	// opened the time is retryAfter, for the sake of a server that is full.
	reopenAfter, retryAfter = time.Second, 30 * time.Second
)

// direct serves a lone caller in the caller's own goroutine, which writes the command to a second
// connection and reads the answer. On the pipelined connection a writer and a reader goroutine
// stand between the caller and the socket, which is worthwhile only when several commands are in
// flight.
//
// One command at a time, an acquire, a join, a guarded write or a release, is in flight on the
// direct connection, and only a command without a predecessor on another connection: a write or a
// release goes there only after the answers to all commands of its tenure before it. A caller that
// finds the connection in use, not open yet, or idle for so long that it may be dead, uses the
// pipeline. So do all callers while the pipelined connection is down, since the next pipelined
// connection may lead to another server.
//
// A connection that fails is replaced in the background by a connection to the address of the
// pipelined one. A name or a balancer may still lead it to another server, where the locks of the
// first are free. So it is used only if the servers of both connections have the same run id, for
// which each connection is asked once.
type direct struct {
	redis   *Redis
	options rueidis.ClientOption // the options of a connection, without the address
	dialer  net.Dialer
	connect dialFunc
	fresh   time.Duration // the time after a command for which the connection is used without a PING

	// alone is the number of consecutive commands that found nothing else in flight, up to
	// directAfter.
	alone  atomic.Int32
	closed atomic.Bool
	// conn is the open connection, or nil. The goroutine that has set busy uses it; close cuts it
	// without busy.
	conn atomic.Pointer[directConn]

	// busy is set by the goroutine that uses, opens or closes conn. It guards the fields below.
	busy atomic.Bool

	reopen time.Time // the earliest time at which the next connection is opened
}

// newDirect returns nil if there may be no direct connection: with a shared rueidis client, whose
// connections are not ours; in a Cluster; if rueidis chooses between several connections, or may be
// redirected to another server; and if WAIT follows each acquire.
func newDirect(r *Redis) *direct {
	o := r.options.Redis
	if r.cluster || !r.Ordered() || o.Standalone.EnableRedirect || o.ConnWriteTimeout <= 0 {
		return nil
	}
	d := &direct{redis: r, options: o, dialer: o.Dialer, connect: r.stoppable(dialOf(o)), fresh: time.Second}
	if o.Dialer.KeepAlive > 0 {
		d.fresh = o.Dialer.KeepAlive
		d.options.ConnWriteTimeout += 2 * o.Dialer.KeepAlive // as much as the pings of the pipeline add
	}
	d.options.ClientName = r.conns.name
	d.options.ForceSingleClient, d.options.Sentinel = true, rueidis.SentinelOption{}
	d.options.DialFn, d.options.OnInvalidations = nil, nil
	d.options.DisableRetry = true
	// A connection of rueidis serves its caller directly until two commands meet: nothing else may
	// use it, not even rueidis' pings.
	d.options.AlwaysPipelining, d.options.DisableAutoPipelining = false, false
	d.options.Dialer.KeepAlive = -1
	d.options.RingScaleEachConn = 1
	d.options.ReadBufferEachConn, d.options.WriteBufferEachConn = 4<<10, 4<<10
	return d
}

// acquireConn returns conn if the command that has just entered the limits may use it: then the
// caller calls doCall. It returns nil if the command has to use the pipeline.
func (d *direct) acquireConn(limits *Limits, now time.Time) *directConn {
	if d == nil {
		return nil
	}
	if limits.Asks.inFlight.Load()+limits.Releases.inFlight.Load() > 1 {
		if d.alone.Load() != 0 {
			d.alone.Store(0)
		}
		return nil
	}
	if d.alone.Load() < directAfter {
		d.alone.Add(1)
		return nil
	}
	if !d.redis.connected() || !d.busy.CompareAndSwap(false, true) {
		return nil
	}
	l := d.conn.Load()
	if l != nil && d.usable(l, now) && now.Sub(l.used) <= d.fresh {
		l.used = now
		return l
	}
	if l == nil && now.Before(d.reopen) || !d.redis.background.startWork(d.prepareConn) {
		d.releaseConn()
	}
	return nil
}

// usable reports whether no pipelined connection was dialled since the direct connection l was
// opened, the credentials of l have not expired, and the server has not closed l.
func (d *direct) usable(l *directConn, now time.Time) bool {
	if l.dialled != d.redis.conns.dialled.Load() || !l.expires.IsZero() && !now.Before(l.expires) {
		return false
	}
	return l.open == nil || l.open()
}

// doCall sends a call over the connection that acquireConn has returned. If ctx ends before there
// is an answer, doCall returns the error of ctx, and a Sent with the connection, on which the
// answer may still come. If ctx has already ended, doCall sends nothing.
func (d *direct) doCall(ctx context.Context, l *directConn, c Call) (rueidis.RedisResult, Sent) {
	defer d.releaseConn()
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err), Sent{Generation: executed}
	}
	d.redis.sent.n.Add(1)
	use := l.beginUse()
	if leaver, ok := ctx.(Leaver); ok {
		leaver.Leaves(use)
	} else if ctx.Done() != nil {
		defer context.AfterFunc(ctx, use.Leave)()
	}
	// rueidis reads in this goroutine only for a context that cannot be cancelled.
	result := c.send(context.Background(), l.redis)
	answered := result.NonRedisError() == nil
	left := l.endUse(answered)
	if answered {
		return result, Sent{Generation: executed}
	}
	d.conn.Store(nil)
	if !d.redis.background.startWork(l.redis.Close) {
		l.redis.Close()
	}
	if left {
		return rueidis.NewErrorResult(ctx.Err()), Sent{late: l}
	}
	return result, Sent{}
}

// prepareConn makes conn ready for the next caller: it opens a connection, or pings an idle one. It
// runs in a goroutine of its own, with busy set.
func (d *direct) prepareConn() {
	defer d.releaseConn()
	l := d.conn.Load()
	if l != nil && d.usable(l, time.Now()) {
		if l.redis.Do(context.Background(), l.redis.B().Ping().Build()).NonRedisError() == nil {
			l.used = time.Now()
			return
		}
	}
	d.drop()
	d.reopen = time.Now().Add(retryAfter)
	for address := range d.redis.Client.Nodes() { // outside a Cluster there is exactly one node
		if l, err := d.dial(address); err == nil {
			d.conn.Store(l)
			d.reopen = l.used.Add(reopenAfter)
			return
		}
	}
}

// errElsewhere is the error of a direct connection that is not known to lead to the server of the
// pipeline.
var errElsewhere = errors.New("the direct connection may lead to another server")

// sameServer reports whether the direct connection leads to the server of the pipelined one. When
// another pipelined connection is dialled later, the direct connection is no longer usable.
func (d *direct) sameServer(direct rueidis.Client) bool {
	ctx, cancel := d.redis.Within(d.redis.ctx)
	defer cancel()
	id, err := runID(ctx, d.redis.Client)
	if err != nil || id == "" {
		return false
	}
	other, err := runID(ctx, direct)
	return err == nil && id == other
}

// errDialled is the error that rueidis gets in place of a second connection for a directConn.
var errDialled = errors.New("the direct connection has ended")

// dial returns a new connection. Dialling ends when the client closes, or takes too long.
func (d *direct) dial(address string) (*directConn, error) {
	l := &directConn{dialled: d.redis.conns.dialled.Load()}
	closing := func() bool { return true }
	o := d.options
	o.InitAddress = []string{address}
	o.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
		if l.Conn != nil {
			return nil, errDialled
		}
		conn, err := d.connect(ctx, address, &d.dialer, config)
		if err != nil {
			return nil, err
		}
		l.Conn, l.open = conn, openCheck(conn)
		closing = context.AfterFunc(d.redis.ctx, l.cut)
		return l, nil
	}
	if credentials := o.AuthCredentialsFn; credentials != nil {
		o.AuthCredentialsFn = func(c rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			a, err := credentials(c)
			l.expires, a.RefreshAfter = a.RefreshAfter, time.Time{} // rueidis must not refresh credentials while a command is in flight
			return a, err
		}
	}
	redis, err := rueidis.NewClient(o)
	if err == nil && !d.sameServer(redis) {
		err = errElsewhere
	}
	if !closing() && err == nil {
		err = rueidis.ErrClosing
	}
	if err != nil {
		if redis != nil {
			redis.Close()
		}
		return nil, err
	}
	l.redis, l.used = redis, time.Now()
	return l, nil
}

// drop closes conn.
//
// REQUIRES: direct.busy.
func (d *direct) drop() {
	if l := d.conn.Swap(nil); l != nil {
		l.redis.Close()
	}
}

// releaseConn lets other callers use conn.
func (d *direct) releaseConn() {
	d.busy.Store(false)
	if d.closed.Load() {
		d.close()
	}
}

// close closes conn, and ends a command in flight on it with an error. No connection is opened any
// more.
func (d *direct) close() {
	if d == nil {
		return
	}
	d.closed.Store(true)
	if l := d.conn.Load(); l != nil {
		l.cut()
	}
	if d.busy.CompareAndSwap(false, true) { // otherwise the goroutine that has set busy calls close when it is done
		d.drop()
	}
}

// A directConn is a direct connection. The caller may leave while rueidis waits for an answer: then
// rueidis gets a timeout, but the connection stays open until the answer has come. The answer shows
// that the command was executed.
type directConn struct {
	net.Conn
	open    func() bool // reports whether the connection is still open at the server; may be nil: see openCheck
	redis   rueidis.Client
	dialled uint64    // connections.dialled when the connection was opened
	expires time.Time // the end of the connection's credentials; zero for none

	used time.Time // the time of the last command; guarded by direct.busy

	mu       sync.Mutex // guards the fields below
	use      uint64     // the number of the present use
	left     bool       // the caller has left
	answered bool       // the beginning of the answer has come
}

// A Leaver is a context that calls Leave of a Use when the context ends, or at once if it has
// ended. It serves callers with many commands, since [context.AfterFunc] allocates memory each
// time.
type Leaver interface {
	context.Context
	Leaves(u Use)
}

// A Use is the use of a direct connection by one command.
type Use struct {
	conn   *directConn
	number uint64
}

// Leave ends the wait for the answer, if the connection still serves that call.
func (u Use) Leave() {
	if l := u.conn; l != nil {
		l.leaveUse(u.number)
	}
}

func (l *directConn) beginUse() Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left, l.answered = false, false
	return Use{l, l.use}
}

// endUse ends the use, and reports whether the caller has left before the command was answered.
func (l *directConn) endUse(answered bool) (left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left = l.left && !answered
	return l.left
}

// leaveUse ends the wait for the answer, if the connection still serves that use.
func (l *directConn) leaveUse(use uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use == l.use {
		l.left = true
		_ = l.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// SetDeadline is called by rueidis before it sends a command.
func (l *directConn) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return l.Conn.SetWriteDeadline(t)
	}
	return l.Conn.SetDeadline(t)
}

func (l *directConn) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.answered = false
	l.mu.Unlock()
	return l.Conn.Write(b)
}

func (l *directConn) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.mu.Lock()
		l.answered = true
		l.mu.Unlock()
	}
	return n, err
}

// Close is called by rueidis. It leaves the connection open if an answer may still come.
func (l *directConn) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return nil
	}
	return l.Conn.Close()
}

func (l *directConn) cut() { _ = l.Conn.Close() }

// awaitAnswer waits until the command whose caller has left is answered, or ctx ends. It closes the
// connection, and reports whether there was an answer.
func (l *directConn) awaitAnswer(ctx context.Context) bool {
	defer l.cut()
	l.mu.Lock()
	answered := l.answered
	l.mu.Unlock()
	if answered {
		return true
	}
	defer context.AfterFunc(ctx, l.cut)()
	_ = l.Conn.SetReadDeadline(time.Time{})
	n, _ := l.Conn.Read(make([]byte, 1))
	return n > 0
}
