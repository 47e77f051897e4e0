package rlock_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/driver"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The suite is every test that begins with everywhere: it tests the lock on the embedded
// server, a single Redis, one behind Sentinel, and a Cluster.

// hang is the time after which a wait is taken for endless. It measures nothing.
const hang = 2 * time.Minute

// A site is a server and the test that uses it.
type site struct {
	*redistest.Server
	t       *testing.T
	ctx     context.Context  // of a wait that should end by itself
	outside rueidis.Client   // a client that sends other commands than locks
	lingers time.Duration    // Config.Linger of the clients
	each    []rueidis.Client // the same for each data node, see nodes
}

func everywhere(t *testing.T, run func(t *testing.T, s *site)) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { run(t, at(t, server)) })
}

// needsWideNumbers skips the test on the embedded server where an int has 32 bits. The
// embedded server keeps expiry times and counters in an int; a real server, and this
// library, use 64 bits on every machine.
func needsWideNumbers(t *testing.T, kind redistest.Kind) {
	t.Helper()
	if kind == redistest.KindEmbedded && strconv.IntSize == 32 {
		t.Skip("the embedded server counts with 32 bits here")
	}
}

// at makes a site of the server. The test must leave no key behind once its clients are
// closed.
func at(t *testing.T, server *redistest.Server) *site {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	s := &site{Server: server, t: t, ctx: ctx, outside: server.Client(t)}
	t.Cleanup(func() {
		var left int64
		assert.Eventually(t, func() bool { // the primary may have changed
			var err error
			left, err = s.do("EXISTS", key).AsInt64()
			return err == nil
		}, hang, 10*time.Millisecond)
		assert.Zero(t, left, "a key is left behind")
	})
	return s
}

// in returns the site for a sub-test.
func (s *site) in(t *testing.T) *site {
	part := *s
	part.t = t
	return &part
}

// patient gives a running server all the time that it may need on a busy machine. Clients
// that have to notice a silent server keep the usual time.
func patient(o rueidis.ClientOption) rueidis.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = hang, hang
	return o
}

// client returns a new client of the server, closed when the test ends.
func (s *site) client(changes ...func(*rlock.Config)) *rlock.Client {
	s.t.Helper()
	config := rlock.Config{Redis: patient(s.Options()), Logger: slog.New(slog.DiscardHandler), Linger: s.lingers}
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { assert.NoError(s.t, client.Close()) })
	if s.lingers > 0 { // from the first lock on the client can be called
		hold, err := client.NewLock("first of "+client.ID()).Acquire(s.ctx, rlock.WithLinger(0))
		require.NoError(s.t, err)
		s.awaitListeners(1, plain, ownChannels+client.ID())
		require.NoError(s.t, hold.Release(s.ctx))
	}
	return client
}

// lock returns the lock of that name, of a client of its own.
func (s *site) lock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.t.Helper()
	return s.client(changes...).NewLock(key)
}

func withLease(lease time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Lease = lease }
}

// do sends a command from outside. The first argument after the command's name
// must be a key.
func (s *site) do(command, name string, args ...string) rueidis.RedisResult {
	return s.outside.Do(s.ctx, s.outside.B().Arbitrary(command).Keys(name).Args(args...).Build())
}

// number is do for a command that answers with a number.
func (s *site) number(command, name string, args ...string) int64 {
	s.t.Helper()
	n, err := s.do(command, name, args...).AsInt64()
	require.NoError(s.t, err, command)
	return n
}

// admin sends a command that has no key.
func (s *site) admin(command string, args ...string) {
	s.t.Helper()
	require.NoError(s.t, s.outside.Do(s.ctx, s.outside.B().Arbitrary(command).Args(args...).Build()).Error(), command)
}

// set makes another owner the holder of the lock: a dead client, or a Java service.
func (s *site) set(name, owner string, lease time.Duration) {
	s.t.Helper()
	s.number("HSET", name, owner, "1")
	s.number("PEXPIRE", name, fmt.Sprint(lease.Milliseconds()))
}

// A family is a family of pub/sub commands.
type family struct{ subscribe, publish, count string }

var (
	plain   = family{"SUBSCRIBE", "PUBLISH", "NUMSUB"}
	sharded = family{"SSUBSCRIBE", "SPUBLISH", "SHARDNUMSUB"}
)

