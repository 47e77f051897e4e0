// Package fault has the faults of torture. A [Kind] is a way to break something; a [Fault] is one that has been chosen, with
// its figures, and is injected and healed once, or again and again.
//
//	          Inject                Heal
//	(whole) ----------> broken ------------> (whole)
//	   |                  |  ^ a fault that repeats itself goes on by
//	   | Inject: error    +--+ itself until it is healed
//	   v
//	(missed)
//
// # Failures
//
// Faults are combined, so that one may find its server stopped by another: then
// Inject fails and the fault is missed, which is counted and harms nothing. Heal may
// be called again until it succeeds, and also after an Inject that failed.
//
// # Which faults may cost a lock
//
// Redis forgets a lock in a restart without an append-only file, FLUSHALL, DEL, eviction,
// and, since it replicates asynchronously, in an unplanned failover. For those [Kind.Forgets]
// is true: two holders at once are then not the fault of the lock, and the report counts them
// apart.
package fault
