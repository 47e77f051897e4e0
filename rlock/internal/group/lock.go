package group

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

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Lock is made of other locks, of which so many make it: all of them for a multi-lock, and most for a red lock. It has
// no state of its own.
type Lock struct {
	name   string
	kind   terms.Kind // KindMulti or KindRed
	parts  []Locker   // in the order in which they are taken
	leaves []Leaf     // of all of them
	need   int
	// longest is the longest lease that any client is to have on a server of the lock.
	longest time.Duration
	home    *Home
	id      string // what the home remembers it by: the same for the same parts
	err     error  // every call returns it

	// gather takes enough of the parts for the hold, and adds them to it; or none.
	gather func(ctx context.Context, h *Hold) error
}

var _ Locker = (*Lock)(nil)

// Refusing returns a lock that refuses every call with err.
func Refusing(name string, err error) *Lock { return &Lock{name: name, err: err} }

func newLock(name string, kind terms.Kind, parts []Locker, need int) *Lock {
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

// Name implements [Locker], as Leaves, Acquire, State and those in multi.go. Of a multi-lock it is the names of its
// parts.
func (l *Lock) Name() string { return l.name }

func (l *Lock) Leaves() []Leaf { return l.leaves }

func (l *Lock) Acquire(ctx context.Context, o terms.Owner, options Options) (terms.Part, error) {
	h, err := l.Hold(ctx, context.WithoutCancel(ctx), o, options)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// State has the depth only: locks over several are not parts of red locks.
func (l *Lock) State(o terms.Owner) terms.State { return terms.State{Depth: l.Depth(o)} }

// Depth returns how often the owner has to unlock the lock: the least that is certain.
func (l *Lock) Depth(o terms.Owner) int {
	if l.err != nil {
		return 0
	}
	counts := make([]int, 0, len(l.parts))
	for _, p := range l.parts {
		counts = append(counts, p.State(o).Depth)
	}
	return best(counts, l.need, cmp.Compare[int])
}

// Err returns why the lock can never be taken, nil if it can.
func (l *Lock) Err() error { return l.err }

// key is what the home remembers the owner by.
func (l *Lock) key(o terms.Owner) terms.LossKey {
	return terms.LossKey{Kind: terms.OverSeveral, Name: l.id, Owner: o}
}

// Hold takes the lock with a handle, whose context is made from parent.
func (l *Lock) Hold(ctx, parent context.Context, o terms.Owner, options Options) (*Hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	h := &Hold{of: l, owner: o, options: options, lease: options.Lease, whole: terms.Whole{Name: l.name, Kind: l.kind}, quit: func() {}}
	if err := h.observed(ctx, func() error { return l.obtain(ctx, parent, h) }); err != nil {
		return nil, err
	}
	return h, nil
}

// obtain takes the lock for h, or takes nothing.
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
	h.Begin(parent, h.life())
	defer h.watchWait()()
	err := h.outlived()
	if err == nil {
		err = l.gather(ctx, h)
	}
	if err == nil {
		if err = h.outlived(); err != nil { // a part may have been waited for
			h.undo(ctx)
		}
	}
	if err != nil {
		h.End(err)
	}
	return err
}

// Take acquires the lock without a handle.
func (l *Lock) Take(ctx context.Context, o terms.Owner, options Options) error {
	h, err := l.Hold(ctx, context.Background(), o, options)
	if err == nil {
		l.home.push(l.key(o), h)
	}
	return err
}

// Unlock takes back what Take took, and leaves alone what the owner has taken of the parts by themselves.
func (l *Lock) Unlock(ctx context.Context, o terms.Owner) error {
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
func (l *Lock) Token() (uint64, error) { return 0, cmp.Or(l.err, terms.NoToken(l.name)) }

// A Locker is a lock that others are made of: of one key, or a [Lock]. Its methods may be called concurrently.
type Locker interface {
	// Name returns the name that the lock was made with.
	Name() string
	// Leaves returns the locks of one key that it consists of.
	Leaves() []Leaf
	// Acquire takes the lock once for the owner. The context that the Part has does not end with ctx.
	Acquire(ctx context.Context, o terms.Owner, options Options) (terms.Part, error)
	// State returns the state of the lock without asking Redis. It waits for nothing.
	State(o terms.Owner) terms.State

	IsLocked(ctx context.Context) (bool, error)
	TTL(ctx context.Context) (time.Duration, error)
	ForceUnlock(ctx context.Context) (bool, error)
}

// Options say how a lock is to be taken.
type Options struct {
	Lease  time.Duration // 0: until the release, kept by the watchdog
	Wait   time.Duration // how long to wait between attempts; 0 is one attempt
	Caller uint64        // the goroutine that calls, if that is not the owner; 0 if that is not known
	Within *terms.Life   // of the hold that the owner is a guest of, nil for an owner that is no guest
	Life   *terms.Life   // of the outermost hold, nil for one without a handle

	// Quit, once closed, ends the wait between attempts as its time would, and no attempt; nil for never.
	Quit <-chan struct{}

	// Whole is the lock over several that this is a part of, nil for none. Lost is called once if
	// the part has ended by loss or by Close, with the cause, before another owner can be granted
	// the part; also before Acquire returns the part.
	Whole *terms.Whole
	Lost  func(cause error)
}

// left returns the rest of the wait, which began then.
func (o *Options) left(began time.Time) time.Duration {
	if o.Wait == terms.Forever {
		return terms.Forever
	}
	return o.Wait - time.Since(began)
}

// A Leaf is a lock of one key. Equal leaves are the same lock.
type Leaf struct {
	Name   string
	Kind   uint8 // locks of one name and different kinds are kept apart
	Shared bool  // it is the read lock of its name
	Home   *Home // of its client
}

// SameName reports whether both are the same lock, or a reader's and a writer's.
func (l Leaf) SameName(other Leaf) bool {
	l.Shared = other.Shared
	return l == other
}

// inOrder is the order in which parts are taken.
func inOrder(a, b Leaf) int {
	order := cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	if order == 0 && a.Home != b.Home {
		order = cmp.Compare(a.Home.Where(), b.Home.Where())
	}
	if order == 0 && a.Shared != b.Shared && b.Shared {
		order = -1 // a writer may read, and not the other way round
	} else if order == 0 && a.Shared != b.Shared {
		order = 1
	}
	return order
}

// A Home is a client, as far as locks over several need one: that of a lock is the client of its first part. It
// remembers the holds that were taken without a handle, and starts the background work.
type Home struct {
	Config

	mu       sync.Mutex // protects following
	taken    map[terms.LossKey][]*Hold
	observed map[terms.LossKey][]*Hold // that the Observer is told of, as they were asked for

	releases atomic.Int64 // goroutines that release a part
	healer   *healer
}

// A Config is what a Home is made of. All fields but Observer and AcquireAll are set.
type Config struct {
	ID    string        // of the client
	Where func() string // the addresses of its servers, for errors and for an order

	Observer *terms.Observer // nil for none
	// Later reports an event without a caller to a hook of the Observer.
	Later    func(ctx context.Context, hook terms.Hook, e terms.Event)
	Logger   *slog.Logger
	LongWait time.Duration      // when a wait is logged; 0: never
	Site     func() *terms.Site // of the call, nil if sites are not recorded
	// Trouble logs that all attempts at a lock have failed since then, if that is long ago.
	Trouble func(lock string, since time.Time, err error)
	// Start calls work in a goroutine that the client's Close waits for, and reports whether it did.
	Start func(work func()) bool
	// Done is closed when that is over.
	Done <-chan struct{}
	// Server returns what the process of the server is known by, "" if that is not known now. It does not wait for
	// longer than for an answer.
	Server func() (string, error)
	// Longest is the longest lease that any client is to have on this server.
	Longest time.Duration
	// CheckLease refuses a lease that is too short to keep.
	CheckLease func(lock string, lease time.Duration) error

	// AcquireAll acquires locks of one key of this client in their order, in one attempt each, up to the first that is not
	// free, and takes one round trip. It returns the parts before that, and its error. nil: they are acquired one by one.
	AcquireAll func(ctx context.Context, o terms.Owner, locks []Locker, options []Options) ([]terms.Part, error)

	// Losses record by owner the lost levels that are not unlocked yet. A lock is known by a text that is the same for
	// the same parts.
	Losses *terms.Losses
	// NotHeld returns the error of an owner that has nothing to unlock.
	NotHeld func(name string, o terms.Owner) error
}

// NewHome returns the home of a client.
func NewHome(c Config) *Home {
	h := &Home{Config: c, taken: make(map[terms.LossKey][]*Hold)}
	h.healer = newHealer(h)
	return h
}

// push remembers a hold that was taken without a handle.
func (h *Home) push(k terms.LossKey, hold *Hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken[k] = append(h.taken[k], hold)
}

// remove takes the hold away, or the innermost for nil, and returns it; nil if it is not there.
func (h *Home) remove(k terms.LossKey, hold *Hold) *Hold {
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
