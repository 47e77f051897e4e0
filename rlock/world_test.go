package rlock_test

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
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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

// aFailedHandshake is the goroutine that rueidis 1.0.79 sometimes leaves behind when the
// server resets the connection during its handshake.
var aFailedHandshake = goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*pipe)._backgroundWrite")

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

// eventually lets the bubble's clock advance until the condition is met.
func (w *world) eventually(met func() bool, message string) {
	w.t.Helper()
	for begin := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Hour {
			require.FailNow(w.t, "the condition was never met: "+message)
		}
	}
}

// logged returns how many lines of its log contain the text, once all that happens at this
// moment has: the Logger is called in a goroutine of the client's.
func (p *testClient) logged(text string) int {
	synctest.Wait()
	return p.log.count(text)
}

// subscribed returns the channels of locks that the client has subscribed to.
func (p *testClient) subscribed() (channels []string) {
	for _, f := range p.net.Sent("SUBSCRIBE") {
		channels = append(channels, f.Args[1:]...)
	}
	return ofLocks(channels)
}

// ownChannels begins the names of the channels on which clients are told of their tenures.
// Each client that has held a lock is subscribed to its own.
const ownChannels = "rlock_grants:client:"

// lockChannels returns the channels of locks that have subscribers.
func lockChannels(redis *miniredis.Miniredis) []string {
	return ofLocks(redis.PubSubChannels("*"))
}

// ofLocks leaves out the clients' own channels.
func ofLocks(channels []string) []string {
	return slices.DeleteFunc(channels, func(name string) bool { return strings.HasPrefix(name, ownChannels) })
}

// try reports whether another owner gets the lock now; it releases the lock.
func (w *world) try(lock locker) bool {
	w.t.Helper()
	me := w.caller()
	ok, err := lock.TryLock(me)
	require.NoError(w.t, err)
	if ok {
		require.NoError(w.t, lock.Unlock(me))
	}
	return ok
}
