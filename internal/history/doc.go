// Package history records the holds and losses that the users of a lock observe. internal/checker
// judges the record afterwards.
//
// Each process has one [Recorder], with a file of its own. A worker, which is a goroutine, notes
// each call for a lock twice, before it and after, and so how the level is given back:
//
//	call := recorder.Begin(history.Op{Method: "Lock", Names: []string{name}, Owner: owner, Lease: lease, Kept: true})
//	err := lock.Lock(ctx)
//	call.End(history.Result{Outcome: history.Acquired, Count: lock.HoldCount(ctx)})
//	...
//	call.Look(func() history.Belief { return history.Belief{Held: lock.IsHeld(ctx)} })
//	...
//	call.Gives(history.Now())
//	err = lock.Unlock(ctx)
//	call.Gave(history.Result{Outcome: history.Released})
//
// When a handle's context ends because of a loss, the worker notes it with [Call.Told]. An injector
// of faults notes them with [Recorder.Inject], so that the checker knows when Redis may have
// forgotten a grant.
//
// On a busy machine a process may not run for a while, and be late therefore. [Recorder.Pulse]
// notes such times, so that the checker does not blame the lock.
//
// # What it promises
//
// All times are of one clock for all processes of the machine ([Time]). They are read so that a
// worker that is stopped in between claims less, never more: before a call, before a look, after a
// return.
//
// In a file an event is one line of JSON, which is appended by one write(2). So kill -9 loses no
// earlier event: a call without a return has an unknown outcome. A last line that was cut off is
// ignored.
//
// # Failure
//
// A recorder that cannot write goes on without, and Close returns the error: the history is then of
// no use.
package history