// family returns Redisson's default for such a server.
func (s *site) family() family {
	if s.Kind == redistest.KindCluster && s.HasShardedPubSub() {
		return sharded
	}
	return plain
}

// nodes returns a client for each data node, replicas as well: rueidis has plain
// subscriptions anywhere.
func (s *site) nodes() []rueidis.Client {
	if s.each == nil {
		for _, node := range s.Nodes() {
			s.each = append(s.each, node.Client(s.t))
		}
	}
	return s.each
}

// awaitWaiters returns when n clients wait for the lock of that name.
func (s *site) awaitWaiters(n int64, name string) {
	s.t.Helper()
	queue := "rlock_queue:{" + name + "}"
	require.Eventually(s.t, func() bool {
		waiting := int64(0)
		for _, layout := range []string{"", "rw"} {
			members, err := s.do("ZRANGE", queue+layout, "0", "-1").AsStrSlice()
			if err != nil {
				return false
			}
			for _, member := range members { // without marks, and turns of foreign clients
				if member[0] != '!' && member != "?" {
					waiting++
				}
			}
		}
		return waiting == n
	}, hang, time.Millisecond)
}

// awaitListeners returns when n connections are subscribed to the channel.
func (s *site) awaitListeners(n int64, f family, channel string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var sum int64
		for _, node := range s.nodes() {
			reply, err := node.Do(s.ctx, node.B().Arbitrary("PUBSUB", f.count, channel).Build()).AsIntMap()
			if err != nil {
				return false
			}
			sum += reply[channel]
		}
		return sum == n
	}, hang, time.Millisecond)
}

// elsewhere runs f in a goroutine of its own, which is another owner than the test's, and
// returns when f has returned.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// isFree reports whether another owner, in the lock's own client, gets it.
func (s *site) isFree(lock locker) (free bool) {
	s.t.Helper()
	elsewhere(func() {
		var err error
		if s.lingers > 0 { // the holder has to be called, which TryLock gives little time
			free, err = lock.TryLockFor(s.ctx, 300*time.Millisecond, 0)
		} else {
			free, err = lock.TryLock(s.ctx)
		}
		assert.NoError(s.t, err)
		if free {
			assert.NoError(s.t, lock.Unlock(s.ctx))
		}
	})
	return free
}

// background runs f in a goroutine of its own and returns the channel of its result.
func background(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

// await returns the result of background.
func (s *site) await(result <-chan error) error {
	s.t.Helper()
	select {
	case err := <-result:
		return err
	case <-s.ctx.Done():
		require.FailNow(s.t, "the wait does not end")
		return nil
	}
}

// queueing returns a context like ctx, and a channel that is closed when a Lock with this
// context begins to wait: by then it is in its client's queue.
func queueing(ctx context.Context) (context.Context, <-chan struct{}) {
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

// long selects the long form of tests, which measures more.
var long = flag.Bool("long", false, "run the tests that have a longer form in that form")

// atOnce is the number of parallel tests, unless the flag is given: more than there may be
// processors, since tests mostly wait for a server to start, a failure to be noticed or a
// lease to end.
const atOnce = "6"

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", atOnce); err != nil { // before the command line is parsed
		panic(err)
	}
	flag.Parse()
	driver.CheckRules(flag.Lookup("test.bench").Value.String() == "") // they cost more than an uncontended pair
	debug.SetGCPercent(400)                                           // much of the work in virtual time is garbage of miniredis and of its scripts
	redistest.Main(m, aFailedHandshake)
}

// aFailedHandshake is the goroutine that rueidis 1.0.79 sometimes leaves behind when the
// server resets the connection during its handshake.
var aFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")

// key is the name of the lock in tests that need only one, channel its channel.
const (
	key     = "orders:42"
	channel = "redisson_lock__channel:{orders:42}"
)

// A world is an embedded server with its clock, in a bubble of virtual time.
type world struct {
	*miniredis.Miniredis
	redis *inmemory.Server // the server around Miniredis
	t     *testing.T
	// ctx is the context of every call that may block: it ends after a virtual day, so that a
	// hang fails at once. In a bubble with a ticker synctest does not find a deadlock.
	ctx context.Context
}

// A testClient is a client with a network and a log of its own.
type testClient struct {
	*rlock.Client
	net *network.Network
	log *journal
}

