package core

// A Kind is what tells one kind of lock from another.
//
// A read-write lock is of no kind of its own: its readers have the mode Shared. A semaphore has a Lock for each owner.
type Kind struct {
	Strict  bool  // the locks are granted in the order of all waiters of all clients: each has a ticket, and no hand-off passes one
	Fenced  bool  // each hold has a fencing token
	Permits int32 // how many permits of a semaphore may be held at once; 0 for other locks
}
