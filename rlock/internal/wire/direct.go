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

// An Order is a call that is sent by itself, in the goroutine of its caller. It has a slot among the limits of its node.
type Order struct {
	Call
	Slot  uint16
	First bool      // no other command of the same tenure is in flight, or was left behind
	At    time.Time // when it is sent: now
}

// A Sent says where a command was sent, and so whether it may be executed later. Of the zero Sent that is not known.
type Sent struct {
	Generation uint64 // of the pipelined connection; 0: sent elsewhere; executed: known to be done
	late       *line  // a connection of its own on which it was left behind, nil for none
}

// executed is the generation of a command that has been executed, or never will be. No connection has it.
const executed = math.MaxUint64

// Send makes the call, by a connection of its own if it is the first one and its caller is alone. If ctx ends before the
// answer is there, it returns the error of ctx.
func (r *Redis) Send(ctx context.Context, o Order) (rueidis.RedisResult, Sent) {
	if o.First {
		if l := r.direct.take(r.Limits(o.Slot), o.At); l != nil {
			return r.direct.do(ctx, l, o.Call)
		}
	}
	generation := r.Generation()
	result := r.Do(ctx, o.Call)
	if result.NonRedisError() == nil {
		r.heard(generation)
	}
	return result, Sent{Generation: generation}
}

// IsSettled reports whether the command of a Sent with the generation has been executed by now, or never will be, once one is
// answered that was sent later by the pipeline.
func (r *Redis) IsSettled(generation uint64) bool {
	return generation == executed || generation != 0 && r.Ordered() && r.Generation() == generation
}

// IsLate reports whether the command was left behind on a connection of its own. No other one comes behind it there, so its
// answer has to be awaited: one call of Await or of GiveUp follows.
func (s Sent) IsLate() bool { return s.late != nil }

// Await waits for the answer, or until ctx ends.
func (s Sent) Await(ctx context.Context) Sent {
	if s.late.settled(ctx) {
		return Sent{Generation: executed}
	}
	return Sent{}
}

// GiveUp does not wait.
func (s Sent) GiveUp() { s.late.cut() }

const (
	// directAfter is how many commands in a row must find nothing else in flight before one
	// is served directly: goroutines that take turns go on sharing the pipeline.
	directAfter = 8
	// reopenAfter is how long after a direct connection was opened another one is, and
	// retryAfter how long after one could not be: a server that is full is left alone.
	reopenAfter, retryAfter = time.Second, 30 * time.Second
)

// direct serves a lone caller in the caller's own goroutine: it writes the command to a
// second connection and reads the answer. On the pipelined connection a writer and a reader
// goroutine stand between the caller and the socket, which is worth it only for several
// commands at a time.
//
// One command at a time is in flight on that connection, an acquire or a release, and only a
// command with no predecessor on another connection is sent there: a release goes there
// only after the answers to the acquire and to every mirror. A caller that finds the connection
// in use, not open yet, or in doubt, uses the pipeline. So do all callers while the pipelined
// connection is down: the next one may lead to another server.
//
// A connection that fails is given up and never dialled again. The next one is opened in the
// background, to where the pipelined connection leads by then. A name or a balancer may lead
// it to another server all the same, where the locks of this one are free: it is used only if the
// servers at the ends of both have one run id, which is asked for once a connection.
type direct struct {
	redis   *Redis
	options rueidis.ClientOption // but the address
	dialer  net.Dialer
	connect dialFunc
	fresh   time.Duration // how long after an answer the connection is not in doubt

	// alone counts the commands that found nothing else in flight, up to directAfter.
	alone  atomic.Int32
	closed atomic.Bool
	// line is the open connection, nil if there is none. Only close looks at it without busy.
	line atomic.Pointer[line]

	// busy is set by the one goroutine that uses the line, opens or closes it. It protects
	// following.
	busy atomic.Bool

	reopen time.Time // not before
}

