package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// newRueidis returns the client of rueidis that the options describe, or the shared one.
//
// Up to Redis 7.0 a server that is loading its data, or is busy with a script, refuses the commands
// by which rueidis looks for a Cluster. connect tries again, for as long as a connection may take.
//
// The connections are named after the client with that id. If the server, or a proxy, refuses the
// name, they have none. In RESP2 the name is set by CLIENT SETNAME, which needs a right; HELLO
// needs none.
func newRueidis(o Options, id string, conns *connections) (rueidis.Client, *absent) {
	if o.Client != nil {
		return o.Client, nil
	}
	option := conns.wrapDials(o.Redis)
	named := option.ClientName == "" && !o.NoClientName
	if named {
		option.ClientName = clientName(id)
	}
	begin := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		redis, err := rueidis.NewClient(option)
		if err == nil {
			conns.name = option.ClientName
			return redis, nil
		}
		if redis != nil {
			redis.Close()
		}
		message, replied := replyText(err)
		if named && refusesName(message) {
			named, option.ClientName = false, ""
			continue
		}
		d, explained := Diagnose(err)
		if replied && d == NotNow && time.Since(begin)+pause <= option.Dialer.Timeout {
			time.Sleep(pause)
			continue
		}
		if replied {
			return nil, &absent{d, refusedBy(o.Redis, message, d, explained)}
		}
		return nil, &absent{NotNow, unreachable(o.Redis, explained)}
	}
}

// refusedBy returns the error of connect if the server has refused one of the first commands.
func refusedBy(option rueidis.ClientOption, message string, d Diagnosis, err error) error {
	if errors.Is(err, ErrNoPermission) {
		err = cmp.Or(loginOf(option).refused(message), err)
	}
	return fmt.Errorf("cannot connect to %v: %w%s", option.InitAddress, err, remedy(message, d))
}

// unreachable returns the error of connect if no server has answered. A server that is full may
// hang up without a reply, as does one that rejects the client's certificate.
func unreachable(option rueidis.ClientOption, err error) error {
	tls := ", that this port is without TLS (else set Config.Redis.TLSConfig)"
	if option.TLSConfig != nil {
		tls = ", that this port is for TLS and takes the client's certificate"
	}
	return fmt.Errorf("cannot connect to %v: %w: check that Redis runs there and has room for more clients (maxclients)%s, and Config.Redis",
		option.InitAddress, err, tls)
}

// refusesName reports whether a reply may be the refusal of the client's name. Redis 6 says only
// that a subcommand of CLIENT is refused.
func refusesName(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "setname") || strings.HasPrefix(message, "noperm") && strings.Contains(message, "client")
}

// remedies are the changes of the config or the server that cure a refusal, by the beginning of the
// reply. Diagnose explains replies about a missing right.
var remedies = []struct{ reply, remedy string }{
	{"max number of clients", "raise maxclients of the server"},
	{"DB index", "choose a database that the server has with Config.Redis.SelectDB"},
	{"DENIED", "set a password, or protected-mode no, on the server"},
	{"This instance has cluster support disabled", severalAddresses},
	{"unknown command 'CLUSTER'", severalAddresses}, // Sentinels
	{"unknown command `CLUSTER`", severalAddresses},
	{"unknown command 'SENTINEL'", noSentinel},
	{"unknown command `SENTINEL`", noSentinel},
	{"No such master with that name", "the Sentinels know no primary by the name in Config.Redis.Sentinel.MasterSet"},
}

const (
	severalAddresses = "several addresses are those of a Cluster: give one, or name the primary in Config.Redis.Sentinel.MasterSet"
	noSentinel       = "with Config.Redis.Sentinel.MasterSet the addresses are those of Sentinels"
)

// remedy returns the advice for a reply, which is appended to the error.
func remedy(message string, d Diagnosis) string {
	for _, r := range remedies {
		if strings.HasPrefix(message, r.reply) {
			return ": " + r.remedy
		}
	}
	if d == NotNow {
		return ": it was not ready within Config.Redis.Dialer.Timeout"
	}
	return ""
}

