package lease

import "time"

// Drift is how much less than ttl a lease of that length is believed to last: a hundredth of ttl and 2 ms, as in the Redlock algorithm, for clocks
// that run at different rates, and one tick of the wheel, since that is how late
// the keeper may tell the holder that the lease is over.
//
// A lease no longer than its drift is never valid.
func Drift(ttl, tick time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond + tick
}

// A Trust is how long a lease that Redis granted may be believed. Time is counted
// from before the command was sent, never from its answer: a slow answer must not
// stretch the lease. (River's leadership does the same; etcd's client counts from
// the answer, and believes for one round trip too long.)
//
// Elapsed time is the larger of the monotonic and the wall clock's. A
// monotonic clock stops while the machine sleeps (golang/go#24595), and Redis does
// not. A wall clock stepped forward thus costs a lease that was still good; it
// never makes one believed that is over.
//
// The zero Trust is never valid, and assigning it forgets a lease that is known to
// be lost. Trust has no clock: times are passed in, as [time.Now] returns them,
// since one that was stripped of its monotonic reading can be judged by the wall
// clock only. A Trust is not safe for concurrent use; its owner's mutex guards it.
//
// A Trust judges time and nothing else. It becomes valid again if a command is
// confirmed after the lease had run out: whether a loss that was already told is
// final is its owner's decision.
type Trust struct {
	believed span // of the last command that counts
	pending  span // of the command that was last sent; believed once it is confirmed
}

// A span is a stretch of time. The zero span ended long ago.
type span struct {
	from  time.Time
	lasts time.Duration // may be negative, for a lease shorter than its drift
}

// left returns the rest of s, negative when it is over.
func (s span) left(now time.Time) time.Duration {
	return s.lasts - max(now.Sub(s.from), time.Duration(now.UnixNano()-s.from.UnixNano()))
}

// Sent notes that a command which sets the lease to ttl is about to be sent; now
// was read before. The caller passes the [Drift] of ttl.
//
// A command that shortens the trust does so at once, since it may be executed whatever
// becomes of its answer; one that lengthens it does so when it is [Trust.Confirmed]. At
// most one command of a lease is in flight at a time. A command without an answer counts as
// over only when Redis cannot execute it after the next one: if that one asks for longer,
// the straggler would shorten the lease unnoticed.
func (t *Trust) Sent(now time.Time, ttl, drift time.Duration) {
	t.pending = span{from: now, lasts: ttl - drift}
	if t.pending.lasts < t.believed.left(now) {
		t.believed = t.pending
	}
}

// Confirmed notes that the command last given to [Trust.Sent] was executed. The
// lease is now believed until ttl less drift after that command was sent. Before
// any Sent it changes nothing.
func (t *Trust) Confirmed() { t.believed = t.pending }

// Valid reports whether the lease may be believed at now.
func (t *Trust) Valid(now time.Time) bool { return t.believed.left(now) > 0 }

// SentAt returns when the command last given to [Trust.Sent] was sent, the zero time
// if there was none.
func (t *Trust) SentAt() time.Time { return t.pending.from }

// Until returns when the lease ends unless it is confirmed anew, the zero time for
// the zero Trust. Use it to be woken, and [Trust.Valid] to decide: a time cannot
// tell that the machine slept.
func (t *Trust) Until() time.Time { return t.believed.from.Add(t.believed.lasts) }
