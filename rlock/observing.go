package rlock

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/go-rlock/rlock/rlock/internal/engine"
)

// observing calls the hooks of an Observer for the engine's events. Each hook may be nil,
// and may panic.
type observing struct {
	hooks    *Observer
	client   *Client
	log      *slog.Logger
	panicked sync.Map // of the names of hooks: a panic of it has been logged
}

// events returns the hooks as the engine calls them.
func (o *observing) events() *engine.Observer {
	e := &engine.Observer{
		Waiting: o.waiting, Acquired: o.acquired, GaveUp: o.gaveUp, Released: o.released,
		Missed: o.missed, Closed: o.closed,
	}
	if o.hooks.Lost != nil {
		e.Lost = o.lost
	}
	if o.hooks.Renewed != nil {
		e.Renewed = o.renewed
	}
	return e
}

// caught keeps the panic of a hook from the client. It must be deferred itself.
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

func (o *observing) info(lock engine.LockInfo) LockInfo {
	return LockInfo{Client: o.client, Name: lock.Name, Kind: Kind(lock.Kind), Owner: Owner{lock.Owner}}
}

// tell calls a hook with a caller.
func tell[Info any](ctx context.Context, o *observing, name string, hook func(context.Context, Info), info Info) {
	if hook != nil {
		defer o.caught(name)
		hook(ctx, info)
	}
}

// about calls a hook that is about the whole client.
func (o *observing) about(name string, hook func(*Client)) {
	if hook != nil {
		defer o.caught(name)
		hook(o.client)
	}
}

func (o *observing) opened() { o.about("Opened", o.hooks.Opened) }

func (o *observing) closed() { o.about("Closed", o.hooks.Closed) }

func (o *observing) missed(n int) {
	if hook := o.hooks.Missed; hook != nil {
		defer o.caught("Missed")
		hook(n)
	}
}

func (o *observing) waiting(ctx context.Context, lock engine.LockInfo) {
	tell(ctx, o, "Waiting", o.hooks.Waiting, WaitingInfo{o.info(lock)})
}

func (o *observing) acquired(ctx context.Context, e engine.Event) {
	tell(ctx, o, "Acquired", o.hooks.Acquired, AcquiredInfo{o.info(e.LockInfo), Way(e.Way), e.Waited, e.Contended})
}

func (o *observing) gaveUp(ctx context.Context, e engine.Event) {
	tell(ctx, o, "GaveUp", o.hooks.GaveUp, GaveUpInfo{o.info(e.LockInfo), e.Err, e.Waited, e.Contended})
}

func (o *observing) released(ctx context.Context, e engine.Event) {
	tell(ctx, o, "Released", o.hooks.Released, ReleasedInfo{o.info(e.LockInfo), Way(e.Way), e.Held, e.Err, e.Detached})
}

func (o *observing) lost(ctx context.Context, e engine.Event) {
	tell(ctx, o, "Lost", o.hooks.Lost, LostInfo{o.info(e.LockInfo), Way(e.Way), e.Held, LossReason(e.Reason), e.Err})
}

func (o *observing) renewed(i engine.RenewedInfo) {
	defer o.caught("Renewed")
	o.hooks.Renewed(RenewedInfo{o.client, i.Locks, i.Failed, i.Took, i.Kept, i.Margin, i.Lease, i.Err})
}
