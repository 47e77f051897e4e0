package inspect

import (
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Limit is the largest number of holders, and of waiters, that a [Lock] shows.
const Limit = 1000

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
//
// Note and Since are known of a hold with rlock.WithNote, and Since is by the clock of the holder's
// machine. Of a lock that was granted after a wait, Redis has no more than when the call began,
// which Waited says: of a permit until the end of the hold, else until the next renewal.
type Holder struct {
	Owner   string        // "<uuid>:<id>"
	Note    string        // the text of rlock.WithNote
	Since   time.Time     // when the hold began, or, if Waited, when its call began to wait; zero if it is not known
	Waited  bool          // the hold began after Since
	Lease   time.Duration // the rest of the lock's lease; of a semaphore, of the holder's own
	Permits int           // the number of permits of a semaphore that it has; 0 for other locks
	Count   int64         // the number of its levels, as last mirrored
	Shared  bool          // it is a reader
	Passed  bool          // it was passed on by Hold.Pass and is not resumed yet, or stays by WithMinHold: it ends with the lease
	Foreign bool          // it is no client of rlock, but one of Redisson, or an unknown one
	Process *Process      // nil if it is not known
}

// A Waiter is one place in the queue. Its first caller has taken it, whose note it has.
type Waiter struct {
	Owner   string    // "<uuid>:<id>" of the owner that will hold the lock; "" for a foreign window
	Note    string    // the text of rlock.WithNote
	Since   time.Time // when the call with WithNote began, by the clock of its machine; else zero
	Permits int       // the number of permits of a semaphore that it takes; 0 for other locks
	Shared  bool      // it waits for the read lock
	Polls   bool      // it is not subscribed, and looks whether it is its turn
	Foreign bool      // it is a window that is left to clients of Redisson
	Process *Process  // nil if it is not known
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
