// Package tests_test has the tests of package rlock, in packages that each take less than a minute.
// They use what rlock exports. The floors below have tests of their own: the decisions in
// rlock/internal/core, their order in rlock/internal/explore, the way to carry them out in
// rlock/internal/driver. The servers, the clients and the table of kinds are in package testbed.
//
//	stories    most of what follows for one lock in virtual time, as data: see TestStories
//	calls      what every call promises, for every kind of lock
//	losses     how long a hold is valid, its renewals, and the news of its loss
//	queue      the order of owners: the queue, turns with foreign clients
//	kinds      readers and writers, permits, fencing tokens
//	groups     locks over several locks and servers
//	servers    connections, rights, refusals, outages, failovers
//	recipes    locks composed of others, as in docs/recipes.md
//	redisson   locks that clients of Redisson hold, wait for and leave
//	programs   random programs over everything that is exported, under random faults, and wide loads:
//	           see internal/programs
//	insight    observers, logs, counters, Inspect, cycles of waits
package tests_test
