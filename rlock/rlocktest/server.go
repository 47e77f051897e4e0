package rlocktest

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// pingTime is the time after which clients ping an idle connection. By default it is a second, and
// in a bubble a day then takes 86 400 pings a connection.
const pingTime = 30 * time.Second

// connectTime is the timeout of a connection: on a busy machine, and outside of a bubble, the two
// seconds of a client are not enough.
const connectTime = 30 * time.Second

// A Server is a Redis in memory, for the clients of one test. Make one with [NewServer]. Its
// methods may be called concurrently, and all but Client from any goroutine of the test, since they
// report errors by t.Errorf.
type Server struct {
	t     testing.TB
	redis *inmemory.Server
	log   *testLog
	guard *time.Timer // ends a test that hangs

	mu      sync.Mutex // guards the fields below
	made    int        // the number of clients made
	clients []*member
}

// A member is a client with a network of its own.
type member struct {
	*rlock.Client
	number  int // the number of the client from 1, for messages
	network *network.Network
	dead    bool // killed; the server's mutex protects it
}

// New returns a client of a server of its own: NewServer(t).Client(changes...).
func New(t testing.TB, changes ...func(*rlock.Config)) *rlock.Client {
	t.Helper()
	return NewServer(t).Client(changes...)
}

// NewServer returns an empty server. It ends with the test. In a testing/synctest bubble call it,
// and use it, inside the bubble: leases then end in virtual time.
//
// A test that lasts longer than an hour panics, and shows its locks and goroutines: see
// [Server.HangAfter]. The time of a bubble goes on as long as a client renews or waits, so that
// synctest does not report a test that hangs as deadlocked.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, redis: inmemory.New(), log: &testLog{t: t}}
	began := time.Now()
	s.guard = time.AfterFunc(hangTime, func() { s.hangs(began) })
	t.Cleanup(func() {
		s.guard.Stop()
		s.redis.Close()
		s.log.close()
	})
	return s
}

// Client returns a new client of the server, which is closed at the end of the test. It reaches the
// server by a network of its own, which can fail alone. Each change is made to the client's config
// before it connects:
//
//	server.Client(func(c *rlock.Config) { c.Lease = time.Second })
//
// The client logs to the test's log, unless a change sets another Logger. At the end of the test
// all faults end, and the client releases its locks.
//
// If the client cannot be made the test fails at once, by t.Fatalf: call Client from the goroutine
// of the test.
func (s *Server) Client(changes ...func(*rlock.Config)) *rlock.Client {
	s.t.Helper()
	m := &member{network: network.New(s.redis.Dial)}
	s.mu.Lock()
	s.made++
	m.number = s.made
	s.mu.Unlock()
	config := rlock.Config{
		Redis:    s.Options(),
		Logger:   slog.New(slog.NewTextHandler(s.log, nil)).With("client", m.number),
		Advanced: rlock.Advanced{TrackedKeys: -1}, // the server would refuse, once for each client

		RecordSites: true,
	}
	config.Redis.DialCtxFn = m.network.Dial
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	if err != nil {
		m.network.Close()
		s.t.Fatalf("rlocktest: client %d: %v", m.number, err)
	}
	m.Client = client
	s.mu.Lock()
	s.clients = append(s.clients, m)
	s.mu.Unlock()
	s.t.Cleanup(func() {
		s.redis.Refuse(nil)
		m.network.Heal() // a client that is cut off would wait for seconds until it is closed
		_ = client.Close()
		m.network.Close()
	})
	return client
}

// Options says how to connect with the server, for code that makes its rlock.Client itself
// ([rlock.Config].Redis), or uses a rueidis client. Cut, Silence and Kill do not reach these
// connections. Close the client before the test ends.
func (s *Server) Options() rueidis.ClientOption {
	option := s.redis.Options()
	option.Dialer.KeepAlive = pingTime
	option.Dialer.Timeout = connectTime
	return option
}

// Miniredis returns the server itself, to look at other data of the program in the same Redis, or
// to connect another library: by a dialer that calls its Dial, since it has no port. Outside of a
// bubble call it anew for each use, since the call sets the clock of the server.
//
// Its FastForward, Del and the like tell the clients nothing: a holder notices when it renews next,
// after up to a third of Config.Lease, which by default is ten seconds. See [Server.Lose].
func (s *Server) Miniredis() *miniredis.Miniredis { return s.redis.Miniredis() }

// A testLog writes lines to the log of a test until the test ends. A line after that would panic: a
// client that is closed waits for its Logger for a second at most.
type testLog struct {
	t testing.TB

	mu     sync.Mutex // guards the fields below
	closed bool
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}