// newDirect returns nil where a lone caller cannot be served directly: on a shared rueidis
// client, whose connections are not ours; in a Cluster and where rueidis chooses between
// several servers or connections; and where WAIT follows each acquire.
func newDirect(r *Redis) *direct {
	o := r.options.Redis
	chooses := len(o.Standalone.ReplicaAddress) > 0 || o.Standalone.EnableRedirect || o.SendToReplicas != nil || o.ReplicaOnly
	if r.cluster || !r.Ordered() || chooses || o.ConnWriteTimeout <= 0 {
		return nil
	}
	d := &direct{redis: r, options: o, dialer: o.Dialer, connect: dialOf(o), fresh: time.Second}
	if o.Dialer.KeepAlive > 0 {
		d.fresh = o.Dialer.KeepAlive
		d.options.ConnWriteTimeout += 2 * o.Dialer.KeepAlive // as long as the pipeline has, with its pings
	}
	d.options.ClientName = r.conns.name
	d.options.ForceSingleClient, d.options.Sentinel = true, rueidis.SentinelOption{}
	d.options.DialFn, d.options.OnInvalidations = nil, nil
	d.options.DisableRetry = true
	// A connection of rueidis serves its caller directly until a second command meets the
	// first: nothing else may use it, not even rueidis' pings.
	d.options.AlwaysPipelining, d.options.DisableAutoPipelining = false, false
	d.options.Dialer.KeepAlive = -1
	d.options.RingScaleEachConn = 1
	d.options.ReadBufferEachConn, d.options.WriteBufferEachConn = 4<<10, 4<<10
	return d
}

// take returns the line if the command that has just entered these limits, and is sent now, may have it;
// then do must be called. It returns nil where the command has to use the pipeline.
func (d *direct) take(limits *Limits, now time.Time) *line {
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
	if !d.redis.Connected() || !d.busy.CompareAndSwap(false, true) {
		return nil
	}
	l := d.line.Load()
	if l != nil && d.usable(l, now) && now.Sub(l.used) <= d.fresh {
		l.used = now
		return l
	}
	if l == nil && now.Before(d.reopen) || !d.redis.background.start(d.prepare) {
		d.free()
	}
	return nil
}

// usable reports whether the pipelined connection is the one that it was when the line was
// opened, the line's credentials are those of now, and the server has not closed it.
func (d *direct) usable(l *line, now time.Time) bool {
	if l.dialled != d.redis.conns.dialled.Load() || !l.expires.IsZero() && !now.Before(l.expires) {
		return false
	}
	return l.open == nil || l.open()
}

// do sends a call over the line that take has returned. If ctx ends before the answer is
// there, do returns ctx's error, and the line is left, on which the answer is still to come. If
// ctx has ended already, nothing is sent.
func (d *direct) do(ctx context.Context, l *line, c Call) (rueidis.RedisResult, Sent) {
	defer d.free()
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err), Sent{Generation: executed}
	}
	d.redis.sent.n.Add(1)
	use := l.begin()
	if leaver, ok := ctx.(Leaver); ok {
		leaver.Leaves(use)
	} else if ctx.Done() != nil {
		defer context.AfterFunc(ctx, use.Leave)()
	}
	// rueidis reads in this goroutine only for a context that cannot be cancelled.
	result := c.do(context.Background(), l.redis)
	answered := result.NonRedisError() == nil
	left := l.end(answered)
	if answered {
		return result, Sent{Generation: executed}
	}
	d.line.Store(nil)
	if !d.redis.background.start(l.redis.Close) {
		l.redis.Close()
	}
	if left {
		return rueidis.NewErrorResult(ctx.Err()), Sent{late: l}
	}
	return result, Sent{}
}

// prepare makes the line ready for the next caller: it opens one, or asks the server whether
// one that was idle is still good. It runs in a goroutine of its own, which is the busy one.
func (d *direct) prepare() {
	defer d.free()
	l := d.line.Load()
	if l != nil && d.usable(l, time.Now()) {
		if l.redis.Do(context.Background(), l.redis.B().Ping().Build()).NonRedisError() == nil {
			l.used = time.Now()
			return
		}
	}
	d.drop()
	d.reopen = time.Now().Add(retryAfter)
	for address := range d.redis.Client.Nodes() { // there is one, since the client is none of a Cluster
		if l, err := d.dial(address); err == nil {
			d.line.Store(l)
			d.reopen = l.used.Add(reopenAfter)
			return
		}
	}
}

