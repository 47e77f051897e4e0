package composite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// NewMulti returns the lock that consists of all these locks. A multi-lock among them stands for
// its parts, and a lock that occurs twice counts once.
func NewMulti(locks []Locker) *Lock {
	var parts []Locker
	for _, l := range locks {
		more := []Locker{l}
		if g, ok := l.(*Lock); ok && g.kind == contract.KindMulti {
			more = g.parts
		}
		for _, p := range more {
			if !slices.ContainsFunc(parts, func(other Locker) bool { return slices.Equal(p.Leaves(), other.Leaves()) }) {
				parts = append(parts, p)
			}
		}
	}
	if len(parts) == 0 {
		return Refusing("", fmt.Errorf("rlock: multi-lock: %w: it has no locks: give it at least one", wire.ErrInvalidConfig))
	}
	if name, found := findTwoKinds(parts); found {
		return Refusing("", fmt.Errorf("rlock: multi-lock: %w: it has two kinds of lock of the name %q, which exclude each other", wire.ErrInvalidConfig, name))
	}
	if name, found := findTwoClients(parts); found {
		return Refusing("", fmt.Errorf("rlock: multi-lock: %w: it has the lock %q by two clients of one server, and would wait for itself", wire.ErrInvalidConfig, name))
	}
	slices.SortStableFunc(parts, func(a, b Locker) int { return slices.CompareFunc(a.Leaves(), b.Leaves(), compareLeaves) })
	var names []string
	for _, p := range parts {
		names = append(names, p.Name())
	}
	l := newLock(strings.Join(slices.Compact(names), ","), contract.KindMulti, parts, len(parts))
	l.gather, l.byForce = l.gatherAll, l.allByForce
	return l
}

// findTwoKinds returns a name of which the parts have locks of two kinds at one client.
func findTwoKinds(parts []Locker) (name string, found bool) {
	type place struct {
		name string
		home *Home
	}
	kinds := make(map[place]uint8)
	for _, p := range parts {
		for _, leaf := range p.Leaves() {
			at := place{leaf.Name, leaf.Home}
			if kind, known := kinds[at]; known && kind != leaf.Kind {
				return leaf.Name, true
			}
			kinds[at] = leaf.Kind
		}
	}
	return "", false
}

// findTwoClients returns a name that two parts have at different clients of the same keys.
func findTwoClients(parts []Locker) (name string, found bool) {
	var leaves []Leaf
	for _, p := range parts {
		for _, leaf := range p.Leaves() {
			if slices.ContainsFunc(leaves, func(other Leaf) bool {
				a, b := leaf.Home, other.Home
				return leaf.Name == other.Name && a != b && a.Redis != nil && b.Redis != nil && a.Redis.SharesKeys(b.Redis)
			}) {
				return leaf.Name, true
			}
			leaves = append(leaves, leaf)
		}
	}
	return "", false
}

// A gathering is one attempt at all parts of a multi-lock, in their order. It acquires the parts
// that are free together. Then it waits for the first part that is not free, while it has all parts
// before it and none behind it: so attempts cannot wait in a circle.
type gathering struct {
	hold  *Hold
	began time.Time // when the call began
	// kept is set if the watchdog renews the parts until all are acquired: leases would end while
	// others are waited for.
	kept  bool
	parts []*member
}

// gatherAll acquires all parts, in their order. It begins again if a part was lost meanwhile.
func (l *Lock) gatherAll(ctx context.Context, h *Hold) error {
	began := time.Now()
	for kept := false; ; kept = true { // from the second round on the watchdog renews the parts, so that no lease ends meanwhile
		g := gathering{hold: h, began: began, kept: kept}
		err := g.takeAll(ctx)
		if err == nil {
			h.add(g.parts...)
			return nil
		}
		l.giveBack(ctx, h.owner, g.parts)
		if !errors.Is(err, errAnew) || h.options.left(began) <= 0 {
			return err
		}
	}
}

// errAnew is the error of a gathering that lost a part while it waited for another.
var errAnew = errors.New("a part was lost while others were waited for")

// takeAll acquires all parts, and stops once a part is lost. After an error g.parts has the parts
// that were acquired.
func (g *gathering) takeAll(caller context.Context) error {
	started, lease := time.Now(), g.hold.options.Lease
	ctx, end := context.WithCancel(caller)
	defer end()
	var watches []func() bool
	defer func() {
		for _, stop := range watches {
			stop()
		}
	}()
	has := func(m *member) { // a loss of m ends the wait for the other parts
		g.parts = append(g.parts, m)
		watches = append(watches, context.AfterFunc(m.part.Context(), end))
	}
	for rest := g.hold.of.parts; len(rest) > 0; {
		taken, err := g.takeFree(ctx, rest)
		for _, m := range taken {
			has(m)
		}
		if rest = rest[len(taken):]; err == nil && len(rest) > 0 {
			var m *member
			if m, err = g.take(ctx, rest[0]); err == nil {
				has(m)
				rest = rest[1:]
			}
		}
		if err != nil && ctx.Err() != nil && caller.Err() == nil {
			return cmp.Or(g.lost(), err)
		} else if err != nil {
			return err
		}
	}
	if err := g.lost(); err != nil {
		return err
	}
	if lease > 0 && (g.kept || time.Since(started) > lease/100) {
		setLease(g.parts, lease) // the lease begins now; the parts trust it once Redis confirms it
	}
	return nil
}

