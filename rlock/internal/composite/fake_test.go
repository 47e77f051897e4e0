package composite

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A fleet has clients of fake locks: each fake does as its test says, in virtual time.
type fleet struct {
	t *testing.T

	mu    sync.Mutex // guards the fields below, and all lockers
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
	now     atomic.Int64 // the number of goroutines now
	done    chan struct{}
	end     func() // closes done

	mu      sync.Mutex     // guards the fields below
	closed  bool           // the client starts no goroutine
	most    int64          // the largest value of now
	process int            // the number of the server's process
	refused error          // the error of the server when it is asked for its process
	looks   func(look int) // called at each such question; nil for none
	looked  int
}

// home returns a new client.
func (f *fleet) home(change ...func(*Config)) *fakeHome {
	h := &fakeHome{done: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.done) })
	id := fmt.Sprint("client", len(f.homes))
	c := Config{
		ID: id, Where: func() string { return "at " + id }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Later: func(ctx context.Context, hook contract.Hook, e contract.Event) { hook.Tell(ctx, e) },
		Site:  func() *contract.Site { return nil }, Trouble: func(string, time.Time, error) {}, Start: h.start,
		CheckLease: func(string, time.Duration) error { return nil }, Losses: new(contract.Losses),
		NotHeld: func(string, contract.Owner) error { return contract.ErrNotHeld },
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
	return l.Hold(context.Background(), context.Background(), contract.NewOwner(), with)
}

// held returns a hold of the lock, whose parts have all been granted.
func (f *fleet) held(l *Lock) *Hold {
	h, err := take(l, forever)
	require.NoError(f.t, err)
	synctest.Wait()
	return h
}

var forever = Options{Wait: contract.Forever}

var errGone = fmt.Errorf("%w: its key is gone", contract.ErrLost)

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

// A fakeLock is a lock of one key.
type fakeLock struct {
	fleet  *fleet
	name   string
	leaves []Leaf

	// The fleet's mutex guards the fields below.

	trip   time.Duration // the time that a command takes
	silent bool          // commands have no answer until silent changes
	shown  time.Duration // the time since which State reports silence
	err    error         // the answer to commands
	parts  []*fakePart   // the parts that are held
	turn   chan struct{} // closed at the next change
	early  error         // the cause with which the next grant is lost before it arrives
	freeze time.Duration // the time that the next releases take
}

func (f *fleet) lock(h *fakeHome, name string) *fakeLock {
	return &fakeLock{fleet: f, name: name, leaves: []Leaf{{Name: name, Home: h.Home}}, turn: make(chan struct{})}
}

// servers returns a lock of the same name on each of n new clients, and the red lock of these locks.
func (f *fleet) servers(n int) ([]*fakeLock, *Lock) {
	var homes []*fakeHome
	for range n {
		homes = append(homes, f.home())
	}
	return f.on(homes, "red")
}

// on returns a lock of that name on each of the clients, and the red lock of these locks.
func (f *fleet) on(homes []*fakeHome, name string) (locks []*fakeLock, l *Lock) {
	for _, h := range homes {
		locks = append(locks, f.lock(h, name))
	}
	return locks, redOf(name, len(homes), locks...)
}

// occupy has other owners take all the locks.
func occupy(locks []*fakeLock) (others []contract.Part) {
	for _, l := range locks {
		others = append(others, l.occupy())
	}
	return others
}

func all(locks ...*fakeLock) []Locker { return lockers(locks) }

// redOf returns the red lock of these locks.
func redOf(name string, servers int, locks ...*fakeLock) *Lock {
	var parts []Keyed
	for _, l := range locks {
		parts = append(parts, l)
	}
	return NewRed(name, parts, servers)
}

func (l *fakeLock) Name() string   { return l.name }
func (l *fakeLock) Leaves() []Leaf { return l.leaves }

func (l *fakeLock) change(do func()) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	do()
	close(l.turn)
	l.turn = make(chan struct{})
}

func (l *fakeLock) setSilent(silent bool) { l.change(func() { l.silent = silent }) }

func (l *fakeLock) note(what string) {
	l.fleet.log = append(l.fleet.log, what+" "+l.name)
}

// answers waits for an answer. The mutex is held before and after.
func (l *fakeLock) answers(trip time.Duration) error {
	l.fleet.mu.Unlock()
	time.Sleep(trip)
	l.fleet.mu.Lock()
	for l.silent {
		turn := l.turn
		l.fleet.mu.Unlock()
		<-turn
		l.fleet.mu.Lock()
	}
	return l.err
}

func (l *fakeLock) Acquire(ctx context.Context, o contract.Owner, with Options) (contract.Part, error) {
	f, until := l.fleet, time.NewTimer(min(with.Wait, time.Hour))
	defer until.Stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	l.note("asks")
	for {
		if err := l.answers(l.trip); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(l.parts, func(p *fakePart) bool { return p.owner.ID != o.ID }) {
			break
		}
		if with.Wait == 0 {
			return nil, contract.ErrNotAcquired
		}
		turn := l.turn
		f.mu.Unlock()
		var err error
		select {
		case <-turn:
		case <-until.C:
			err = contract.ErrNotAcquired
		case <-with.Quit:
			err = contract.ErrNotAcquired
		case <-ctx.Done():
			err = ctx.Err()
		}
		f.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	l.note("grants")
	p := &fakePart{lock: l, owner: o, with: with, lease: with.Lease, until: time.Now().Add(time.Hour)}
	p.Begin(context.Background(), nil)
	l.parts = append(l.parts, p)
	if early := l.early; early != nil {
		l.early = nil
		f.mu.Unlock()
		p.lose(early)
		f.mu.Lock()
	}
	return p, nil
}

func (l *fakeLock) State(o contract.Owner) (s contract.State) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	for _, p := range l.parts {
		switch {
		case p.owner.ID != o.ID:
			s.Taken = s.Taken || !p.abroad
		case p.with.Whole == nil || p.with.Whole.IsHeld():
			s.Depth++
		}
	}
	s.Silent = l.shown
	return s
}