// logged returns how many lines of its log contain the text, once all that happens at this
// moment has: the Logger is called in a goroutine of the client's.
func (p *testClient) logged(text string) int {
	synctest.Wait()
	return p.log.count(text)
}

// bubble runs a test in virtual time, in parallel with other tests, which have clocks of
// their own.
func bubble(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	bubbleAlone(t, run)
}

// bubbleAlone is bubble for tests that look at state of the whole process, such as the number
// of goroutines, and for several bubbles one after the other.
func bubbleAlone(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	redistest.WithoutServer(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		t.Cleanup(cancel)
		run(t, newWorld(t, ctx))
	})
}

func newWorld(t *testing.T, ctx context.Context) *world {
	redis := inmemory.New()
	t.Cleanup(redis.Close)
	return &world{Miniredis: redis.Miniredis(), redis: redis, t: t, ctx: ctx}
}

// Dial opens a connection to the server.
func (w *world) Dial() (net.Conn, error) { return w.redis.Dial() }

// client returns a new client of the world's server. The changes are made to its
// config before it connects.
func (w *world) client(changes ...func(*rlock.Config)) *testClient {
	w.t.Helper()
	return newTestClient(w.t, w.Dial, changes...)
}

// newTestClient returns a client of the server that dial connects to. It does not ask the server to
// track keys, which would refuse: so a test can count commands. See tracking_test.go.
func newTestClient(t *testing.T, dial func() (net.Conn, error), changes ...func(*rlock.Config)) *testClient {
	t.Helper()
	p := &testClient{net: network.New(dial), log: &journal{}}
	p.net.Record()
	config := rlock.Config{
		Redis: rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:6379"},
			ForceSingleClient: true,
			DialCtxFn:         p.net.Dial,
			// Most clients of a test send few commands: by default their buffers take longer to make.
			RingScaleEachConn:   8,
			ReadBufferEachConn:  16 << 10,
			WriteBufferEachConn: 16 << 10,
		},
		TrackedKeys: -1,
		Logger:      slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, change := range changes {
		change(&config)
	}
	var err error
	p.Client, err = rlock.New(config)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Client.Close() // a test that needs the error closes it before
		p.net.Close()
	})
	return p
}

// outsider returns a connection to the server for commands that no lock client sends.
func (w *world) outsider() rueidis.Client {
	client, err := rueidis.NewClient(w.redis.Options())
	require.NoError(w.t, err)
	w.t.Cleanup(client.Close)
	return client
}

// ownChannels begins the names of the channels on which clients are told of their tenures.
// Each client that has held a lock is subscribed to its own.
const ownChannels = "rlock_turn:client:"

// lockChannels returns the channels of locks that have subscribers.
func lockChannels(redis *miniredis.Miniredis) []string {
	return ofLocks(redis.PubSubChannels("*"))
}

// ofLocks leaves out the clients' own channels.
func ofLocks(channels []string) []string {
	return slices.DeleteFunc(channels, func(name string) bool { return strings.HasPrefix(name, ownChannels) })
}

// subscribed returns the channels of locks that the client has subscribed to.
func (p *testClient) subscribed() (channels []string) {
	for _, f := range p.net.Sent("SUBSCRIBE") {
		channels = append(channels, f.Args[1:]...)
	}
	return ofLocks(channels)
}

// caller returns a context in the name of a new owner.
func (w *world) caller() context.Context {
	return rlock.WithOwner(w.ctx, rlock.NewOwner())
}

// ttl returns the remaining time of the key in Redis: 0 if there is no key.
func (w *world) ttl(key string) time.Duration {
	if !w.Exists(key) {
		return 0
	}
	return w.TTL(key)
}

// answer makes the server answer a command, whose name is in lower case, with the error that
// reply returns, if any.
func (w *world) answer(reply func(command string, args ...string) string) { w.redis.Refuse(reply) }

// answerScripts answers every script with an error; "" executes them again.
func (w *world) answerScripts(text string) {
	w.answer(func(command string, _ ...string) string {
		if strings.HasPrefix(command, "eval") {
			return text
		}
		return ""
	})
}

// fields returns the owners that the lock's hash shows.
func (w *world) fields(key string) []string {
	if holders, err := w.ZMembers(key); err == nil {
		return holders // of a semaphore
	}
	fields, err := w.HKeys(key)
	if err != nil {
		return nil
	}
	return fields
}

