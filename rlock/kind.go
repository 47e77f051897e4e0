package rlock

// A Kind is the sort of a lock.
type Kind string

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"  // of a ReadWriteLock
	KindWrite     Kind = "write" // of a ReadWriteLock
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi" // made of other locks, see NewMultiLock
	KindRed       Kind = "red"   // made of locks on several servers, see NewRedLock

	// Redis tells less, see [Client.Inspect].

	KindUnknown   Kind = ""           // no holders and no waiters
	KindLock      Kind = "lock"       // a plain, a fenced or a fair lock: they look alike
	KindReadWrite Kind = "read-write" // a ReadWriteLock
)
