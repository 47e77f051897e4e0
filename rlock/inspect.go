package rlock

import (
	"context"
	"fmt"

	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Inspect returns the state in Redis of the lock of that name, of any kind. It only reads, in
// one round trip, and one more for the processes of holders and waiters, which may be a second
// old. It is no transaction: a lock that is handed over meanwhile may be shown with its last
// holder and the queue of the next moment.
//
// It fails with [ErrWrongType] if the name's key, or that of its queue, is something other
// than a lock, and with [ErrNoPermission] without the rights in docs/operations.md. A failure
// to find out processes, foreign clients or tokens is no error.
func (c *Client) Inspect(ctx context.Context, name string) (inspect.Lock, error) {
	var keys [wire.Forms]*wire.Keys
	for i, id := range [wire.Forms]client.KindID{client.FencedKind, client.ReadWriteKind, client.SemaphoreKind} {
		n := c.shared.NewName(id, c.inRedis(name))
		if n.Err != nil && i == 0 {
			return inspect.Lock{}, n.Err
		}
		keys[i] = &n.Keys
	}
	found, err := c.shared.Redis.Inspect(ctx, keys)
	if err != nil {
		return inspect.Lock{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	return inspectionOf(name, found), nil
}

// inspectionOf converts the state of a lock.
func inspectionOf(name string, found wire.Inspection) inspect.Lock {
	i := inspect.Lock{
		Name: name, Kind: kindOf(found.Form), HolderCount: found.HolderCount,
		Lease: found.Lease, Token: found.Token, Note: found.Note, Waiting: found.Waiting, Foreign: found.Foreign,
	}
	if found.Processes != nil {
		i.Unresolved = wire.Explain(found.Processes.Err)
	}
	for _, h := range found.Holders {
		i.Holders = append(i.Holders, inspect.Holder{
			Owner: h.Owner, Lease: h.Lease, Count: h.Count, Shared: h.Shared, Foreign: h.Foreign, Passed: h.Passed, Process: process(found.Processes, h.Owner),
		})
	}
	for _, w := range found.Queue {
		i.Queue = append(i.Queue, inspect.Waiter{
			Owner: w.Owner, Shared: w.Shared, Polls: w.Polls, Foreign: w.Owner == "", Process: process(found.Processes, w.Owner),
		})
	}
	return i
}

// kindOf returns the kind that locks of a form have in an [inspect.Lock].
func kindOf(f wire.Form) Kind {
	switch f {
	case wire.FormLock:
		return inspect.KindLock
	case wire.FormReadWrite:
		return inspect.KindReadWrite
	case wire.FormSemaphore:
		return KindSemaphore
	}
	return inspect.KindUnknown
}

// process returns the process that has the client of an owner, nil if it is not known.
func process(p *wire.Processes, owner string) *inspect.Process {
	return (*inspect.Process)(p.Of(owner))
}
