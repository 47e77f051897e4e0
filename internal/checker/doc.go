// Package checker decides whether the users of a lock believed the truth. It reads the
// histories that internal/history records, of any number of processes, and knows nothing of
// how the lock works.
//
//	events, err := history.ReadFiles(paths...)
//	report := checker.Check(events, checker.Options{Late: 100 * time.Millisecond})
//	fmt.Print(report)
//
// # Beliefs
//
// A hold is the time in which one owner has a lock, from the return of the first acquire to
// the call of the last unlock. In between the owner gets reports, and each of them is a claim
// about Redis that can be wrong:
//
//	ValidUntil returns t        no other owner is granted the lock before t
//	Valid, IsHeld return true   no other owner was granted it until now
//	Unlock returns no error     the same
//	Done is closed, ErrLost     no claim is made from now on
//
//	acquire        acquire                                unlock         unlock
//	called         returned      looks: valid until u     called         returned
//	  |---------------|---------------------|---------------|---------------|
//	                  |<--- believed: to u, the unlock or the loss -->|
//
// # Rules
//
//	Overlap    two owners never believe at the same time to have the lock, unless both are
//	           readers; owners never believe to have more permits than there are
//	Count      an owner is told as many levels as it took and has not given back
//	Token      fencing tokens grow from hold to hold, and stay within one
//	Overdue    no claim is made after the lease, the promised time, the loss, the unlock
//	NeverTold  a holder that lost the lock is notified: by Done, or by the unlock
//	ToldLate   a holder is notified before another owner can have been granted the lock
//	Stranded   no owner waits while the lock is free and nothing is broken, and no reader
//	           while others read and no writer waits
//	Refused    no call is refused a lock that no other owner has or waits for
//	Slow       no call goes on after the end of its context
//
// A reader's hold and a writer's hold of one owner are two holds, which may begin and end
// independently. The order in which waiters are served is not judged.
//
// # Faults
//
// Where a fault makes Redis forget a grant, two owners may believe, and no lock in Redis
// could prevent it: until a renewal, or the end of the lease. Such overlaps, and tokens that
// begin anew, are not violations, but they are reported beside them. A kept hold must learn
// its loss at the next renewal even so. Any fault excuses waiting as long as it lasts; a
// fault that stops a process excuses as long a delay of its reports, and so does a machine
// that had no time for it.
//
// # Unknown outcomes
//
// An operation without a return may have had its effect or not. It proves nothing, and
// neither does a question that the owner was not asked: a history is judged by the claims in
// it.
package checker