// errElsewhere is the error of a line that is not known to lead to the server of the pipeline.
var errElsewhere = errors.New("the direct connection may lead to another server")

// sameServer reports whether the line leads to the server of the pipelined connection. If that
// one is another by the time of a command the line is not usable.
func (d *direct) sameServer(line rueidis.Client) bool {
	ctx, cancel := d.redis.Within(d.redis.ctx)
	defer cancel()
	id, err := runID(ctx, d.redis.Client)
	if err != nil || id == "" {
		return false
	}
	other, err := runID(ctx, line)
	return err == nil && id == other
}

// errDialled is what rueidis gets in place of a second connection for a line.
var errDialled = errors.New("the direct connection has ended")

// dial returns a new line. It takes no longer than the client lives, or a connection may take.
func (d *direct) dial(address string) (*line, error) {
	l := &line{dialled: d.redis.conns.dialled.Load()}
	closing := func() bool { return true }
	o := d.options
	o.InitAddress = []string{address}
	o.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
		if l.Conn != nil {
			return nil, errDialled
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(d.redis.ctx, cancel)()
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
			l.expires, a.RefreshAfter = a.RefreshAfter, time.Time{} // rueidis must not refresh them while a command is in flight
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

// drop closes the line. The caller is the busy one.
func (d *direct) drop() {
	if l := d.line.Swap(nil); l != nil {
		l.redis.Close()
	}
}

// free lets others use the line.
func (d *direct) free() {
	d.busy.Store(false)
	if d.closed.Load() {
		d.close()
	}
}

// close ends the line, and a command that is in flight on it with an error. The line is not
// used or opened any more.
func (d *direct) close() {
	if d == nil {
		return
	}
	d.closed.Store(true)
	if l := d.line.Load(); l != nil {
		l.cut()
	}
	if d.busy.CompareAndSwap(false, true) { // else the busy one calls close when it is done
		d.drop()
	}
}

// A line is a direct connection. While rueidis waits there for an answer, the caller may leave:
// then rueidis gets a timeout, but the connection stays open until the answer
// has come, by which it is known that the command has been executed.
type line struct {
	net.Conn
	open    func() bool // see openCheck
	redis   rueidis.Client
	dialled uint64    // how often the wires had been dialled when the line was opened
	expires time.Time // when its credentials do, zero for never

	used time.Time // when a command was last sent; protected by direct.busy

	mu       sync.Mutex // protects following
	use      uint64     // which command has the line, or none any more
	left     bool       // its caller has left
	answered bool       // the answer has come, at least its beginning
}

// A Leaver is a context that takes one use, which is left when the context ends; also if it has ended. It is
// for a caller that has many commands, since [context.AfterFunc] takes memory each time.
type Leaver interface {
	context.Context
	Leaves(t Use)
}

// A Use is one command's on a direct connection. The zero Use is none.
type Use struct {
	line   *line
	number uint64
}

// Leave ends the wait for the answer, if the use goes on.
func (t Use) Leave() {
	if l := t.line; l != nil {
		l.leave(t.number)
	}
}

// begin returns the next command's use.
func (l *line) begin() Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left, l.answered = false, false
	return Use{l, l.use}
}

// end ends the use, and reports whether the caller has left before the command was answered.
func (l *line) end(answered bool) (left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.use++
	l.left = l.left && !answered
	return l.left
}

// leave ends the wait for the answer, if that use goes on.
func (l *line) leave(use uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use == l.use {
		l.left = true
		_ = l.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// SetDeadline is called by rueidis before it sends a command.
func (l *line) SetDeadline(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return l.Conn.SetWriteDeadline(t)
	}
	return l.Conn.SetDeadline(t)
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.answered = false
	l.mu.Unlock()
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.mu.Lock()
		l.answered = true
		l.mu.Unlock()
	}
	return n, err
}

// Close is called by rueidis. It leaves a connection open on which an answer is still to come.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return nil
	}
	return l.Conn.Close()
}

// cut ends the connection.
func (l *line) cut() { _ = l.Conn.Close() }

// settled waits until the command whose caller has left is answered, and reports whether it
// was before ctx ended. Then the connection is closed.
func (l *line) settled(ctx context.Context) bool {
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
