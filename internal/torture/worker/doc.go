// Package worker is a process of torture that locks: its goroutines take random locks in all
// the ways there are, and record the results and their beliefs (package history). It may be
// stopped or killed at any moment.
//
// It reads its [Job] as a line of JSON and begins at once. After that it answers
// each word that it reads with a line of JSON:
//
//	storm     goroutines go on                                        Done
//	settle    they complete their sections, and rest                  Settled
//	cancels   all cancel calls that wait for one lock, while at rest  Cancels
//	idle      the resources of an idle worker                         Idle
//	end       the client closes, and the process ends                 Ended
//
// # Failures
// A call that fails is an outcome and is recorded. A waiter that does not get the lock,
// though nothing is broken any more, is named in Settled. A goroutine that is left at the end
// is named in Ended.
package worker