func (l *fakeLock) IsLocked(context.Context) (bool, error) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	return len(l.parts) > 0, l.err
}

func (l *fakeLock) TTL(context.Context) (time.Duration, error) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	for _, p := range l.parts {
		return time.Until(p.until), l.err
	}
	return 0, l.err
}

func (l *fakeLock) ByForce(ctx context.Context) (ForceRelease, error) {
	holders, err := l.Holders(ctx)
	var texts []wire.OwnerText
	for _, h := range holders {
		texts = append(texts, h.Text)
	}
	return func(ctx context.Context) (bool, error) { return l.ForceUnlockOf(ctx, texts) }, err
}

// Holders reads the holders once the server answers.
func (l *fakeLock) Holders(context.Context) (holders []Holder, err error) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	if err := l.answers(l.trip); err != nil {
		return nil, err
	}
	for _, p := range l.parts {
		holders = append(holders, Holder{Owner: p.owner.ID, Text: wire.OwnerText(p.text())})
	}
	return holders, nil
}

func (l *fakeLock) ForceUnlockOf(_ context.Context, texts []wire.OwnerText) (freed bool, err error) {
	l.fleet.mu.Lock()
	err = l.answers(l.trip)
	parts := slices.Clone(l.parts)
	l.fleet.mu.Unlock()
	for _, p := range parts {
		if err == nil && slices.Contains(texts, wire.OwnerText(p.text())) {
			p.lose(contract.ErrLost)
			freed = true
		}
	}
	return freed, err
}

// text returns the owner in Redis, which is another one on each server.
func (p *fakePart) text() string { return fmt.Sprintf("%p:%d", p.lock, p.owner.ID) }

// restart restarts the server without its data: the holders of parts are not told.
func (l *fakeLock) restart(h *fakeHome) {
	h.set(func() { h.process++ })
	l.change(func() { l.parts = nil })
}

// held returns the number of parts that are held.
func (l *fakeLock) held() int {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	return len(l.parts)
}

// the returns the part that was granted last.
func (l *fakeLock) the() *fakePart {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	require.NotEmpty(l.fleet.t, l.parts)
	return l.parts[len(l.parts)-1]
}

// occupy gives the lock to another process.
func (l *fakeLock) occupy() contract.Part { return l.occupyAs(contract.NewOwner()) }

func (l *fakeLock) occupyAs(o contract.Owner) contract.Part {
	p, err := l.Acquire(context.Background(), o, Options{})
	require.NoError(l.fleet.t, err)
	p.(*fakePart).abroad = true
	return p
}

// A fakePart is a level of a fakeLock.
type fakePart struct {
	contract.HoldContext
	lock   *fakeLock
	owner  contract.Owner
	with   Options
	abroad bool // the part is another process's

	// The fleet's mutex guards the fields below.

	lease time.Duration
	until time.Time
	over  error  // the reason why it is not held
	tells func() // called when another owner waits
}

// leave takes the part away, and reports whether it was there. The mutex is held.
func (p *fakePart) leave(why error, what string) bool {
	i := slices.Index(p.lock.parts, p)
	if i < 0 {
		return false
	}
	p.over = why
	p.lock.note(what)
	p.lock.parts = slices.Delete(p.lock.parts, i, i+1)
	close(p.lock.turn)
	p.lock.turn = make(chan struct{})
	return true
}

func (p *fakePart) lose(cause error) {
	p.lock.fleet.mu.Lock()
	was := p.leave(cause, "loses")
	p.lock.fleet.mu.Unlock()
	if was {
		p.End(cause)
		if p.with.Lost != nil {
			p.with.Lost(cause)
		}
	}
}

func (p *fakePart) Release(context.Context) error {
	p.lock.fleet.mu.Lock()
	defer p.lock.fleet.mu.Unlock()
	err := p.lock.answers(p.lock.trip + p.lock.freeze)
	if !p.leave(contract.ErrNotHeld, "releases") {
		return p.over
	}
	return err
}

func (p *fakePart) ReleaseLater() {
	p.lock.fleet.mu.Lock()
	p.leave(contract.ErrNotHeld, "leaves")
	p.lock.fleet.mu.Unlock()
	p.End(contract.ErrNotHeld)
}

func (p *fakePart) WhenWanted(tell func()) {
	p.lock.fleet.mu.Lock()
	defer p.lock.fleet.mu.Unlock()
	p.tells = tell
}

func (p *fakePart) Err() error {
	p.lock.fleet.mu.Lock()
	defer p.lock.fleet.mu.Unlock()
	return p.over
}

func (p *fakePart) ValidUntil() time.Time {
	p.lock.fleet.mu.Lock()
	defer p.lock.fleet.mu.Unlock()
	if p.over != nil || !time.Now().Before(p.until) {
		return time.Time{}
	}
	return p.until
}

func (p *fakePart) SetLease(lease time.Duration) {
	p.lock.fleet.mu.Lock()
	defer p.lock.fleet.mu.Unlock()
	p.lease = lease
}
