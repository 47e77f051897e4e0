package testbed

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

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
	// ctx is the context of every call that may block: it ends after a virtual day.
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

// BubbleAlone is bubble for tests that look at state of the whole process, such as the number
// of goroutines, and for several bubbles one after the other.
func BubbleAlone(t *testing.T, run func(t *testing.T, w *World)) {
	t.Helper()
	redistest.WithoutServer(t)
	redistest.Guard(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
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
// track keys, which would refuse: so a test can count commands. See tracking_test.go.
func NewTestClient(t *testing.T, dial func() (net.Conn, error), changes ...func(*rlock.Config)) *Client {
	t.Helper()
	p := &Client{Net: network.New(dial), log: &Journal{}}
	p.Net.Record()
	config := rlock.Config{
		Redis: rueidis.ClientOption{
			InitAddress:       []string{"127.0.0.1:6379"},
			ForceSingleClient: true,
			DialCtxFn:         p.Net.Dial,
			// Most clients of a test send few commands: by default their buffers take longer to make.
			RingScaleEachConn:   8,
			ReadBufferEachConn:  16 << 10,
			WriteBufferEachConn: 16 << 10,
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
	me := w.Caller()
	ok, err := lock.TryLock(me)
	require.NoError(w.T, err)
	if ok {
		require.NoError(w.T, lock.Unlock(me))
	}
	return ok
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

// Unserved is logged of calls that wait while Redis refuses them, maybe for good: it is a
// replica, or full.
const Unserved = "rlock: Redis does not serve the calls for a lock, which go on trying"

// Listens takes the client's first lock, and waits until the client is subscribed to its own
// channel.
func (p *Client) Listens(w *World) {
	w.T.Helper()
	channel := "rlock_grants:client:" + p.ID()
	h, err := p.NewLock("first of " + p.ID()).Acquire(w.Ctx)
	require.NoError(w.T, err)
	w.Eventually(func() bool { return w.PubSubNumSub(channel)[channel] == 1 }, "the client is subscribed to its own channel")
	synctest.Wait()
	require.NoError(w.T, h.Release(w.Ctx))
}
