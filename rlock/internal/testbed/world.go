package testbed

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// WithPrefix sets Config.Prefix.
func WithPrefix(prefix string) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Prefix = prefix }
}

// Main is the TestMain of each package of tests. It adds the flags of this package, and fails if a
// goroutine is left.
func Main(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // before the command line is parsed
		panic(err)
	}
	flag.Parse()
	driver.CheckRules(flag.Lookup("test.bench").Value.String() == "") // with -tags invariants; they cost more than an uncontended pair
	debug.SetGCPercent(400)                                           // much of the work in virtual time is garbage of miniredis and of its scripts
	redistest.Main(m, AFailedHandshake)
}

// Long selects the long form of tests, which measures more.
var Long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is the number of parallel tests, unless the flag is given: more than there may be
// processors, since tests mostly wait for a server to start, a failure to be noticed or a
// lease to end.
const atOnce = "6"

// The suite is every test that begins with Everywhere: it tests the lock on the embedded server, a
// single Redis, a Redis behind Sentinel, and a Cluster.

// Hang is the time after which a wait is taken for endless.
var Hang = redistest.Hang

// Key is the name of the lock in tests that need only one, and Channel its channel.
const (
	Key     = "orders:42"
	Channel = "redisson_lock__channel:{orders:42}"
)

// Quiet discards the log.
var Quiet = slog.New(slog.DiscardHandler)

// A Journal is a log that may be written and read concurrently.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// Count returns how many lines contain the text.
func (j *Journal) Count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Start runs a call in a goroutine of its own and returns the channel of its result.
func Start(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// Pending reports whether a call has no result once every goroutine of the bubble waits.
func Pending(result <-chan error) bool {
	synctest.Wait()
	return len(result) == 0
}

// Waits starts a call that has to wait.
func Waits(t *testing.T, call func() error) <-chan error {
	t.Helper()
	result := Start(call)
	require.True(t, Pending(result))
	return result
}

// Within asserts how long a call took in virtual time.
func Within(t *testing.T, atLeast, atMost time.Duration, call func()) {
	t.Helper()
	begin := time.Now()
	call()
	assert.GreaterOrEqual(t, time.Since(begin), atLeast)
	assert.LessOrEqual(t, time.Since(begin), atMost)
}

// Elsewhere runs f in a goroutine of its own, which is another owner than the test's, and
// returns when f has returned.
func Elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Queueing returns a context like ctx, and a channel that is closed when a Lock or an Acquire with
// this context begins to wait: by then it is in its client's queue. It is not for Do, which derives
// the context of its function, and so asks for Done, before it waits.
func Queueing(ctx context.Context) (context.Context, <-chan struct{}) {
	q := &queueingContext{Context: ctx, queued: make(chan struct{})}
	return q, q.queued
}

type queueingContext struct {
	context.Context
	once   sync.Once
	queued chan struct{}
}

func (q *queueingContext) Done() <-chan struct{} {
	q.once.Do(func() { close(q.queued) })
	return q.Context.Done()
}

func Nothing(context.Context) error { return nil }

// Thorough returns whole with -long, otherwise usual.
func Thorough[N any](whole, usual N) N {
	if *Long {
		return whole
	}
	return usual
}

// Fewer reports whether tests do less: under the race detector, which makes the embedded server
// several times slower, unless -everything is given.
func Fewer() bool { return redistest.UnderRace && !*everything && !*Long }

var everything = flag.Bool("everything", false, "run all tests under the race detector, too")

// ManyCommands skips a test that sends thousands of commands, or lasts an hour of virtual
// time, under the race detector.
func ManyCommands(t *testing.T) {
	t.Helper()
	if Fewer() {
		t.Skip("with the race detector: only with -everything")
	}
}

// A VirtualKind is a world in which one kind of lock is tested, in virtual time.
type VirtualKind struct {
	*World
	Kind   Kind
	Worlds []*World // one for each server; the world is the first
}

// EachVirtualKind runs a test in virtual time over all kinds.
func EachVirtualKind(t *testing.T, run func(t *testing.T, w *VirtualKind)) {
	t.Helper()
	for _, k := range Kinds {
		if (testing.Short() || Fewer()) && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.Name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, w *World) {
				r := &VirtualKind{World: w, Kind: k, Worlds: []*World{w}}
				for len(r.Worlds) < k.Servers {
					r.Worlds = append(r.Worlds, NewWorld(t, w.Ctx))
				}
				run(t, r)
			})
		})
	}
}

// Remaining returns the remaining time of the lock in Redis: the shortest of its keys, 0 if one of
// them is absent.
func (w *VirtualKind) Remaining() time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, world := range w.Worlds {
		for _, k := range w.Kind.KeysOf(Key) {
			left = min(left, world.Remaining(k))
		}
	}
	return left
}

