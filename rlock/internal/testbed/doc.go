// Package testbed is where the tests of package rlock run. Only tests import it.
//
// A test of one promise begins with one of these:
//
//	Bubble            a [World]: an embedded server, in virtual time, in parallel with other tests
//	EachBubble        the same once for each case
//	EachVirtualKind   a [VirtualKind]: the same once for each kind of lock
//	Everywhere        a [Site]: an embedded server, a Redis, one behind Sentinel, and a Cluster, in real time
//	EachKind          a [Subject]: the same once for each kind of lock, where it differs from others
//
// A [Client] of a World has a network of its own, with a record of what it carried and a rule for
// what it loses, and a log. The rest is what several packages of tests need: a [Foreigner] contends
// as a thread of Redisson does; [Take], [Tries] and others call a lock, and fail the test if the call
// returns an error.
//
// TestMain of each package of tests is [Main], which adds the flags -long and -everything.
package testbed
