package rlock_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"fmt"
	"log/slog"
	"net"
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

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

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

// newTestClient returns a client of the server that dial connects to.
func newTestClient(t *testing.T, dial func() (net.Conn, error), changes ...func(*rlock.Config)) *testClient {
	t.Helper()
	p := &testClient{net: network.New(dial), log: &journal{}}
	p.net.Record()
	config := rlock.Config{
		Redis: rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:6379"},
			ForceSingleClient: true,
			DialCtxFn:         p.net.Dial,
		},
		Logger: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
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
