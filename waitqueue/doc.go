// Package waitqueue is the line in which the goroutines of one process wait for one lock.
//
// A [Queue] is first in, first out. To join, to leave from any place and to look at the first are
// O(1), and none of them allocates: a [Waiter] is a field of the struct that waits.
//
// The queue says which waiter is next, and nothing else. It knows nothing of the resource, of
// Redis, of time, and of the sleep of goroutines: its owner guards it with the mutex that guards
// the resource, and changes both in one critical section. So no wake-up is lost between the two
// changes.
//
// A waiter that gives up calls [Queue.Leave], as in golang.org/x/sync/semaphore: true means that it
// has left the line and will not be chosen. false means that it was chosen before: then it must
// pass the resource on, or the resource is lost for all waiters behind it.
//
// Package core has its calls in such a line.
package waitqueue
