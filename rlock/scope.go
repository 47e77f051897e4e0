package rlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/composite"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/driver"
)

// An Owner is the holder of a lock, which may lock it again without waiting. By default it is the
// calling goroutine, with the runtime's number; [NewOwner] makes one that travels with a context.
// In Redis the number is where Redisson has the thread id. It is below 1<<53, as JSON parsers need
// it, and 0 is no owner.
type Owner uint64

// NewOwner returns an owner that is no goroutine, and that no other call in this process returns.
func NewOwner() Owner { return Owner(contract.NewOwner().ID) }

// WithOwner returns a context that carries the owner o: calls with a context made from it lock and
// unlock as o, in any goroutine. Goroutines that use it at once are one owner: the lock does not
// exclude one from the other, and each must unlock as often as it locked. An owner of 0 removes the
// owner and the holds from which ctx comes. WithOwner panics if o is not from NewOwner.
func WithOwner(ctx context.Context, o Owner) context.Context {
	owner := contract.Owner{ID: uint64(o)}
	if owner.Goroutine() != 0 || owner.OfHandle() {
		panic(fmt.Sprintf("rlock: WithOwner: %d is not an owner that NewOwner has returned", o))
	}
	return context.WithValue(ctx, scopeKey{}, &scope{owner: owner})
}

// OwnerFrom returns the owner that [WithOwner] has given ctx, if any.
func OwnerFrom(ctx context.Context) (Owner, bool) {
	s := scopeOf(ctx)
	for s != nil && s.of != nil {
		s = s.outer
	}
	if s == nil || s.owner.ID == 0 {
		return 0, false
	}
	return Owner(s.owner.ID), true
}

// A scope is the part of a context that says in whose name calls take locks. It is about the locks
// of one hold, as long as the hold is held, or about all locks. The innermost scope about a lock
// counts.
type scope struct {
	owner contract.Owner
	of    *Lock          // the lock of the hold; nil in a scope of all locks, whose outer is nil
	hold  *holding       // the hold; nil in a scope of all locks
	life  *contract.Life // the life of the hold; it does not refer to the hold, since a value of a context may refer to the Hold
	outer *scope
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// about returns the innermost scope, from s on, that is about the lock: a scope of a hold that is
// held, or of all locks. It returns nil for none.
func (s *scope) about(l *Lock) *scope {
	for s != nil && s.of != nil && (s.life.IsOver() || !overlap(s.of, l)) {
		s = s.outer
	}
	return s
}

// A fallback is the owner of a call whose context has none.
type fallback bool

const (
	theGoroutine    fallback = false
	anOwnerOfItsOwn fallback = true
)

// caller returns the owner of a call for a lock that the scope is about, or the zero Owner if the
// call needs a new owner. In the scope of a hold the call is a guest, which may outlive the hold,
// unless its owner would be the same without that scope.
func (s *scope) caller(of fallback) contract.Owner {
	switch {
	case s != nil && s.of != nil:
		outermost := s
		for outermost != nil && outermost.of != nil {
			outermost = outermost.outer
		}
		o := s.owner
		o.Guest = outermost.caller(of) != o
		return o
	case s != nil && s.owner.ID != 0:
		return s.owner
	case of == anOwnerOfItsOwn:
		return contract.Owner{}
	}
	return contract.Owner{ID: contract.GoroutineID()}
}

// setOwner sets the owner of a call for a lock that the scope is about. If the call is a guest of a
// hold, it returns the time at which the call began, for noteOutlived.
func (s *scope) setOwner(req *driver.Request, of fallback) (began time.Time) {
	req.Owner, req.Within = s.caller(of), nil
	switch {
	case req.Owner.Guest:
		req.Within, req.Caller, began = s.life, contract.Caller(), time.Now()
	case req.Owner.ID == 0:
		req.Owner = contract.NewHandleOwner()
	}
	return began
}

// noteOutlived reports whether a call failed because the hold whose guest it was has ended. Then it
// prepares req for the next scope, where the call is repeated with the rest of its wait.
func noteOutlived(err error, req *driver.Request, began time.Time) bool {
	outlived, is := errors.AsType[*contract.Outlived](err)
	if !is {
		return false
	}
	req.Again = outlived
	if req.Wait > 0 && req.Wait < contract.Forever {
		req.Wait = max(req.Wait-time.Since(began), 0)
	}
	return true
}

// others yields the owners whose levels an Unlock may release if the caller has no level of its
// own: the owners of the holds from which its context comes, also of holds that have ended.
func (s *scope) others(l *Lock) iter.Seq[contract.Owner] {
	return func(yield func(contract.Owner) bool) {
		for ; s != nil && s.of != nil; s = s.outer {
			guests := s.owner
			guests.Guest = true
			if overlap(s.of, l) && (!yield(guests) || !s.life.IsOver() && !yield(s.owner)) {
				return
			}
		}
	}
}

// overlap reports whether the two locks have a name in common: then a call for one of them waits
// while another owner holds the other.
func overlap(a, b *Lock) bool {
	if a == b {
		return true
	}
	var ofA, ofB [1]composite.Leaf
	for _, one := range a.leaves(&ofA) {
		for _, other := range b.leaves(&ofB) {
			if one.SameName(other) {
				return true
			}
		}
	}
	return false
}

// leaves returns the locks of one key that the lock consists of. For a lock of one key it fills in
// the array, so that nothing is allocated.
func (l *Lock) leaves(one *[1]composite.Leaf) []composite.Leaf {
	switch f := l.form().(type) {
	case *driver.NamedLock:
		one[0] = leafOf(l.client, f)
		return one[:]
	case over:
		return f.Leaves()
	}
	return nil
}

// A heldContext is the parent of a hold's context: a call with this context nests in the hold.
type heldContext struct {
	context.Context
	scope scope
}

// Value implements [context.Context].
func (c *heldContext) Value(key any) any {
	if key == (scopeKey{}) {
		return &c.scope
	}
	return c.Context.Value(key)
}

// With returns a context that is made from ctx, and ends also when the hold does, with the cause of
// its end, before the release is sent: work for a request stops when the client disconnects and
// when the lock is lost. Locks taken with it nest as with [Hold.Context]. It needs no cancel
// function.
func (h *Hold) With(ctx context.Context) context.Context {
	c := &heldContext{scope: h.scoped.scope}
	c.scope.outer = scopeOf(ctx)
	c.Context = h.held.Merge(ctx)
	return c
}
