// Package stage sets up the targets of a run of torture: a Redis of one topology, and the processes that lock. The faults and
// the checks connect to the nodes as another user than the processes, so that faults of the workers' connections do not affect
// them. Each worker has networks of its own, in its process (package together).
//
// # Failures
//
// Open returns an error if the servers cannot be set up. After it every method returns errors: a fault may meet a server that
// another fault has stopped. Close ends all processes in whatever state they are; if this program is killed, the kernel ends
// them (on Linux).
package stage
