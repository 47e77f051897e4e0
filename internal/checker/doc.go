// Package checker says whether what the users of a lock believed was true. It reads
// the histories that internal/history records, in whatever processes, and knows
// nothing of how the lock works.
//
//	events, err := history.ReadFiles(paths...)
//	report, err := checker.Check(events, checker.Options{Late: 100 * time.Millisecond})
//	fmt.Print(report)
//
// # What is believed
//
// A hold is what one owner has of a lock, from the return of the first acquire to
// the call of the last unlock. In between the owner is told things, and each of
// them is a claim about Redis that can be wrong:
//
//	ValidUntil says t           nobody else is granted the lock before t
//	Valid, IsHeld say yes       nobody else was granted it until now
//	Unlock returns no error     nor until now
//	Done is closed, ErrLost     no claim is made from now on
//
//	acquire        acquire                                unlock         unlock
//	called         returned      looks: valid until u     called         returned
//	  |---------------|---------------------|---------------|---------------|
//	                  |<--- believed: to u, the unlock or the loss -->|
//
// # What is proved
//
//	Overlap    two owners never believe at the same time, unless both are readers
//	Order      there is an order in which one lock, in one place, could have done it
//	           all: reentrant, expiring, shared by readers, fenced (Porcupine)
//	Count      an owner is told as many levels as it took and has not given back
//	Token      fencing tokens grow from hold to hold, and stay within one
//	Overdue    no claim is made after the lease, the promised time, the loss, the unlock
//	NeverTold  whoever lost the lock is told: by Done, or by the unlock
//	ToldTwice  and once only in each way
//	ToldLate   and not after another can have been granted the lock
//	Stranded   nobody waits while the lock is free and nothing is broken, nor a reader
//	           while others read and no writer waits
//	Leftover   nothing is left behind
//
// What a reader has of a lock and what it has as a writer are two holds of one
// owner, which may begin and end as they like. In what order waiters are served is
// not proved but told: by how many who came later the unluckiest of them was passed
// ([Report.MostPassed]).
//
// # What a fault excuses
//
// Where a fault makes Redis forget what it has granted, two owners may believe, and
// no lock in Redis could prevent it: until a renewal, or the end of the lease. Such
// overlaps, and tokens that begin anew, are not violations, but they are reported
// beside them. A kept hold must learn its loss at the next renewal even so. Any
// fault excuses waiting as long as it lasts; one that stops a process excuses that
// it hears so much later, and so does a machine that had no time for it.
//
// # What is not known
//
// An operation without a return may have had its effect or not. It proves nothing,
// and neither does what an owner was not asked for: a history is judged by the
// claims that are in it. A part of a history for which Porcupine finds no verdict
// in time is counted as undecided.
package checker
