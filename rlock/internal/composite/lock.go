package composite

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Lock is a lock made of others: the holder of a multi-lock has all of them, the holder of a red
// lock most of them. A Lock has no state of its own.
type Lock struct {
	name   string
	kind   contract.Kind // KindMulti or KindRed
	parts  []Locker      // the parts, in the order in which they are acquired
	leaves []Leaf        // the leaves of all parts
	need   int           // the number of parts that a hold needs
	// longest is the longest lease that any client may have on a server of the lock.
	longest time.Duration
	home    *Home
	id      string // the name in the home's maps, which is the same for all locks of the same parts
	err     error  // the error that each call returns, or nil

	// gather acquires enough of the parts and adds them to the hold, or acquires none.
	gather func(ctx context.Context, h *Hold) error
	// byForce implements ByForce.
	byForce func(ctx context.Context) (ForceRelease, error)
}

var _ Locker = (*Lock)(nil)

// Refusing returns a lock that refuses every call with err.
func Refusing(name string, err error) *Lock { return &Lock{name: name, err: err} }

func newLock(name string, kind contract.Kind, parts []Locker, need int) *Lock {
	l := &Lock{name: name, kind: kind, parts: parts, need: need}
	var id strings.Builder
	for _, p := range parts {
		leaves := p.Leaves()
		fmt.Fprintf(&id, "%d of", len(leaves))
		for _, leaf := range leaves {
			fmt.Fprintf(&id, " %s %d %t %q", leaf.Home.ID, leaf.Kind, leaf.Shared, leaf.Name)
			l.longest = max(l.longest, leaf.Home.Longest)
		}
		l.leaves = append(l.leaves, leaves...)
	}
	fmt.Fprintf(&id, " need %d", need)
	l.id = id.String()
	l.home = l.leaves[0].Home
	return l
}

// Name implements [Locker], as do Leaves, Acquire, State and the methods in multi.go. The name of a
// multi-lock is the names of its parts.
func (l *Lock) Name() string { return l.name }

func (l *Lock) Leaves() []Leaf { return l.leaves }

