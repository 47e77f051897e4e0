package rlock

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/contract"
)

// observing calls the hooks of an Observer for the events of package driver. Each hook may be nil,
// and may panic.
type observing struct {
	hooks    *Observer
	client   *Client
	log      *slog.Logger
	panicked sync.Map // the names of the hooks whose first panic was logged
}

// The words that users see.
var (
	acquiredBy = [...]AcquiredBy{
		contract.ByNesting: ByNesting, contract.ByJoining: ByJoining, contract.ByHandoff: ByHandoff, contract.ByRedis: ByRedis,
		contract.ByQueue: ByQueue, contract.ByParts: ByParts, contract.ByPass: ByPass,
	}
	lossReasons = [...]LossReason{
		contract.LostUnrenewed: LostUnrenewed, contract.LostLeaseEnded: LostLeaseEnded, contract.LostHeldTooLong: LostHeldTooLong, contract.LostKeyGone: LostKeyGone,
		contract.LostForced: LostForced, contract.LostParts: LostParts,
	}
)

// events returns the hooks as package driver calls them.
func (o *observing) events() *contract.Observer {
	hooks := o.hooks
	e := &contract.Observer{
		Waiting: hook(o, "Waiting", hooks.Waiting, func(l LockInfo, _ contract.Event) WaitingInfo {
			return WaitingInfo{l}
		}),
		Acquired: hook(o, "Acquired", hooks.Acquired, func(l LockInfo, e contract.Event) AcquiredInfo {
			return AcquiredInfo{l, acquiredBy[e.Way], e.Waited, e.Contended}
		}),
		Answered: hook(o, "Answered", hooks.Answered, func(l LockInfo, e contract.Event) AnsweredInfo {
			return AnsweredInfo{l, e.Waited, e.Contended}
		}),
		GaveUp: hook(o, "GaveUp", hooks.GaveUp, func(l LockInfo, e contract.Event) GaveUpInfo {
			return GaveUpInfo{l, e.Err, e.Waited, e.Contended}
		}),
		Released: hook(o, "Released", hooks.Released, func(l LockInfo, e contract.Event) ReleasedInfo {
			return ReleasedInfo{l, acquiredBy[e.Way], e.Held, e.Err, e.Passed}
		}),
		Lost: hook(o, "Lost", hooks.Lost, func(l LockInfo, e contract.Event) LostInfo {
			return LostInfo{l, acquiredBy[e.Way], e.Held, lossReasons[e.Reason], e.Err}
		}),
		Missed: o.missed,
		Closed: func() { o.about("Closed", hooks.Closed) },
	}
	if hooks.Renewed != nil {
		e.Renewed = o.renewed
	}
	return e
}

// hook returns a function that calls a hook about a lock, or nil if there is no hook.
func hook[Info any](o *observing, name string, call func(context.Context, Info), info func(LockInfo, contract.Event) Info) contract.Hook {
	if call == nil {
		return nil
	}
	return func(ctx context.Context, e contract.Event) {
		defer o.caught(name)
		call(ctx, info(LockInfo{Client: o.client, Name: o.nameOf(e), Kind: e.Kind, Owner: Owner(e.Owner.ID)}, e))
	}
}

// nameOf returns the name of the event's lock. The name of a multi-lock is made of keys.
func (o *observing) nameOf(e contract.Event) string {
	if e.Kind == contract.KindMulti {
		return e.Name
	}
	return o.client.named(e.Name)
}

// caught recovers a panic of a hook, so that it does not reach the client. It must be deferred
// itself.
func (o *observing) caught(hook string) {
	p := recover()
	if p == nil {
		return
	}
	if _, before := o.panicked.LoadOrStore(hook, true); !before {
		o.log.Error("rlock: a hook of the Observer panicked; its next panics are not logged",
			"hook", hook, "panic", p, "stack", string(debug.Stack()))
	}
}

// about calls a hook about the whole client.
func (o *observing) about(name string, hook func(*Client)) {
	if hook != nil {
		defer o.caught(name)
		hook(o.client)
	}
}

func (o *observing) missed(n int) {
	if hook := o.hooks.Missed; hook != nil {
		defer o.caught("Missed")
		hook(n)
	}
}

func (o *observing) renewed(i contract.RenewedInfo) {
	defer o.caught("Renewed")
	o.hooks.Renewed(RenewedInfo{o.client, i.Locks, i.Failed, i.Took, i.Kept, i.Margin, i.Lease, i.Err})
}
