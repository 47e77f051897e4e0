package inspect

import (
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Limit is the largest number of holders, and of waiters, that a [Lock] shows.
const Limit = 1000

// NoteKey is the key beside a lock, as rlock.Lock.Key names it, that has the note about its holder.
const NoteKey = "note"

// A Lock is the state of a lock in Redis at one moment.
type Lock struct {
	Name string // the name that Inspector.Lock was given
	Kind rlock.Kind

	// Holders is empty if the lock is free. Only a read lock and a semaphore may have several.
	Holders     []Holder
	HolderCount int // the number of holders, also of those beyond Limit

	// Lease is the time left of the lease unless it is renewed: 0 if the lock is free, or
	// rlock.NoExpiry. Of readers, and of a semaphore, it is the longest lease.
	Lease time.Duration

	// Token is the last fencing token that was reserved; tokens are reserved in blocks, so the
	// holder's may be smaller. 0: no fenced lock had this name, or the user may not read the
	// counter.
	Token uint64

	// Note is a text about the holder, which it has written by Hold.Write into the key
	// Lock.Key(NoteKey): of a leader, what package elect has written. "" for none, and if the user
	// may not read the key. Write it to end with the lease (PX), or it is shown for the next
	// holder.
	Note string

	// Queue has the waiters in the order in which they will be granted the lock: one for each
	// client, however many of its goroutines wait; for a fair lock or a semaphore one for each
	// call.
	Queue   []Waiter
	Waiting int // the number of waiters, also of those beyond Limit

	// Foreign is the number of clients of Redisson that are subscribed to the lock's channel, to
	// wait for the lock; -1 if it cannot be counted: in a Cluster with plain pub/sub, or without
	// the right to.
	Foreign int

	// Unresolved is the reason why no Process is known: rlock.ErrNoPermission if the user may not
	// execute CLIENT LIST. It is nil if that command was answered.
	Unresolved error
}

// A Holder is one owner that holds a lock.
type Holder struct {
	Owner   string        // "<uuid>:<id>", as it stands in Redis
	Lease   time.Duration // the rest of the lock's lease; of a semaphore, of the holder's own
	Permits int           // the number of permits of a semaphore that it has; 0 for other locks
	Count   int64         // the number of its levels, as last mirrored
	Shared  bool          // it is a reader
	Passed  bool          // it was passed on by Hold.Pass and is not resumed yet, or stays by WithMinHold: it ends with the lease
	Foreign bool          // it is no client of rlock, but one of Redisson, or an unknown one
	Process *Process      // nil if it is not known
}

// A Waiter is one place in the queue.
type Waiter struct {
	Owner   string   // "<uuid>:<id>" of the owner that will hold the lock; "" for a foreign window
	Permits int      // the number of permits of a semaphore that it takes; 0 for other locks
	Shared  bool     // it waits for the read lock
	Polls   bool     // it is not subscribed, and looks whether it is its turn
	Foreign bool     // it is a window that is left to clients of Redisson
	Process *Process // nil if it is not known
}

// A Process is one that has a client of rlock, as the client name of its connection says:
// "rlock:<program>:<host>:<pid>:<id>", with the client's ID at the end.
// Config.Advanced.NoClientName omits the name.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // its id, as the process itself sees it
	Addr    string // the address of its connection, as Redis sees it: "10.0.0.7:51234"
}

// String returns "orders@host[4711]".
func (p Process) String() string { return wire.Process(p).String() }

// The kinds that a [Lock] may have, besides [rlock.KindSemaphore]: Redis shows less than the
// constants of package rlock say.
const (
	KindUnknown   rlock.Kind = ""           // no holders and no waiters
	KindLock      rlock.Kind = "lock"       // a plain, a fenced or a fair lock: they look alike
	KindReadWrite rlock.Kind = "read-write" // a ReadWriteLock
)
