package rlock

import (
	"context"

	"github.com/go-rlock/rlock/rlock/internal/engine"
)

// WithOwner returns a context in whose name locks are taken: calls with it, or
// with a context made from it, lock and unlock as o from whatever goroutine they
// come, so that a call tree over several goroutines nests. Two goroutines that
// use the context at once are one owner: the lock does not keep them apart. If both wait
// for a lock, both have it when one of them is granted it, each for an Unlock of its own.
// The zero Owner takes an owner away, and with it the holds that ctx comes from.
func WithOwner(ctx context.Context, o Owner) context.Context {
	return context.WithValue(ctx, scopeKey{}, &scope{owner: o.owner})
}

// OwnerFrom returns the owner that ctx was given by [WithOwner], and whether it was given
// one.
func OwnerFrom(ctx context.Context) (Owner, bool) {
	s := scopeOf(ctx)
	for s != nil && s.of != nil {
		s = s.outer
	}
	if s == nil || s.owner.ID == 0 {
		return Owner{}, false
	}
	return Owner{s.owner}, true
}

// A scope says in whose name a context takes locks: all of them, or those of a hold that
// it is the context of. The innermost scope that is about a lock counts.
type scope struct {
	owner engine.Owner
	of    engine.Form // what is held; nil for all locks, and then outer is nil
	outer *scope
}

type scopeKey struct{}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// ownerIn returns the owner that ctx has for the lock, and whether it has one.
func ownerIn(ctx context.Context, f engine.Form) (engine.Owner, bool) {
	for s := scopeOf(ctx); s != nil; s = s.outer {
		if s.of == nil {
			return s.owner, s.owner.ID != 0
		}
		if overlap(s.of, f) {
			return s.owner, true
		}
	}
	return engine.Owner{}, false
}

// ownerOf returns the owner that ctx has for the lock, else the calling goroutine.
func ownerOf(ctx context.Context, f engine.Form) engine.Owner {
	if o, ok := ownerIn(ctx, f); ok {
		return o
	}
	return engine.Owner{ID: engine.GoroutineID()}
}

// overlap reports whether the two locks have a name in common: to take the one while
// another owner holds the other would wait for that.
func overlap(a, b engine.Form) bool {
	if a == b {
		return true
	}
	for _, one := range a.Beneath() {
		for _, other := range b.Beneath() {
			if one.SameName(other) {
				return true
			}
		}
	}
	return false
}

// A heldContext is what the context of a hold is made from: what it is the context of
// nests in the hold.
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

// With returns a context that is made from ctx, and ends also when the hold does, with
// its cause: a request that comes while the lock is held thus ends with the request and
// with the loss. Locks taken with it nest as with [Hold.Context]. It needs no cancel
// function: what it uses is given back when either ends.
func (h *Hold) With(ctx context.Context) context.Context {
	c := &heldContext{scope: scope{owner: h.owner, of: h.scoped.scope.of, outer: scopeOf(ctx)}}
	merged, cancel := context.WithCancelCause(ctx)
	if held := h.Context(); held.Err() != nil {
		cancel(context.Cause(held)) // now: what AfterFunc calls comes later
	} else {
		stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
		context.AfterFunc(merged, func() { stop() })
	}
	c.Context = merged
	return c
}