// checkMode returns an error if the client of a single server is connected with a Sentinel, or with
// a node of a Cluster that refuses to list the other nodes: rueidis takes that for a single server,
// and the names of the other nodes could never be locked. A server that does not know HELLO is
// older than Redis 6, or no Redis, and passes. A shared client that is closed, or has lost its
// server, is an error of [Open].
func (r *Redis) checkMode() error {
	if r.Client.Mode() != rueidis.ClientModeStandalone {
		return nil
	}
	shared := r.options.Client != nil
	forced := !shared && r.options.Redis.ForceSingleClient
	hello, err := r.Hello(r.ctx, r.Client)
	_, replied := replyText(err)
	if shared && err != nil && !replied { // its connection may have died idle
		hello, err = r.Hello(r.ctx, r.Client)
		_, replied = replyText(err)
	}
	switch {
	case shared && err != nil && !replied && r.opening == nil:
		return fmt.Errorf("the rueidis client in Config.Client does not reach Redis: %w", err)
	case err != nil:
		return nil
	case hello["mode"] == "sentinel":
		return fmt.Errorf("%w: the server is a Sentinel, which has no locks: name the primary in Config.Redis.Sentinel.MasterSet", ErrInvalidConfig)
	case hello["mode"] != "cluster" || forced:
		return nil
	}
	look := r.Client.B().ClusterSlots().Build()
	if leading(hello["version"]) >= 8 {
		look = r.Client.B().ClusterShards().Build() // as rueidis does
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	if err = Explain(r.Client.Do(ctx, look).Error()); err != nil {
		return fmt.Errorf("the server at %v is a node of a Cluster, and does not say where the other nodes are: %w", r.options.Redis.InitAddress, err)
	}
	return nil
}

// Hello returns the reply of a node to HELLO, with its version, mode and role. HELLO needs no
// right.
func (r *Redis) Hello(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	ctx, cancel := r.Within(ctx)
	defer cancel()
	return node.Do(ctx, node.B().Hello().Build()).AsStrMap()
}

// leading returns the number that text begins with.
func leading(text string) (n int) {
	_, _ = fmt.Sscanf(text, "%d", &n)
	return n
}

// With Sentinel there are two logins.
var (
	ofServer   = login{"the server", "Config.Redis"}
	ofSentinel = login{"the Sentinel", "Config.Redis.Sentinel"}
)

// A login is a user name and a password, by the server that asks for them and the fields of the
// config that have them.
type login struct{ server, fields string }

// refused returns the error for a reply that refuses the login, or nil for any other reply.
func (l login) refused(message string) error {
	switch {
	case strings.HasPrefix(message, "NOAUTH"):
		return fmt.Errorf("%w: %s wants a password, and %s has none: %s", ErrNoPermission, l.server, l.fields, message)
	case strings.HasPrefix(message, "WRONGPASS"):
		return fmt.Errorf("%w: %s has a wrong user name or password: %s", ErrNoPermission, l.fields, message)
	}
	return nil
}

// loginOf returns the login that was refused while a client connected. rueidis does not say which
// server has refused it, so the Sentinels are asked again: if one of them accepts its login, the
// primary has refused the other.
func loginOf(o rueidis.ClientOption) login {
	if o.Sentinel.MasterSet == "" {
		return ofServer
	}
	o.Username, o.Password, o.TLSConfig = o.Sentinel.Username, o.Sentinel.Password, o.Sentinel.TLSConfig
	o.SelectDB, o.ClientName, o.ForceSingleClient, o.Sentinel = 0, "", true, rueidis.SentinelOption{}
	found := ofServer
	for _, address := range o.InitAddress {
		one := new(connections).wrapDials(o)
		one.InitAddress = []string{address}
		sentinel, err := rueidis.NewClient(one)
		if err == nil {
			sentinel.Close()
			return ofServer
		}
		if errors.Is(Explain(err), ErrNoPermission) {
			found = ofSentinel
		}
	}
	return found
}

// runID asks the server of a client for its run id. It returns "" if the server does not say.
func runID(ctx context.Context, client rueidis.Client) (string, error) {
	return readRunID(client.Do(ctx, client.B().Info().Section("server").Build()))
}

// readRunID returns the run id in a reply to INFO, or "".
func readRunID(reply rueidis.RedisResult) (string, error) {
	info, err := reply.ToString()
	if err != nil {
		return "", err
	}
	return infoField(info, "run_id"), nil
}

// infoField returns the value of a field in a reply to INFO, "" if there is none.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ServerProcess returns the run id of the server, which changes with a restart or a failover; "" if
// the server does not say. It returns an error in a Cluster, which has many.
func (r *Redis) ServerProcess() (string, error) {
	if err := r.Ready(r.ctx, nil); err != nil {
		return "", err
	}
	if r.InCluster() {
		return "", fmt.Errorf("%w: a Cluster has no run id", ErrUnsupported)
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	id, err := runID(ctx, r.Client)
	return id, Explain(err)
}

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

// An opening is the attempts of a client that was made by [OpenLater] to connect. Until open is
// set, only its goroutine may use the fields of a Redis that depend on the server: the client of
// rueidis, its mode, the family of pub/sub. So commands are sent after [Redis.Ready], and InCluster
// and connected return false before.
type opening struct {
	open    atomic.Bool            // set once these fields are set
	failed  atomic.Pointer[absent] // the error of the last attempt
	tried   chan struct{}          // closed after the first attempt
	settled chan struct{}          // closed once the client is connected
	ended   chan struct{}          // closed after the last attempt
}

// An absent is the error of a client without a connection to the server, or without one that can be
// used. No command for a lock was sent.
type absent struct {
	diagnosis Diagnosis
	err       error
}

func (a *absent) Error() string { return a.err.Error() }
func (a *absent) Unwrap() error { return a.err }

// MayOpen reports whether [Open] may succeed later, by its error.
func MayOpen(err error) bool {
	a := (*absent)(nil)
	return errors.As(err, &a) && a.diagnosis != Never
}

// refusal returns the error of a server that the client cannot use. Waiting does not cure a missing
// feature, a wrong config or a missing right.
func refusal(err error) *absent {
	d := NotNow
	if errors.Is(err, ErrInvalidConfig) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrNoPermission) {
		d = Never
	}
	return &absent{d, err}
}

// The first and the longest pause between two attempts to open a client.
const firstOpenPause, lastOpenPause = FirstRetry, time.Second

// OpenLater returns the Redis of a client with that id that is not connected before
// [Redis.Connect].
func OpenLater(o Options, id string) *Redis {
	r := newRedis(o, id)
	r.opening = &opening{tried: make(chan struct{}), settled: make(chan struct{}), ended: make(chan struct{})}
	r.Nodes = newNodes(r)
	return r
}

// Connect connects a Redis that [OpenLater] returned, in a goroutine that Close waits for. It calls
// told with the error of each attempt; with nil once it has succeeded, before any command is sent.
// For any other Redis it does nothing.
func (r *Redis) Connect(told func(error)) {
	o := r.opening
	if o == nil {
		return
	}
	if !r.background.startWork(func() { r.keepOpening(told) }) {
		close(o.ended)
	}
}

func (r *Redis) keepOpening(told func(error)) {
	o := r.opening
	defer close(o.ended)
	for pause := firstOpenPause; ; pause = min(2*pause, lastOpenPause) {
		options := r.options
		options.Redis.DialCtxFn = r.stoppable(dialOf(options.Redis))
		err := r.openClient(options)
		if err == nil {
			told(nil)
			o.open.Store(true)
			close(o.settled)
			r.Nodes.Refresh(time.Now(), false)
		} else {
			o.failed.Store(err)
		}
		select {
		case <-o.tried:
		default:
			close(o.tried)
		}
		if err == nil {
			return
		}
		told(err)
		select {
		case <-time.After(Jitter(pause)):
		case <-r.ctx.Done():
			return
		}
	}
}

// stoppable returns dial as a function that ends when the client closes.
func (r *Redis) stoppable(dial dialFunc) dialFunc {
	return func(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(r.ctx, cancel)()
		return dial(ctx, address, dialer, config)
	}
}

// hasConnected reports whether the client has been connected.
func (r *Redis) hasConnected() bool { return r.opening == nil || r.opening.open.Load() }

// IsLazy reports whether the client was made by [OpenLater].
func (r *Redis) IsLazy() bool { return r.opening != nil }

// Ready returns an error if no command about the keys can be sent; k may be nil. It waits for the
// first attempt to connect, or until ctx ends. Keys that were made before the mode of the server
// was known may be impossible in a Cluster.
func (r *Redis) Ready(ctx context.Context, k *Keys) error {
	switch o := r.opening; {
	case o == nil:
		return nil
	case o.open.Load():
		if k != nil && k.torn && r.cluster {
			return &absent{Never, k.tornError()}
		}
		return nil
	default:
		select {
		case <-o.tried:
		case <-ctx.Done():
		}
	}
	switch failed := r.opening.failed.Load(); {
	case r.hasConnected():
		return r.Ready(ctx, k)
	case failed == nil:
		return &absent{NotNow, ErrNoAnswer}
	default:
		return failed
	}
}

// AwaitConnection is Ready for commands that only read. It waits until the client is connected, for
// Patience at most.
func (r *Redis) AwaitConnection(ctx context.Context, k *Keys) error {
	if r.opening == nil {
		return nil
	}
	within, cancel := r.Within(ctx)
	defer cancel()
	for retry := FirstRetry; ; retry = min(2*retry, LastRetry) {
		err := r.Ready(within, k)
		switch {
		case err == nil || !MayOpen(err):
			return err
		case r.Stopped():
			return ErrClosed
		case ctx.Err() != nil:
			return TimeUp(ctx, err)
		case within.Err() != nil:
			return err
		}
		select {
		case <-r.opening.settled:
		case <-time.After(retry): // another attempt may have found that the server cannot be used
		case <-within.Done():
		case <-r.Done():
		}
	}
}

// HashSlot returns the slot of a key in a Cluster: CRC-16 (XMODEM) of its tag, by the Cluster
// specification. rueidis' builder computes the same, but a lazy client has none before it connects.
func HashSlot(key string) (slot uint16) {
	tag := tagOf(key)
	for i := range len(tag) {
		slot ^= uint16(tag[i]) << 8
		for range 8 {
			high := slot & 0x8000
			if slot <<= 1; high != 0 {
				slot ^= 0x1021
			}
		}
	}
	return slot % slots
}

// leastPatience is the patience of a client with rlock's default timeouts.
const leastPatience = 3 * time.Second

// patienceOf returns the time after which the outcome of a command counts as unknown. It is a
// little longer than the time after which rueidis ends a silent connection, whose error says more.
func patienceOf(o rueidis.ClientOption) time.Duration {
	return max(leastPatience, o.ConnWriteTimeout+time.Second)
}

// freshness is the time for which a deadline returns the same context.
const freshness = time.Second

// A deadline makes contexts that end after its patience, or up to freshness later, for commands
// that must not end with their caller's context. Many commands share a context, since a timer for
// each would cost more than the rest of an Unlock.
type deadline struct {
	patience time.Duration

	mu     sync.Mutex // guards the fields below
	ctx    context.Context
	cancel context.CancelFunc
	fresh  time.Time // the end of the time for which ctx is returned
	closed bool      // all contexts have ended
}

func (d *deadline) context(now time.Time) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || !d.closed && now.After(d.fresh) {
		// The former context is left to its timer, since commands may use it.
		d.fresh = now.Add(freshness)
		d.ctx, d.cancel = context.WithDeadline(context.Background(), d.fresh.Add(d.patience))
		if d.closed {
			d.cancel()
		}
	}
	return d.ctx
}

// stop ends the last context, and all that are returned from now on.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.cancel != nil {
		d.cancel()
	}
}

// FirstRetry and LastRetry are the first and the longest pause before a retry.
const FirstRetry, LastRetry = 10 * time.Millisecond, 500 * time.Millisecond

// Jitter returns a random time between half of d and d, so that waiters that failed together do not
// come back together.
func Jitter(d time.Duration) time.Duration {
	if d <= 1 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// Milliseconds converts ms. A lease of another program may be longer than any Duration: then it
// returns the longest.
func Milliseconds(ms int64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// TimeUp returns the error of a wait that ctx has ended, with last, the last error of Redis, if
// that is not nil.
func TimeUp(ctx context.Context, last error) error {
	if last == nil {
		return Over(ctx)
	}
	return fmt.Errorf("%w; last error: %w", Over(ctx), last)
}

// Over returns the error of ctx, with its cause if that is another error, as for the context of a
// hold that was lost. It returns nil if ctx has not ended.
func Over(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil // context.Cause would take a mutex
	}
	if cause := context.Cause(ctx); cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
