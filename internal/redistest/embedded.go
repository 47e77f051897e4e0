package redistest

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
)

// embedded is a miniredis behind a dialer that can be told to refuse. Left to
// itself, miniredis begins anew when somebody dials after Close.
type embedded struct {
	m *miniredis.Miniredis

	gate    sync.Mutex // protects following; taken before miniredis' own mutex
	stopped bool

	clock sync.Mutex // held while miniredis' clock is set, so that it never goes back

	// mu protects following. A script's commands take it under miniredis' own
	// mutex, so nothing of miniredis is called under it.
	mu     sync.Mutex
	refuse func(command string, args ...string) string
	calls  map[string]int64
}

// Embedded returns a miniredis whose keys expire by the clock, to be reached only
// over pipes, through the DialCtxFn of [Server.Options]. It needs no
// redis-server and may be used in a testing/synctest bubble, if it was made there.
//
// It has no sharded pub/sub, no CONFIG, ROLE or CLIENT LIST, WAIT answers 0, and a
// connection that subscribes in RESP3 refuses other commands.
func Embedded(t testing.TB) *Server {
	t.Helper()
	WithoutServer(t)
	e := &embedded{m: miniredis.NewMiniRedis(), calls: make(map[string]int64)}
	e.m.ClockTTL(true) // otherwise nothing expires
	t.Cleanup(func() { e.setStopped(true) })
	return &Server{Kind: KindEmbedded, t: t, embedded: e}
}

func (e *embedded) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		// An address that needs no resolver, whose goroutines belong to no bubble.
		InitAddress:  []string{"127.0.0.1:6379"},
		DisableCache: true,
		// Miniredis answers CLUSTER SLOTS, and would be taken for a Cluster.
		ForceSingleClient: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return e.dial()
		},
	}
}

func (e *embedded) dial() (net.Conn, error) {
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.stopped {
		return nil, fmt.Errorf("redistest: dial: %w", syscall.ECONNREFUSED)
	}
	conn, err := e.m.Dial()
	if err == nil {
		e.m.Server().SetPreHook(e.before) // a server that begins anew has lost it
	}
	return conn, err
}

// before sees each command before it is executed, those of scripts as well, and
// reports whether it has answered it already.
func (e *embedded) before(peer *miniserver.Peer, command string, args ...string) bool {
	if !inScript(peer) {
		e.tick()
	}
	command = strings.ToLower(command)
	e.mu.Lock()
	e.calls[command]++
	refuse := e.refuse
	e.mu.Unlock()
	if refuse == nil {
		return false
	}
	reply := refuse(command, args...)
	if reply != "" {
		peer.WriteError(reply)
	}
	return reply != ""
}

// tick sets miniredis' clock to now. Left alone it goes on while a script runs, so that
// a key ends between two commands of the script where the process is slow; in Redis
// time stands still for a script. A script has miniredis' mutex, and this waits for it.
func (e *embedded) tick() {
	e.clock.Lock()
	defer e.clock.Unlock()
	e.m.SetTime(time.Now())
}

// inScript reports whether the peer is a script. Only miniredis' own note says so.
func inScript(peer *miniserver.Peer) bool {
	note := reflect.ValueOf(peer.Ctx)
	return note.Kind() == reflect.Pointer && note.Elem().FieldByName("nested").Bool()
}

func (e *embedded) setStopped(stopped bool) {
	e.gate.Lock()
	e.stopped = stopped
	e.gate.Unlock()
	if stopped {
		e.m.Close() // without gate: it waits for all that is under way
	}
}

func (e *embedded) snapshot() map[string]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.calls)
}

// Refuse lets an Embedded answer chosen commands with an error, as a server does
// that is loading, read-only, out of memory, or told so by an ACL. From now on
// it asks for every command, by its name in lower case, also for those of
// scripts; refuse returns the error ("READONLY You can't write ...") or "" to let
// it pass. It is called concurrently. Refuse(nil) ends it.
func (s *Server) Refuse(refuse func(command string, args ...string) string) {
	s.t.Helper()
	s.breakable("Refuse", KindEmbedded)
	s.embedded.mu.Lock()
	defer s.embedded.mu.Unlock()
	s.embedded.refuse = refuse
}

// bubbleLimit is more than any test needs, and with a watchdog's tick a second it
// is over in seconds.
const bubbleLimit = 24 * time.Hour

// Bubble runs a test with an Embedded in a testing/synctest bubble, in
// virtual time. A bubble in which some ticker goes on is never found deadlocked:
// time just flies. So when 24 virtual hours have passed, Bubble panics and
// shows all goroutines. Everything the test starts must have ended when it
// returns.
func Bubble(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	WithoutServer(t) // before the bubble, which a test cannot leave by skipping
	synctest.Test(t, func(t *testing.T) {
		guard := time.AfterFunc(bubbleLimit, func() {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			panic(fmt.Sprintf("redistest: %s hangs: %v of virtual time have passed\n\n%s", t.Name(), bubbleLimit, stacks))
		})
		defer guard.Stop()
		run(t, Embedded(t))
	})
}
