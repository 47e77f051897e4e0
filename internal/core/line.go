package core

// An Outcome is how a call has ended.
type Outcome uint8

const (
	Waiting   Outcome = iota // not yet
	Acquired                 // its owner holds the lock
	Denied                   // another owner holds the lock
	TimedOut                 // the same, after the time that the call had
	Cancelled                // its caller has left
	Closed                   // the client has closed
	Upgrades                 // its owner reads, and may not write before it has unlocked
	Failed                   // Redis has refused a command, and would do so again
	NotPassed                // the tenure that has passed the lock on does not have it any more
)

// A Way is how a call has got the lock.
type Way uint8

const (
	ByRedis   Way = iota // by its first attempt
	ByQueue              // by its ticket
	ByNesting            // its owner has had it
	ByHandoff            // from another owner of this process
	ByJoining            // beside readers of this process
	ByLinger             // in a tenure that has lingered
	ByPass               // from another client, which has passed it on
)

// A Waiter is a call that wants the lock. Its caller sets the first fields, and may use it again when it has returned.
type Waiter struct {
	Owner    OwnerID
	Mode     Mode
	Lease    Span   // 0: renewed until Unlock
	Waits    bool   // false: one attempt
	Until    Time   // when its wait is over; Never for one that only Cancel ends
	Linger   Span   // for how long the lock lingers after it; 0: not at all
	CallTime Span   // after how long a holder that was called has given way
	Part     bool   // it is for a lock over several, and that is told in its place
	Repeats  bool   // its owner may have other calls for the lock, which need not be a goroutine
	Handle   any    // of the level, nil for one that is unlocked by its owner
	Info     any    // of the level, the driver's
	Passed   ID     // of Resume: the tenure that has passed the lock on...
	Inherits uint64 // ...and its fencing token, 0 for none
	Tag      any    // the driver's

	// What becomes of the call. The lock sets these, and the caller reads them.
	Outcome Outcome
	Way     Way     // how it has got the lock
	Token   uint64  // the fencing token of its level, 0 for a lock without
	Ticket  *Tenure // that stands for it; nil for none

	attempts   int8 // how many Acquires it may send
	retried    bool // it was given one more
	last       bool // its ticket is looked for a last time
	fails      int  // its commands in a row without an answer
	rest       Time // until when nothing is sent for it
	began      Time
	alarm      Time // when its goroutine was told to call Tick
	prev, next *Waiter
	inLine     bool
	counted    bool // among the line's repeats
}

// A line has the waiters of one lock in the order in which they came.
type line struct {
	first, end *Waiter
	len        int
	repeats    map[OwnerID]int // waiters whose owners may have several, but for one at most: the first
}

func (l *line) join(w *Waiter) {
	w.prev, w.next, w.inLine = l.end, nil, true
	if l.end != nil {
		l.end.next = w
	} else {
		l.first = w
	}
	l.end = w
	l.len++
	if w.counted = w.Repeats && l.len > 1; w.counted {
		if l.repeats == nil {
			l.repeats = make(map[OwnerID]int)
		}
		l.repeats[w.Owner]++
	}
}

func (l *line) leave(w *Waiter) {
	if !w.inLine {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.end = w.prev
	}
	w.prev, w.next, w.inLine = nil, nil, false
	l.len--
	if w.counted {
		w.counted = false
		if l.repeats[w.Owner]--; l.repeats[w.Owner] == 0 {
			delete(l.repeats, w.Owner)
		}
	}
}
