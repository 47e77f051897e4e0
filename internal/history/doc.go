// Package history records what the users of a lock believe, so that
// internal/checker can say afterwards whether it was true.
//
// Each process has one [Recorder], with a file of its own. A worker, which is a
// goroutine, notes each operation twice, before it and after:
//
//	call := recorder.Begin(history.Op{Method: history.Lock, Name: name, Owner: owner, Lease: lease, Kept: true})
//	err := lock.Lock(ctx)
//	call.End(history.Result{Outcome: history.Acquired, Count: lock.HoldCount(ctx)})
//	...
//	call.Look(func() history.Belief { return history.Belief{Held: lock.IsHeld(ctx)} })
//	...
//	unlock := recorder.Begin(history.Op{Method: history.Unlock, Name: name, Owner: owner})
//	err = lock.Unlock(ctx)
//	unlock.End(history.Result{Outcome: history.Released})
//
// A [Hold] can say until when it is valid; it is looked at by [Sight]. When its
// Done is closed because of a loss, the worker notes it with [Call.Told]. Who
// injects faults notes them with [Recorder.Inject], so that the checker knows when
// Redis could only forget.
//
// On a busy machine a process may not run for a while, and be late for it.
// [Recorder.Pulse] notes when, so that nobody else is blamed for it.
//
// # What it promises
//
// All times are of one clock for all processes of the machine ([Time]), and are
// read such that a worker that is stopped in between believes less, never more:
// before a call, before a look, after a return.
//
// An event is one line of JSON, written by one write(2) to a file that is appended
// to. So kill -9 loses nothing that was believed before: an operation without a
// return is one whose outcome nobody knows. A last line that was cut is ignored.
//
// # Failure
//
// A recorder that cannot write goes on without, and says so at Close: the history
// is then worth nothing.
package history