func (l *Lock) Acquire(ctx context.Context, o contract.Owner, options Options) (contract.Part, error) {
	h, err := l.Hold(ctx, context.WithoutCancel(ctx), o, options)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// State returns the depth only. Only a red lock reads more of its parts, and a lock over several is
// never a part of a red lock.
func (l *Lock) State(o contract.Owner) contract.State { return contract.State{Depth: l.Depth(o)} }

// Depth returns the number of times that the owner has to unlock the lock. It is the largest number
// of levels that the owner has of enough parts, by what this client knows.
func (l *Lock) Depth(o contract.Owner) int {
	if l.err != nil {
		return 0
	}
	counts := make([]int, 0, len(l.parts))
	for _, p := range l.parts {
		counts = append(counts, p.State(o).Depth)
	}
	return best(counts, l.need, cmp.Compare[int])
}

// Err returns the error of a lock that can never be acquired, or nil.
func (l *Lock) Err() error { return l.err }

// key returns the key of the owner in the home's maps.
func (l *Lock) key(o contract.Owner) contract.LossKey {
	return contract.LossKey{Kind: contract.OverSeveral, Name: l.id, Owner: o}
}

// Hold acquires the lock with a handle, whose context is derived from parent.
func (l *Lock) Hold(ctx, parent context.Context, o contract.Owner, options Options) (*Hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	h := &Hold{of: l, owner: o, options: options, lease: options.Lease, whole: contract.Whole{Name: l.name, Kind: l.kind}, quit: func() {}}
	if err := h.observeCall(ctx, func() error { return l.obtain(ctx, parent, h) }); err != nil {
		return nil, err
	}
	return h, nil
}

// obtain acquires the lock for h.
func (l *Lock) obtain(ctx, parent context.Context, h *Hold) error {
	for _, leaf := range l.leaves {
		if err := leaf.Home.CheckLease(leaf.Name, h.options.Lease); err != nil {
			return err
		}
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("rlock: lock %q: %w", l.name, err)
	}
	if cause := l.home.Losses.Blocks(l.key(h.owner), time.Now()); cause != nil {
		return fmt.Errorf("rlock: nested lock %q: unlock the lost lock first: %w", l.name, cause)
	}
	h.whole.Site = l.home.Site()
	life := h.options.Life
	if h.options.Whole != nil {
		life = nil // the whole ends the life that the parts share
	}
	h.Begin(parent, life)
	defer h.watchWait()()
	err := h.outlived()
	if err == nil {
		err = l.gather(ctx, h)
	}
	if err == nil {
		if err = h.outlived(); err != nil { // the outer hold may have ended during the wait for a part
			h.undo(ctx)
		}
	}
	if err != nil {
		h.End(err)
	}
	return err
}

// Take acquires the lock without a handle.
func (l *Lock) Take(ctx context.Context, o contract.Owner, options Options) error {
	h, err := l.Hold(ctx, context.Background(), o, options)
	if err != nil {
		return err
	}
	l.home.mu.Lock()
	defer l.home.mu.Unlock()
	l.home.taken[l.key(o)] = append(l.home.taken[l.key(o)], h)
	return nil
}

// Unlock releases a level of Take. It leaves the levels of parts that the owner has acquired by
// themselves.
func (l *Lock) Unlock(ctx context.Context, o contract.Owner) error {
	if l.err != nil {
		return l.err
	}
	if h := l.home.remove(l.key(o), nil); h != nil {
		return h.Release(ctx)
	}
	if cause := l.home.Losses.Unlock(l.key(o), false); cause != nil {
		return cause
	}
	return l.home.NotHeld(l.name, o)
}

// Token returns the error of a lock without tokens.
func (l *Lock) Token() (uint64, error) { return 0, cmp.Or(l.err, contract.NoToken(l.name)) }

// A Locker is a lock that a Lock may consist of: a lock of one key, or another Lock. Its methods
// may be called concurrently.
type Locker interface {
	// Name returns the name that the lock was made with.
	Name() string
	// Leaves returns the locks of one key of which the lock consists.
	Leaves() []Leaf
	// Acquire acquires one level for the owner. The context of the Part does not end with ctx.
	Acquire(ctx context.Context, o contract.Owner, options Options) (contract.Part, error)
	// State returns the state of the lock as this client knows it. It does not wait.
	State(o contract.Owner) contract.State

	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	// ByForce asks Redis for the holders, which may be owners of other processes, and returns the
	// function that releases the lock by force from these holders.
	ByForce(ctx context.Context) (ForceRelease, error)
}

// A ForceRelease releases a lock by force from the holders that Redis has shown, and from no later
// holder. It reports whether it did.
type ForceRelease func(ctx context.Context) (freed bool, err error)

// A Keyed is a Locker of one key.
type Keyed interface {
	Locker
	// Holders asks Redis for the holders of the lock.
	Holders(ctx context.Context) ([]Holder, error)
	// ForceUnlockOf releases by force only the holders with these texts.
	ForceUnlockOf(ctx context.Context, texts []wire.OwnerText) (bool, error)
}

// A Holder is an owner that Redis shows as the holder of a lock of one key.
type Holder struct {
	Owner uint64         // the number of the owner, the same in all parts of a hold
	Text  wire.OwnerText // the owner in Redis
}

// Options say how a lock is acquired.
type Options struct {
	Lease  time.Duration      // the lease of the hold; 0 if the watchdog renews the hold
	Wait   time.Duration      // the time to wait for the lock; 0 for a single attempt
	Note   *string            // the text of the note of the hold; nil for no note
	Caller uint64             // the goroutine of the caller; 0 if it is the owner or not known
	Within *contract.Life     // the life of the hold whose guest the caller is; nil if it is no guest, and for a part
	Again  *contract.Outlived // the error of the last attempt, if the call is repeated as another owner; or nil
	Life   *contract.Life     // the life of the outermost hold; nil for a hold without a handle

	// Quit, once closed, ends a wait in the same way as the end of its time. It does not end a
	// single attempt. It may be nil.
	Quit <-chan struct{}

	// Whole is the multi or red lock whose part this lock is, or nil. Lost is called once, with the
	// cause, if the part has ended by loss or by Close, before another owner can be granted the
	// part. Lost may be called before Acquire returns.
	Whole *contract.Whole
	Lost  func(cause error)
}

// left returns the rest of a wait that began at that time.
func (o *Options) left(began time.Time) time.Duration {
	if o.Wait == contract.Forever {
		return contract.Forever
	}
	return o.Wait - time.Since(began)
}

// A Leaf is a lock of one key. Equal leaves are the same lock.
type Leaf struct {
	Name   string
	Kind   uint8 // locks of one name and of different kinds are different
	Shared bool  // the read lock of the name
	Home   *Home // the home of the lock's client
}

// SameName reports whether both are the same lock, or the read lock and the write lock of one name.
func (l Leaf) SameName(other Leaf) bool {
	l.Shared = other.Shared
	return l == other
}

// compareLeaves compares leaves by the order in which parts are acquired.
func compareLeaves(a, b Leaf) int {
	order := cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	if order == 0 && a.Home != b.Home {
		order = cmp.Compare(a.Home.Where(), b.Home.Where())
	}
	if order == 0 && a.Shared != b.Shared && b.Shared {
		order = -1 // the write lock first: a writer may read, and a reader may not write
	} else if order == 0 && a.Shared != b.Shared {
		order = 1
	}
	return order
}

// A Home is the part of a client that locks over several need. The home of a lock is the home of
// its first part. It remembers the holds that were acquired without a handle, and starts work in
// the background.
type Home struct {
	Config

	mu       sync.Mutex                   // guards the fields below
	taken    map[contract.LossKey][]*Hold // the holds that were acquired without a handle, the innermost last
	observed map[contract.LossKey][]*Hold // the holds that are reported to the Observer, in the order of their calls

	releases atomic.Int64 // the number of goroutines that release a part
	healer   *healer
}

// A Config is what a Home gets from its client. Redis, Observer and AcquireAll may be nil.
type Config struct {
	Redis *wire.Redis   // the connections of the client; two clients with equal connections have the same keys
	ID    string        // the id of the client
	Where func() string // returns the addresses of its servers, for errors and for the order of parts

	Observer *contract.Observer
	// Later calls a hook of the Observer that has no caller.
	Later    func(ctx context.Context, hook contract.Hook, e contract.Event)
	Logger   *slog.Logger
	LongWait time.Duration         // the time after which a wait is logged; 0 for never
	Site     func() *contract.Site // returns the place in the program of a call, or nil
	// Trouble logs that all attempts at a lock have failed since a time, if the time is long ago.
	Trouble func(lock string, since time.Time, err error)
	// Start calls work in a goroutine that the client's Close waits for, and reports whether it
	// did.
	Start func(work func()) bool
	// Done is closed when the client begins to close. Start returns false from then on.
	Done <-chan struct{}
	// Server asks the server for its run id, and returns "" if the server does not say.
	Server func() (string, error)
	// Longest is the longest lease that any client may have on this server.
	Longest time.Duration
	// CheckLease returns an error for a lease that is too short.
	CheckLease func(lock string, lease time.Duration) error

	// AcquireAll acquires locks of one key in their order, in one round trip with a single attempt
	// each, up to the first that is not free. It returns the parts before the first that is not
	// free, and the error of that part. Without AcquireAll locks are acquired one by one.
	AcquireAll func(ctx context.Context, o contract.Owner, locks []Locker, options []Options) ([]contract.Part, error)

	// Losses has the lost levels that their owners have not unlocked yet.
	Losses *contract.Losses
	// NotHeld returns the error of an owner that has nothing to unlock.
	NotHeld func(name string, o contract.Owner) error
}

// NewHome returns the home of a client.
func NewHome(c Config) *Home {
	h := &Home{Config: c, taken: make(map[contract.LossKey][]*Hold)}
	h.healer = newHealer(h)
	return h
}

// remove forgets the hold, or the innermost one if hold is nil. It returns that hold, or nil if
// there is none.
func (h *Home) remove(k contract.LossKey, hold *Hold) *Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	holds := h.taken[k]
	i := len(holds) - 1
	if hold != nil {
		i = slices.Index(holds, hold)
	}
	if i < 0 {
		return nil
	}
	hold = holds[i]
	if h.taken[k] = slices.Delete(holds, i, i+1); len(holds) == 1 {
		delete(h.taken, k)
	}
	return hold
}
