// Package elect chooses a leader among processes: the process that holds a fenced lock.
//
//	candidate := elect.New(client, "lock:reports", elect.WithText("10.0.0.7:8080"))
//	err := candidate.Run(ctx, func(ctx context.Context, term *rlock.Hold) error {
//		return report(ctx) // until ctx ends
//	})
//
// A term is the time between an acquire and the release or loss of the lock. It has a fencing
// token, larger than the tokens of all terms before it.
//
// # The end of a term
//
// The watchdog renews the lock at each third of its lease (Config.Lease, 30 s by default). If two
// thirds have passed without a renewal, the context of the work ends, so that the work has the last
// third to stop. If the work still runs when the lease ends, another process may lead beside it:
// the function of [WithOverrun] is called, which may end this process. If the lock is lost at once,
// for example by ForceUnlock, the context ends at once, and the work has a third of a lease to
// stop, too.
//
// # The leader's text
//
// While a process leads, Redis has its text, by default its host and process ID, which every
// process can read with [Candidate.Leader]. "rlock show" prints it.
//
// Every process can also be notified of each new leader, with [Candidate.Observe].
package elect