// KeysLeft returns the keys of all servers, but for counters.
func (w *VirtualKind) KeysLeft() (names []string) {
	for _, world := range w.Worlds {
		names = append(names, slices.DeleteFunc(world.Keys(), IsCounter)...)
	}
	return names
}

// Forget deletes the lock of that name on every server.
func (w *VirtualKind) Forget(name string) {
	for _, world := range w.Worlds {
		for _, k := range w.Kind.KeysOf(name) {
			world.Del(k)
		}
	}
}

// A Peer is a process with a network of its own to each server.
type Peer struct {
	Process
	TestClients []*Client
}

// NewProcess returns a new Peer. The changes are made to the config of its clients.
func (w *VirtualKind) NewProcess(changes ...func(*rlock.Config)) *Peer {
	w.T.Helper()
	p := &Peer{Process: Process{kind: w.Kind}}
	for _, world := range w.Worlds {
		client := world.NewClient(changes...)
		p.TestClients = append(p.TestClients, client)
		p.Clients = append(p.Clients, client.Client)
	}
	return p
}

// Networks calls do for each network of the process.
func (p *Peer) Networks(do func(*network.Network)) {
	for _, client := range p.TestClients {
		do(client.Net)
	}
}

func (p *Peer) Refuse() { p.Networks((*network.Network).Refuse) }

func (p *Peer) Silence() { p.Networks(func(n *network.Network) { n.Rule(network.Silence) }) }

func (p *Peer) Heal() { p.Networks((*network.Network).Heal) }

// Close closes the clients.
func (p *Peer) Close() (err error) {
	for _, client := range p.Clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// Scripts returns how many scripts have reached the servers.
func (p *Peer) Scripts() (n int) {
	p.Networks(func(net *network.Network) { n += len(net.Sent("EVALSHA")) + len(net.Sent("EVAL")) })
	return n
}

// Logged returns how many lines of all logs contain the text.
func (p *Peer) Logged(text string) (n int) {
	for _, client := range p.TestClients {
		n += client.Logged(text)
	}
	return n
}

// Outages are the ways in which a client loses its server.
var Outages = map[string]func(*network.Network){
	"cut":    (*network.Network).Refuse,
	"silent": func(n *network.Network) { n.Rule(network.Silence) },
}

// RefusePubSub makes the server refuse subscriptions.
func RefusePubSub(command string, _ ...string) string {
	if command == "subscribe" {
		return "NOPERM User default has no permissions to run the 'subscribe' command"
	}
	return ""
}

// A World is an embedded server with its clock, in a bubble of virtual time.
type World struct {
	*miniredis.Miniredis
	Redis *inmemory.Server // the server around Miniredis
	T     *testing.T
	// Ctx is the context of every call that may block: it ends after a virtual hour.
	Ctx context.Context
}

// A Client is a client with a network and a log of its own.
type Client struct {
	*rlock.Client
	Net *network.Network
	log *Journal
}

// ID returns the prefix of the UUIDs of the locks that the client holds.
func (p *Client) ID() string { return inspect.Of(p.Client).ID() }

// Held returns the locks that the client holds.
func (p *Client) Held() []inspect.Held { return inspect.Of(p.Client).Held() }

// Stats returns figures about the client.
func (p *Client) Stats() inspect.Stats { return inspect.Of(p.Client).Stats() }

// AFailedHandshake is the goroutine that rueidis 1.0.79 sometimes leaves behind when the
// server resets the connection during its handshake.
var AFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")

// Bubble runs a test in virtual time, in parallel with other tests, which have clocks of
// their own.
func Bubble(t *testing.T, run func(t *testing.T, w *World)) {
	t.Helper()
	t.Parallel()
	BubbleAlone(t, run)
}

// BubbleAlone is Bubble for tests that look at state of the whole process, such as the number of
// goroutines, and for several bubbles one after the other.
func BubbleAlone(t *testing.T, run func(t *testing.T, w *World)) {
	t.Helper()
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		t.Cleanup(cancel)
		run(t, NewWorld(t, ctx))
	})
}

// EachBubble runs the test in a bubble for each case, whose name the sub-test has.
func EachBubble[C any](t *testing.T, cases map[string]C, run func(t *testing.T, w *World, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, w *World) { run(t, w, c) })
		})
	}
}

func NewWorld(t *testing.T, ctx context.Context) *World {
	redis := inmemory.New()
	t.Cleanup(redis.Close)
	return &World{Miniredis: redis.Miniredis(), Redis: redis, T: t, Ctx: ctx}
}