// mirrors returns the mirrors that reached the server so far.
func (p *testClient) mirrors() (sent []network.Frame) {
	for _, f := range p.net.Sent("") {
		if isScript(f, "mirrored") {
			sent = append(sent, f)
		}
	}
	return sent
}

// releases returns the releases that reached the server so far.
func (p *testClient) releases() (sent []network.Frame) {
	for _, f := range p.net.Sent("") {
		if isScript(f, "released") {
			sent = append(sent, f)
		}
	}
	return sent
}

// acquires returns the acquires that reached the server so far.
func (p *testClient) acquires() (sent []network.Frame) {
	for _, f := range p.net.Sent("") {
		if isScript(f, "acquired") {
			sent = append(sent, f)
		}
	}
	return sent
}

// isScript reports whether the frame calls the acquire, mirror or release script of any kind
// of lock.
func isScript(f network.Frame, kind string) bool {
	if !f.Is("EVALSHA") && !f.Is("EVAL") || len(f.Args) < 2 {
		return false
	}
	file := scriptOf(f)
	if file == "step" {
		leave, _ := membersOf(f)
		return kind == "released" && leave > 0 || kind == "acquired" && leave == 0
	}
	return file != "" && strings.HasSuffix(file, map[string]string{
		"acquired": "acquire", "mirrored": "mirror", "released": "release",
	}[kind])
}

// scriptOf returns the name of the script that the frame calls, "step" for a step of the
// queue.
func scriptOf(f network.Frame) string {
	sha := f.Args[1]
	if f.Is("EVAL") {
		sha = fmt.Sprintf("%x", sha1.Sum([]byte(sha)))
	}
	return scriptFiles[sha]
}

// membersOf returns how many tickets leave by a step, and how many join: ARGV[4] and
// ARGV[5] of queue.lua, if the step is more than a release.
func membersOf(f network.Frame) (leave, join int) {
	keys, _ := strconv.Atoi(f.Args[2])
	argv := f.Args[3+keys:]
	if len(argv) < 5 {
		return 1, 0
	}
	leave, _ = strconv.Atoi(argv[3])
	join, _ = strconv.Atoi(argv[4])
	return leave, join
}

// scriptFiles maps the hash of each script to its name.
var scriptFiles = map[string]string{
	wire.Acquire.Hash(): "acquire", wire.ReadWriteAcquire.Hash(): "rw_acquire", wire.SemaphoreAcquire.Hash(): "semaphore_acquire",
	wire.Mirror.Hash(): "mirror", wire.ReadWriteMirror.Hash(): "rw_mirror", wire.SemaphoreMirror.Hash(): "semaphore_mirror",
	wire.Resume.Hash(): "resume", wire.SemaphoreResume.Hash(): "semaphore_resume",
	wire.PlainStep.Hash(): "step", wire.ReadWriteStep.Hash(): "step",
}

// scripts is a rule for the replies, or the requests, of one kind of script.
func scripts(n int, fate network.Fate, stage network.Stage, kind string) network.Rule {
	return func(f network.Frame) network.Fate {
		if f.Stage != stage || !isScript(f, kind) {
			return network.Pass
		}
		if n--; n != 0 {
			return network.Pass
		}
		return fate
	}
}

// start runs a call in a goroutine of its own and returns the channel of its result.
func start(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// pending reports whether a call has no result once every goroutine of the bubble waits.
func pending(result <-chan error) bool {
	synctest.Wait()
	return len(result) == 0
}

// eventually lets the bubble's clock advance until the condition is met.
func (w *world) eventually(met func() bool, message string) {
	w.t.Helper()
	for begin := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Hour {
			require.FailNow(w.t, "the condition was never met: "+message)
		}
	}
}

// within asserts how long a call took in virtual time.
func within(t *testing.T, atLeast, atMost time.Duration, call func()) {
	t.Helper()
	begin := time.Now()
	call()
	assert.GreaterOrEqual(t, time.Since(begin), atLeast)
	assert.LessOrEqual(t, time.Since(begin), atMost)
}

// quiet discards the log.
var quiet = slog.New(slog.DiscardHandler)

// A journal is a log that may be written and read concurrently.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// count returns how many lines contain the text.
func (j *journal) count(text string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}
