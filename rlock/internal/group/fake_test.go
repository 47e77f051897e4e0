package group

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/stretchr/testify/require"
)

// A fleet is clients of lockers that are no locks: each does as its test says, in virtual time.
type fleet struct {
	t *testing.T

	mu    sync.Mutex // protects following, and all lockers
	homes []*fakeHome
	log   []string // the actions on the lockers, in order
}

func virtual(t *testing.T, run func(t *testing.T, f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t}
		run(t, f)
		for _, h := range f.homes {
			h.close()
		}
	})
}

// told returns the actions since the last call.
func (f *fleet) told() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// A fakeHome is a client.
type fakeHome struct {
	*Home
	running sync.WaitGroup
	now     atomic.Int64 // goroutines
	done    chan struct{}
	end     func() // closes done

	mu      sync.Mutex     // protects following
	closed  bool           // it starts nothing
	most    int64          // of now
	process int            // of the server
	refused error          // what the server answers when it is asked for its process
	looks   func(look int) // called at each such question, nil for nothing
	looked  int
}

// home returns a new client.
func (f *fleet) home(change ...func(*Config)) *fakeHome {
	h := &fakeHome{done: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.done) })
	id := fmt.Sprint("client", len(f.homes))
	c := Config{
		ID: id, Where: func() string { return "at " + id }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Later: func(ctx context.Context, hook terms.Hook, e terms.Event) { hook.Tell(ctx, e) },
		Site:  func() *terms.Site { return nil }, Trouble: func(string, time.Time, error) {}, Start: h.start,
		CheckLease: func(string, time.Duration) error { return nil }, Losses: new(terms.Losses),
		NotHeld: func(string, terms.Owner) error { return terms.ErrNotHeld },
		Done:    h.done, Server: h.server, Longest: longest,
	}
	for _, with := range change {
		with(&c)
	}
	h.Home = NewHome(c)
	f.homes = append(f.homes, h)
	return h
}

func (h *fakeHome) start(work func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.most = max(h.most, h.now.Add(1))
	h.running.Go(func() {
		defer h.now.Add(-1)
		work()
	})
	return true
}

// longest is the longest lease of a client, unless a test says otherwise.
const longest = 30 * time.Second

func (h *fakeHome) server() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looked++; h.looks != nil {
		h.looks(h.looked)
	}
	if h.refused != nil {
		return "", h.refused
	}
	return fmt.Sprint("process ", h.process), nil
}

// close returns when all goroutines have ended.
func (h *fakeHome) close() {
	h.set(func() { h.closed = true })
	h.end()
	h.running.Wait()
}

// set changes the server.
func (h *fakeHome) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// take takes the lock as a new owner.
func take(l *Lock, with Options) (*Hold, error) {
	return l.Hold(context.Background(), context.Background(), terms.NewOwner(), with)
}

// held returns a hold of the lock, whose parts have all been granted.
func (f *fleet) held(l *Lock) *Hold {
	h, err := take(l, forever)
	require.NoError(f.t, err)
	synctest.Wait()
	return h
}

var forever = Options{Wait: terms.Forever}

var errGone = fmt.Errorf("%w: its key is gone", terms.ErrLost)

// begin calls work in the background.
func begin(work func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- work() }()
	synctest.Wait()
	return result
}

// pending reports whether there is no result yet.
func pending(t *testing.T, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		t.Fatalf("it has returned: %v", err)
	default:
	}
}