// Dial opens a connection to the server.
func (w *World) Dial() (net.Conn, error) { return w.Redis.Dial() }

// NewClient returns a new client of the world's server. The changes are made to its
// config before it connects.
func (w *World) NewClient(changes ...func(*rlock.Config)) *Client {
	w.T.Helper()
	return NewTestClient(w.T, w.Dial, changes...)
}

// NewTestClient returns a client of the server that dial connects to. It does not ask the server to
// track keys, which would refuse: so a test can count commands. See losses/tracking_test.go.
func NewTestClient(t *testing.T, dial func() (net.Conn, error), changes ...func(*rlock.Config)) *Client {
	t.Helper()
	p := &Client{Net: network.New(dial), log: &Journal{}}
	p.Net.Record()
	config := rlock.Config{
		Redis: rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:6379"},
			ForceSingleClient: true,
			DialCtxFn:         p.Net.Dial,
			// Most clients of a test send few commands: by default their buffers take longer to
			// make.
			RingScaleEachConn:   8,
			ReadBufferEachConn:  16 << 10,
			WriteBufferEachConn: 16 << 10,
			// rueidis ends idle connections under the mutex of their pool, and waits for a second if the
			// server is silent. Virtual time stops as soon as a goroutine waits for that mutex.
			BlockingPoolCleanup: 24 * time.Hour,
		},
		Advanced: rlock.Advanced{TrackedKeys: -1},
		Logger:   slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, change := range changes {
		change(&config)
	}
	var err error
	p.Client, err = rlock.New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Client.Close() // a test that needs the error closes it before
		p.Net.Close()
	})
	return p
}

// Outsider returns a connection to the server for commands that no lock client sends.
func (w *World) Outsider() rueidis.Client {
	client, err := rueidis.NewClient(w.Redis.Options())
	require.NoError(w.T, err)
	w.T.Cleanup(client.Close)
	return client
}

// Caller returns a context in the name of a new owner.
func (w *World) Caller() context.Context {
	return rlock.WithOwner(w.Ctx, rlock.NewOwner())
}

// Remaining returns the remaining time of the key in Redis: 0 if there is no key.
func (w *World) Remaining(key string) time.Duration {
	if !w.Exists(key) {
		return 0
	}
	return w.TTL(key)
}

// Fields returns the owners that the lock's hash shows.
func (w *World) Fields(key string) []string {
	if holders, err := w.ZMembers(key); err == nil {
		return holders // of a semaphore
	}
	fields, err := w.HKeys(key)
	if err != nil {
		return nil
	}
	return fields
}

// Answer makes the server answer a command, whose name is in lower case, with the error that
// reply returns, if any.
func (w *World) Answer(reply func(command string, args ...string) string) { w.Redis.Refuse(reply) }

// AnswerScripts answers every script with an error; "" executes them again.
func (w *World) AnswerScripts(text string) {
	w.Answer(func(command string, _ ...string) string {
		if strings.HasPrefix(command, "eval") {
			return text
		}
		return ""
	})
}

// Eventually lets the bubble's clock advance until the condition is met.
func (w *World) Eventually(met func() bool, message string) {
	w.T.Helper()
	for begin := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 10*time.Minute {
			require.FailNow(w.T, "the condition was never met: "+message)
		}
	}
}

// Logged returns how many lines of its log contain the text, once all that happens at this
// moment has: the Logger is called in a goroutine of the client's.
func (p *Client) Logged(text string) int {
	synctest.Wait()
	return p.log.Count(text)
}

// OwnChannels begins the names of the channels on which clients are told of their tenures.
// Each client that has held a lock is subscribed to its own.
const OwnChannels = "rlock_grants:client:"

// LockChannels returns the channels of locks that have subscribers.
func LockChannels(redis *miniredis.Miniredis) []string {
	return OfLocks(redis.PubSubChannels("*"))
}

// OfLocks leaves out the clients' own channels.
func OfLocks(channels []string) []string {
	return slices.DeleteFunc(channels, func(name string) bool { return strings.HasPrefix(name, OwnChannels) })
}

// IsFree reports whether another owner gets the lock now; it releases the lock.
func (w *World) IsFree(lock Locker) bool {
	w.T.Helper()
	return isFree(w.T, w.Ctx, lock)
}

// Passing are the errors of a server that may recover.
var Passing = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"CLUSTERDOWN The cluster is down",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"ERR max number of clients reached",
	"ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.",
}

// Unserved is logged for calls that wait while Redis refuses them, maybe for good: Redis is a
// replica, or full.
const Unserved = "rlock: Redis does not serve the calls for a lock, which go on trying"
