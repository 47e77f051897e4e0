// Package lease keeps leases alive. A [Wheel] has the times at which leases are due, a [Keeper] sends
// due leases in batches, and [Drift] is the part of a lease that must not be relied on.
// It knows nothing of locks, nor of Redis.
//
// # The keeper
//
// A [Keeper] keeps Renewables, each with an [Entry] embedded. A [Renewable] schedules itself for
// the time at which something must be done about it, for example a third of its lease. At that time
// [Renewable.Due] asks whether it must be sent; if so it goes into a batch with others of its
// group, which is a node.
//
//	    the time comes          true, and room
//	  +----------------> asked ------------------> in flight --+
//	  |                  (Due)                        |        |
//	scheduled            ^   |true, no room           |        |
//	  ^                  |   v                        |        |
//	  |  room, or time   +- queued <------------------+        |
//	  |  for a probe                no answer from the node    |
//	  |                                                        |
//	  +--------------------------------------------------------+
//	       it has its outcome: it schedules itself
//
// A nudge leads to asked from every state, after the pace and after the flight. A renewable that is
// queued or in flight may be scheduled as well, usually for the end of its validity, and is asked
// at that time. This is how a holder learns of its loss while its node does not answer.
// [Keeper.Stop] leads out of every state.
//
//   - A renewable is in one batch at a time. Nudged or due during its flight, it is
//     asked again afterwards.
//   - Groups do not wait for each other. At most [Config].Flights batches of one group are in
//     flight, beside the batches of other groups.
//   - A nudge says that something changed. It is sent at once, or a pace (1 ms) after
//     the last send began; however many nudges come in between, the state of that moment
//     is sent, and the last one is never lost.
//
// # Failure
//
//	one command failed        the renewable's business: it schedules its retry
//	the node did not answer   the batch waits, with all others of the group. One batch
//	                          is tried after 50 ms, then after 100 ms, and so on up to a
//	                          maximum; with the first answer everything goes, at once
//	Send does not return      its group goes on with the batches that it has left; what
//	                          is in it is asked at its times, and finds that it is over
//	the machine slept         everything scheduled is asked within a second of waking,
//	                          once it has slept for 100 ms since it was last asked
//	the process was stopped   the wheel catches up by the number of the tick
//	Due or Send panics        the process ends. A panic is a bug and must be seen
//
// # Cost
//
// One goroutine, and one for each batch in flight. With nothing scheduled there is no timer;
// otherwise it sleeps until the next slot with something in it, for at most a second. Scheduling
// wakes the keeper only for a time before that wake, and stopping never does, so a lock taken and
// released again costs two passes through a mutex.
package lease
