package lease_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A held is a renewable like that of a lock: renewed at a third of its lease, over when its lease
// ends, with a value that is mirrored after a nudge.
type held struct {
	keeper *lease.Keeper
	entry  lease.Entry
	ttl    time.Duration
	name   string  // the name of the lease in stories
	server *server // the server of a story, to which the loss of the lease is told; nil elsewhere

	mu       sync.Mutex // guards the fields below
	node     uint32
	valid    span // its lease, by the last answer
	asked    span // its lease, if there is an answer to the last command
	renewAt  time.Time
	value    int
	mirrored int // the value as last sent
	released bool
	lostAt   time.Time
	sends    []time.Time
	flying   bool
	asks     int
	sendMore bool // Due always asks for a command
}

func newHeld(k *lease.Keeper, node uint32, ttl time.Duration) *held {
	h := &held{keeper: k, node: node, ttl: ttl}
	now := time.Now()
	h.valid = span{now, ttl - lease.Drift(ttl, tick)}
	h.renewAt = now.Add(ttl / 3)
	k.Schedule(h, h.renewAt)
	return h
}

func (h *held) Entry() *lease.Entry { return &h.entry }

func (h *held) Group() uint32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.node
}

func (h *held) Due(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asks++
	switch {
	case h.released:
		h.report("is asked after its release")
		return false
	case !h.lostAt.IsZero():
		return false
	case !h.valid.goesOn(now):
		h.lostAt = now
		h.report("is lost")
		return false
	}
	if h.sendMore || h.value != h.mirrored || !now.Before(h.renewAt) {
		h.keeper.Schedule(h, h.valid.end())
		return true
	}
	h.keeper.Schedule(h, h.renewAt)
	return false
}

// report adds an event to those of the server, in stories.
func (h *held) report(what string) {
	if h.server != nil {
		h.server.tell(h.name + " " + what)
	}
}

// set changes the value that is to be mirrored.
func (h *held) set(value int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.value = value
	h.keeper.Nudge(h)
}

// release ends it, as Unlock does.
func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	h.keeper.Stop(h)
}

// build makes the command, or nothing if h is over.
func (h *held) build() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released || !h.lostAt.IsZero() {
		return false
	}
	if h.flying {
		panic("in two batches")
	}
	h.flying = true
	now := time.Now()
	h.sends = append(h.sends, now)
	h.mirrored = h.value
	h.asked = span{now, h.ttl - lease.Drift(h.ttl, tick)}
	return true
}

// tell records the outcome; h is sent again if its command was not executed.
func (h *held) tell(executed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flying = false
	if h.released || !h.lostAt.IsZero() {
		return
	}
	if !executed {
		h.mirrored = h.value - 1
		return
	}
	h.valid = h.asked
	h.renewAt = time.Now().Add(h.ttl / 3)
	h.keeper.Schedule(h, h.renewAt)
}

func (h *held) sentTimes() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Time(nil), h.sends...)
}

// A server is the nodes that a keeper sends to.
type server struct {
	mu      sync.Mutex // guards the fields below
	latency map[uint32]time.Duration
	dead    map[uint32]bool // no answer, after the latency
	events  []event         // batches and losses
}

func (s *server) tell(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event{time.Now(), text})
}

// sent returns how many batches were sent.
func (s *server) sent() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.events), func(e event) bool { return !strings.HasPrefix(e.text, "node") }))
}

func newServer() *server {
	return &server{latency: make(map[uint32]time.Duration), dead: make(map[uint32]bool)}
}

func (s *server) set(node uint32, dead bool, latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[node], s.latency[node] = dead, latency
}

// send is a lease.Sender.
func (s *server) send(ctx context.Context, node uint32, batch []lease.Renewable) bool {
	built := batch[:0:0]
	for _, r := range batch {
		if r.(*held).build() {
			built = append(built, r)
		}
	}
	s.tell(batchOf(node, batch))
	s.mu.Lock()
	latency := s.latency[node]
	s.mu.Unlock()

	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
		}
	}

	s.mu.Lock()
	reached := !s.dead[node] && ctx.Err() == nil
	s.mu.Unlock()
	for _, r := range built {
		r.(*held).tell(reached)
	}
	return reached
}

// wallAhead returns t with its wall clock set ahead, but not its monotonic clock: a time that is
// read after the machine slept for d. No API makes such a time; this relies on the layout of
// time.Time, which keeps the seconds of the wall clock above 30 bits of nanoseconds, and fails the
// test if the layout differs.
func wallAhead(t *testing.T, at time.Time, d time.Duration) time.Time {
	t.Helper()
	shifted := at
	const mask = 1<<30 - 1
	wall := (*uint64)(unsafe.Pointer(&shifted))
	nanoseconds := int64(*wall&mask) + int64(d)
	seconds := (nanoseconds - mod(nanoseconds, int64(time.Second))) / int64(time.Second)
	*wall = *wall&^mask + uint64(seconds)<<30 + uint64(mod(nanoseconds, int64(time.Second)))
	require.Zero(t, shifted.Sub(at), "the monotonic clock must stand still")
	require.Equal(t, d, shifted.Round(0).Sub(at.Round(0)), "the wall clock must advance")
	return shifted
}

// mod is the remainder of a division that rounds down.
func mod(a, b int64) int64 { return (a%b + b) % b }

// A span is a time that is counted by the clock that has run further, as a holder counts its lease:
// the monotonic clock stands still while the machine sleeps. The zero span is over.
type span struct {
	from  time.Time
	lasts time.Duration
}

func (s span) goesOn(now time.Time) bool {
	return s.lasts > max(now.Sub(s.from), now.Round(0).Sub(s.from.Round(0)))
}

func (s span) end() time.Time { return s.from.Add(s.lasts) }
