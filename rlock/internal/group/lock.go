package group

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/losses"
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

// Name implements [Locker], as Leaves, Acquire, State and those in remote.go. Of a multi-lock it is the names of its
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
func (l *Lock) key(o terms.Owner) losses.Key {
	return losses.Key{Kind: losses.Over, Name: l.id, Owner: o}
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