// lost returns an errAnew if a part was lost, else nil.
func (g *gathering) lost() error {
	for _, m := range g.parts {
		switch err := m.part.Err(); {
		case errors.Is(err, contract.ErrLost): // the part was lost, but the caller does not have the lock yet
			return fmt.Errorf("rlock: lock %q: %w: %v", g.hold.of.name, errAnew, err)
		case err != nil:
			return fmt.Errorf("rlock: lock %q: %w: %w", g.hold.of.name, errAnew, err)
		}
	}
	return nil
}

// takeFree acquires the parts of one client at the front of rest, in one round trip, up to the
// first that is not free. It returns no error if the call may wait for that part.
func (g *gathering) takeFree(ctx context.Context, rest []Locker) ([]*member, error) {
	home := homeOf(rest[0])
	n := slices.IndexFunc(rest, func(l Locker) bool {
		_, several := l.(*Lock)
		return several || homeOf(l) != home
	})
	if n < 0 {
		n = len(rest)
	}
	if n < 2 || home.AcquireAll == nil {
		return nil, nil
	}
	options := &g.hold.options
	lease := options.Lease
	if g.kept {
		lease = 0
	}
	taken, err := g.hold.takeTogether(ctx, home, rest[:n], lease)
	if options.left(g.began) > 0 {
		return taken, nil // if the error lasts, the wait for the next part returns it
	}
	return taken, err
}

// take acquires one more part. Before take waits, it has the watchdog renew the other parts.
func (g *gathering) take(ctx context.Context, lock Locker) (*member, error) {
	options := &g.hold.options
	with := Options{Lease: options.Lease, Wait: max(options.left(g.began), 0)}
	switch {
	case g.kept:
		with.Lease = 0
	case options.Lease > 0 && len(g.parts) > 0:
		with.Wait = 0 // the leases of the other parts would end during a wait
	}
	m, err := g.hold.take(ctx, lock, with)
	if left := options.left(g.began); err != nil && with.Wait < left {
		g.kept = true
		setLease(g.parts, 0)
		m, err = g.hold.take(ctx, lock, Options{Wait: left})
	}
	return m, err
}

// Questions to Redis about a lock, for callers that need not hold it.

// IsLocked asks the parts, until the answer is certain. If it stays uncertain, IsLocked returns the
// errors of the parts that did not answer: a holder may have them.
func (l *Lock) IsLocked(ctx context.Context) (bool, error) {
	if l.err != nil {
		return false, l.err
	}
	locked, free := 0, 0
	failed := poll(ctx, l.parts, Locker.IsLocked, func(is bool) (enough bool) {
		if is {
			locked++
		} else {
			free++
		}
		return locked > l.spare() || free >= l.need
	})
	switch {
	case locked > l.spare():
		return true, nil
	case free >= l.need:
		return false, nil
	}
	return false, errors.Join(failed...)
}

// TTL returns the time until enough parts are free, among the parts that answer.
func (l *Lock) TTL(ctx context.Context) (time.Duration, error) {
	var ttls []time.Duration
	failed := poll(ctx, l.parts, Locker.TTL, func(ttl time.Duration) bool {
		if ttl < 0 {
			ttl = math.MaxInt64
		}
		ttls = append(ttls, ttl)
		return false
	})
	if err := l.tooMany(failed); err != nil {
		return 0, err
	}
	slices.Sort(ttls)
	ttl := ttls[l.need-1]
	if ttl == math.MaxInt64 {
		return -1, nil
	}
	return ttl, nil
}

// ForceUnlock releases the lock, also if another owner or process holds it, and reports whether it
// did.
func (l *Lock) ForceUnlock(ctx context.Context) (bool, error) {
	release, err := l.ByForce(ctx)
	if err != nil {
		return false, err
	}
	return release(ctx)
}

// ByForce implements [Locker].
func (l *Lock) ByForce(ctx context.Context) (ForceRelease, error) {
	if l.err != nil {
		return nil, l.err
	}
	return l.byForce(ctx)
}

// spare returns the number of parts that the lock does not need.
func (l *Lock) spare() int { return len(l.parts) - l.need }

// tooMany returns the errors of the parts that failed, if the other parts are not enough.
func (l *Lock) tooMany(failed []error) error {
	if l.err != nil || len(failed) > l.spare() {
		return cmp.Or(l.err, errors.Join(failed...))
	}
	return nil
}

// poll asks all parts at once, and passes each answer to heard until heard reports that the answers
// are enough.
func poll[P Locker, T any](ctx context.Context, parts []P, ask func(P, context.Context) (T, error), heard func(T) bool) (failed []error) {
	type answer struct {
		is  T
		err error
	}
	arrived := make(chan answer, len(parts))
	for _, p := range parts {
		homeOf(p).do(func() {
			is, err := ask(p, ctx)
			arrived <- answer{is, err}
		})
	}
	for range parts {
		if a := <-arrived; a.err != nil {
			failed = append(failed, a.err)
		} else if heard(a.is) {
			break
		}
	}
	return failed
}
