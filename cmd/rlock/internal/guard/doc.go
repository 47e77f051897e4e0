// Package guard runs a command while a lock is held, and ends it before another client can get the
// lock.
//
// # When the lock is lost
//
// The lock's lease is renewed at a third of it. While Redis does not answer, the command goes on
// for as long as the lease is certain, and then is ended before another client can be granted the
// lock:
//
//	last renewal                                    TERM      KILL            lease ends
//	     |---------- the command runs ---------------|- grace -|--- margin ----|
//	     0                                                     97 %          100 %
//
// The margin is one fiftieth of the lease, in which the kernel ends the processes. The library
// leaves another hundredth and some milliseconds for the drift of clocks.
//
// A lock that was granted by the release of another client is certain for two seconds, until its
// first renewal. If that fails, grace and margin are shorter in proportion.
//
// If Redis reports that the lock is gone (it was unlocked by force, or its key was deleted),
// another client may hold it already. The command then has the grace, but at most one second,
// between TERM and KILL.
//
// Two cases cannot be ended in time: a process that left the command's process group, and the
// command while this process itself is stopped (SIGSTOP, a suspended machine). Let the resource
// compare fencing tokens if that matters.
//
// # When the command ends
//
// Processes that the command leaves behind in its group would continue without the lock. They are
// sent TERM, and KILL after the grace, before the lock is released.
package guard
