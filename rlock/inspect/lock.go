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
	Name string // the name, as given to Inspector.Lock
	Kind rlock.Kind

	// Holders has the holders; it is empty if the lock is free. Only a read lock and a semaphore
	// may have several.
	Holders     []Holder
	HolderCount int // the number of holders, with those beyond Limit

	// Lease is the rest of the lease: 0 if the lock is free, or rlock.NoExpiry. For readers, and
	// for a semaphore, it is the longest lease.
	Lease time.Duration

	// Token is the last fencing token that was reserved. Tokens are reserved in blocks, so the
	// holder's token may be smaller. It is 0 if no fenced lock had this name, or the user may not
	// read the counter.
	Token uint64

	// Queue has the waiters in the order in which they will be granted the lock: one for each
	// client, however many of its goroutines wait; for a fair lock or a semaphore one for each
	// call.
	Queue   []Waiter
	Waiting int // the number of waiters, with those beyond Limit

	// Foreign is the number of clients of Redisson that are subscribed to the lock's channel to
	// wait for the lock; -1 if it cannot be counted: in a Cluster with plain pub/sub, or without
	// the right to count.
	Foreign int

	// Unresolved is the reason why no Process is known: rlock.ErrNoPermission if the user may not
	// execute CLIENT LIST. It is nil if Redis answered the command.
	Unresolved error
}

// KindName returns the kind in words, for people: a read-write lock with its mode, and "fenced" for
// a lock whose tokens were read.
func (l Lock) KindName() string {
	switch {
	case l.Kind == KindReadWrite && len(l.Holders) > 0 && l.Holders[0].Shared:
		return "read-write (read)"
	case l.Kind == KindReadWrite && len(l.Holders) > 0:
		return "read-write (write)"
	case l.Token > 0:
		return "fenced"
	}
	return string(l.Kind)
}

// A Holder is one owner that holds a lock.
//
// Note and Since are known for a hold with rlock.WithNote, and Since is by the clock of the holder's
// machine. For a lock that was granted after a wait, Redis has only the beginning of the call, and
// Waited is set: for a permit until the end of the hold, else until the next renewal.
type Holder struct {
	Owner   string        // the owner in Redis, "<uuid>:<id>"
	Note    string        // the text of rlock.WithNote
	Since   time.Time     // the time at which the hold began or, if Waited, its call; zero if it is not known
	Waited  bool          // the hold began later than Since
	Lease   time.Duration // the rest of the lock's lease; for a semaphore, of the holder's own lease
	Permits int           // the number of permits of a semaphore that the holder has; 0 for other locks
	Count   int64         // the number of the holder's levels, by the last mirror
	Shared  bool          // the holder is a reader
	Passed  bool          // the holder has given the lock up, by Hold.Pass or WithMinHold, and the lock stays until a Resume or the end of the lease
	Foreign bool          // the holder is a client of Redisson, or an unknown one
	Process *Process      // the holder's process; nil if it is not known
}

// A Waiter is one place in the queue. Its note is the note of the caller that has taken the place.
type Waiter struct {
	Owner   string    // the future owner, "<uuid>:<id>"; "" for a foreign window
	Note    string    // the text of rlock.WithNote
	Line    string    // the line of rlock.WithLine
	Since   time.Time // the time at which the call began, by the clock of its machine; zero without a Note or a Line
	Permits int       // the number of permits of a semaphore that the waiter takes; 0 for other locks
	Shared  bool      // the waiter waits for the read lock
	Polls   bool      // the waiter's client is not subscribed, and looks by itself
	Foreign bool      // the place is a window that is left to clients of Redisson
	Process *Process  // the waiter's process; nil if it is not known
}

// A Process is a process with a client of rlock. The client name of its connection describes it:
// "rlock:<program>:<host>:<pid>:<id>", with the client's ID at the end.
// Config.Advanced.NoClientName omits the name.
type Process struct {
	Program string // the base name of the program's executable
	Host    string // the host name of the machine or container, as the process sees it
	PID     int    // the process id, as the process sees it
	Addr    string // the address of its connection, as Redis sees it: "10.0.0.7:51234"
}

// String returns "orders@host[4711]".
func (p Process) String() string { return wire.Process(p).String() }

// The kinds that a [Lock] may have, besides [rlock.KindSemaphore]. Redis shows less than the
// constants of package rlock tell apart.
const (
	KindUnknown   rlock.Kind = ""           // no holders and no waiters
	KindLock      rlock.Kind = "lock"       // a plain, a fenced or a fair lock: they look alike in Redis
	KindReadWrite rlock.Kind = "read-write" // a ReadWriteLock
)
