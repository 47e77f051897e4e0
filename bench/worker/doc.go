// Package worker is the processes of a measurement. The benchmark starts itself, once for
// each process of a scenario, so that processes are real and the client CPU is the
// contender's, not the harness's.
//
//	benchmark                         worker
//	    | -- Job, a line of JSON ------> |  open clients, warm up
//	    | <------------------- "ready" - |
//	    | -- when to begin ------------> |  run until the time is up, then drain
//	    | <---- Report, a line of JSON - |
//
// # Counters
//
// A section counts if it ended in the window of Job.Duration. After the window no goroutine
// begins another wait, but running waits may finish (the drain), to distinguish a waiter that
// is never woken from one that waits:
//
//	waiting --> has the lock                            its wait is recorded
//	   |------> Lock failed by its own rules            a failure
//	   |------> Job.Stall without a section
//	   |        of any process                          stuck: a lost wake-up
//	   +------> Job.Drain is over, others do enter      cut: its wait so far is recorded
//
// A contender that is not in Go has a program that speaks the same protocol, counts
// by the same rules, and maps the same memory; it may do several jobs in turn.
//
// Exclusion is checked by a Ground: memory that all processes of a measurement map, with the
// number of running sections for each lock. It takes no part in the work of the contender.
package worker
