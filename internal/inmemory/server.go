package inmemory

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
)

// A Server is a Redis in memory. Its methods may be called concurrently.
type Server struct {
	m *miniredis.Miniredis
	// virtual is set in a bubble. There no clock needs to be set, since time stands still
	// while anything runs.
	virtual bool

	gate    sync.Mutex // guards the fields below; taken before miniredis' own mutex
	stopped bool       // by itself miniredis starts again at a connection after Close

	clock sync.Mutex // held while miniredis' clock is set, so that it never goes back

	scripts *Scripts

	// mu guards the fields below. A script's commands take it under miniredis' own
	// mutex, so nothing of miniredis is called under it.
	mu     sync.Mutex
	refuse func(command string, args ...string) string
	calls  map[string]int64
	runID  string // which INFO says, and by which clients tell processes of servers apart
	role   string // which HELLO without arguments says
}

// New returns a server that is empty and answers. Close it at the end.
func New() *Server {
	s := &Server{m: miniredis.NewMiniRedis(), runID: newRunID(), role: "master", calls: make(map[string]int64)}
	s.scripts = NewScripts(s.m)
	s.virtual = time.Now().Before(bubblesEnd)
	s.m.ClockTTL(true)
	return s
}

func newRunID() string {
	return fmt.Sprintf("%016x%016x%08x", rand.Uint64(), rand.Uint64(), rand.Uint32())
}

// bubblesEnd is later than any time in a bubble, where time begins in 2000, and earlier than
// any time outside.
var bubblesEnd = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Options returns the options of a connection to the server, and nothing else: the caller
// adds its own settings.
func (s *Server) Options() rueidis.ClientOption {
	return rueidis.ClientOption{
		// An address that needs no resolver, whose goroutines belong to no bubble.
		InitAddress: []string{"127.0.0.1:6379"},
		// Miniredis has no CLIENT TRACKING.
		DisableCache: true,
		// Miniredis answers CLUSTER SLOTS, and would be taken for a Cluster.
		ForceSingleClient: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return s.Dial()
		},
	}
}

// Dial opens a connection. It fails while the server is stopped.
func (s *Server) Dial() (net.Conn, error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.stopped {
		return nil, fmt.Errorf("inmemory: dial: %w", syscall.ECONNREFUSED)
	}
	conn, err := s.m.Dial()
	if err == nil {
		s.m.Server().SetPreHook(s.before) // a restarted server has lost it
	}
	return conn, err
}

// Miniredis returns the server itself, to look at its data and to change them. Outside of
// a bubble its clock is that of the last command, or of the last call of Miniredis.
func (s *Server) Miniredis() *miniredis.Miniredis {
	s.tick()
	return s.m
}

// before gets each command before it is executed, those of scripts as well, and reports
// whether it has answered the command already.
func (s *Server) before(peer *miniserver.Peer, command string, args ...string) bool {
	if !inScript(peer) {
		s.tick()
	}
	command = strings.ToLower(command)
	s.mu.Lock()
	s.calls[command]++
	refuse, runID, role := s.refuse, s.runID, s.role
	s.mu.Unlock()
	if refuse != nil {
		if reply := refuse(command, args...); reply != "" {
			peer.WriteError(reply)
			return true
		}
	}
	if command == "info" && len(args) == 1 && strings.EqualFold(args[0], "server") { // which miniredis does not know
		peer.WriteBulk("# Server\r\nrun_id:" + runID + "\r\n")
		return true
	}
	if command == "hello" && len(args) == 0 { // likewise
		peer.WriteMapLen(1)
		peer.WriteBulk("role")
		peer.WriteBulk(role)
		return true
	}
	return s.scripts.Before(peer, command, args)
}

// SetRole sets the role that the server says it has, "master" or "slave". The commands that it
// refuses are a matter of Refuse.
func (s *Server) SetRole(role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.role = role
}

// tick sets miniredis' clock to now. A script holds miniredis' mutex, and tick waits for it:
// otherwise the clock would advance while a script runs.
func (s *Server) tick() {
	if s.virtual {
		return
	}
	s.clock.Lock()
	defer s.clock.Unlock()
	s.m.SetTime(time.Now())
}

// inScript reports whether the peer is a script, by miniredis' own mark.
func inScript(peer *miniserver.Peer) bool {
	note := reflect.ValueOf(peer.Ctx)
	return note.Kind() == reflect.Pointer && note.Elem().FieldByName("nested").Bool()
}

// Refuse makes the server answer chosen commands with an error, as a server does that is
// loading, read-only, out of memory, or told so by an ACL. From now on it asks for every
// command, by its name in lower case, also for those of scripts; refuse returns the error
// ("READONLY You can't write ...") or "" to let it pass. It is called concurrently.
// Refuse(nil) ends it.
func (s *Server) Refuse(refuse func(command string, args ...string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
}

// Calls returns how often each command has arrived, by its name in lower case.
func (s *Server) Calls() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Stop ends all connections, and no other can be opened until Start. The data stay.
func (s *Server) Stop() {
	s.gate.Lock()
	s.stopped = true
	s.gate.Unlock()
	s.m.Close() // without gate: it waits for all that is under way
}

// Start lets connections be opened again, to a new process by its run id.
func (s *Server) Start() {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.stopped = false
	s.mu.Lock()
	s.runID = newRunID()
	s.mu.Unlock()
}

// Close is Stop, for good.
func (s *Server) Close() { s.Stop() }
