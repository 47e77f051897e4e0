// Package stage sets up what a run of torture breaks: a Redis of one topology,
// a network in front of each of its nodes, and the processes that lock.
//
//	worker 1 --+                 +--> network --> node 1   admin
//	worker 2 --+-- rlock.Client -+--> network --> node 2  <----- the faults
//	worker n --+                 +--> network --> node n
//
// Workers reach the nodes only through the networks, whatever addresses a
// Cluster or a Sentinel names: each dials the network that stands for the node.
// The faults and the checks reach the nodes past them, as another user, so that
// what is broken for the workers is not broken for them.
//
// # What happens on failure
//
// What cannot be set up is an error of [Open]. After it everything returns
// errors: a fault may meet a server that another fault has stopped. Close ends
// all processes in whatever state they are; if this program is killed, the
// kernel ends them (on Linux).
package stage
