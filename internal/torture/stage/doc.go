// Package stage sets up the targets of a run of torture: a Redis of one topology, a network
// in front of each of its nodes, and the processes that lock.
//
//	worker 1 --+                 +--> network --> node 1   admin
//	worker 2 --+-- rlock.Client -+--> network --> node 2  <----- the faults
//	worker n --+                 +--> network --> node n
//
// Workers reach the nodes only through the networks, whatever addresses a Cluster or a
// Sentinel names: each dials the network that stands for the node. The faults and the checks
// connect to the nodes directly, as another user, so that faults of the workers' connections
// do not affect them.
//
// # Failures
//
// Open returns an error if the servers cannot be set up. After it every method returns
// errors: a fault may meet a server that another fault has stopped. Close ends all processes
// in whatever state they are; if this program is killed, the kernel ends them (on Linux).
package stage
