package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// InspectLimit is how many holders, and how many waiters, an [Inspection] shows at most.
const InspectLimit = wire.InspectLimit

// An Inspection is the state of a lock in Redis at one moment.
type Inspection struct {
	Name string
	Kind Kind

	// Holders are empty if the lock is free. There are several only of a read lock and of
	// a semaphore.
	// HolderCount is more than their number if there are more than InspectLimit.
	Holders     []Holder
	HolderCount int

	// Lease is the time left of the lease unless it is renewed: 0 if the lock is free, -1 ns if
	// its key does not expire. Of readers, and of a semaphore, it is the longest lease.
	Lease time.Duration

	// Token is the last fencing token that was reserved; tokens are reserved in blocks, so
	// the holder's may be smaller. 0: no fenced lock had this name, or the user may not
	// read the counter.
	Token uint64

	// Queue is the waiters, the first to be granted the lock first: one for each client
	// that waits, however many of its goroutines do. Of a fair lock and of a semaphore it is
	// one for each waiter.
	// Waiting is more than their number if there are more than InspectLimit.
	Queue   []Waiter
	Waiting int

	// Guests is how many clients of Redisson are subscribed to the lock's channel, to wait
	// for it. -1 if that cannot be counted: in a Cluster with plain pub/sub, or without the
	// right to.
	Guests int

	// Unresolved says why no Process is known, nil if CLIENT LIST was answered. It is
	// [ErrNoPermission] if the user may not execute that command.
	Unresolved error
}

// A Holder is one owner that holds a lock.
type Holder struct {
	Owner   string        // "<uuid>:<id>", as it stands in Redis
	Lease   time.Duration // the rest of the lock's lease; of a semaphore, of the holder's own
	Count   int64         // how many levels deep it holds the lock, as last mirrored
	Shared  bool          // it is a reader
	Guest   bool          // it is no client of this package, but one of Redisson, or an unknown one
	Process *Process      // nil if it is not known
}

// A Waiter is one place in the queue.
type Waiter struct {
	Owner   string   // "<uuid>:<id>" of the owner that will hold the lock; "" for a turn of guests
	Shared  bool     // it waits for the read lock
	Polls   bool     // it is not subscribed, and looks whether it is its turn
	Guest   bool     // it is a turn that is left to clients of Redisson
	Process *Process // nil if it is not known
}

// Inspect returns the state in Redis of the lock of that name, of any kind. It only reads, in
// one round trip, and one more for the processes of holders and waiters, which may be a second
// old. It is no transaction: a lock that is handed over meanwhile may be shown with its last
// holder and the queue of the next moment.
//
// It fails with [ErrWrongType] if the name's key, or that of its queue, is something other
// than a lock, [ErrNoPermission] without [the rights], [ErrInvalidName], [ErrClosed], and
// the error of ctx or of the connection. A failure to find out processes, guests or tokens
// is no error.
//
// [the rights]: https://github.com/go-rlock/rlock/blob/main/docs/operations.md#rights
func (c *Client) Inspect(ctx context.Context, name string) (Inspection, error) {
	var keys [wire.Forms]*wire.Keys
	for i, id := range [wire.Forms]client.KindID{client.FencedKind, client.ReadWriteKind, client.SemaphoreKind} {
		n := c.shared.NewName(id, name)
		if n.Err != nil && i == 0 {
			return Inspection{}, n.Err
		}
		keys[i] = &n.Keys
	}
	found, err := c.shared.Redis.Inspect(ctx, keys)
	if err != nil {
		return Inspection{}, fmt.Errorf("rlock: inspect %q: %w", name, err)
	}
	return inspectionOf(name, found), nil
}

// inspectionOf converts the state of a lock.
func inspectionOf(name string, found wire.Inspection) Inspection {
	i := Inspection{
		Name: name, Kind: kindOf(found.Form), HolderCount: found.HolderCount,
		Lease: found.Lease, Token: found.Token, Waiting: found.Waiting, Guests: found.Foreign,
	}
	if found.Processes != nil {
		i.Unresolved = wire.Explain(found.Processes.Err)
	}
	for _, h := range found.Holders {
		i.Holders = append(i.Holders, Holder{h.Owner, h.Lease, h.Count, h.Shared, h.Foreign, process(found.Processes, h.Owner)})
	}
	for _, w := range found.Queue {
		i.Queue = append(i.Queue, Waiter{w.Owner, w.Shared, w.Polls, w.Owner == "", process(found.Processes, w.Owner)})
	}
	return i
}

// kindOf returns the kind that locks of a form have in an Inspection.
func kindOf(f wire.Form) Kind {
	switch f {
	case wire.FormLock:
		return KindLock
	case wire.FormReadWrite:
		return KindReadWrite
	case wire.FormSemaphore:
		return KindSemaphore
	}
	return KindUnknown
}

// A Process is one that has a client of this package, as the client name of its
// connection says: "rlock:<program>:<host>:<pid>:<id>", with the [Client.ID] at the end.
// [Config.NoClientName] omits the name.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // as the process itself sees it
	Addr    string // where its connection comes from, as Redis sees it: "10.0.0.7:51234"
}

// process returns the process that has the client of an owner, nil if it is not known.
func process(p *wire.Processes, owner string) *Process { return (*Process)(p.Of(owner)) }
