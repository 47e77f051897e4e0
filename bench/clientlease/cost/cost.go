package cost

import (
	"time"
)

// A Table has the costs that a design's cost is made of. Times are CPU time of Redis for
// one of what the name says, sizes are bytes in Redis.
type Table struct {
	Server string // name and version

	MirrorAlone  time.Duration // a renewal of one lock in a call of its own
	Mirror32     time.Duration // a renewal of one lock of 32 in a call
	Look32       time.Duration // the same without the renewal: is the lock still there?
	Renew        time.Duration // PEXPIRE of a client lease
	Attach32     time.Duration // to attach one lock of 32, or to renew its backstop
	Field32      time.Duration // HPEXPIRE of one field of 32 in a call, 0 where Redis has none
	FieldAlone   time.Duration // of one field in a call of its own
	Acquire      time.Duration // of a free lock
	Refused      time.Duration // an acquire of a lock with a lease of its own
	RefusedNamed time.Duration // of a lock with a client lease that the call names
	Take         time.Duration // of a lock of a dead client, by the call that names its client lease
	Release      time.Duration

	RenewClient  time.Duration // CPU time of this process for a Renew in a pipeline of 1 000
	MirrorClient time.Duration // and for a lock of a Mirror32
	End          time.Duration // to cancel the context of one hold, of as many at once as locks were measured

	LockBytes     float64 // a lock with its lease
	AttachedBytes float64 // an attached lock
	LeaseBytes    float64 // a client lease
	FieldBytes    float64 // a field of a hash with a time to live
}

// MirrorCall returns what a call costs beside the locks in it, from the costs of one lock
// alone and of one of 32.
func (t Table) MirrorCall() time.Duration { return (t.MirrorAlone - t.Mirror32) * 32 / 31 }

// MirrorLock returns what each lock of a call costs beside the call.
func (t Table) MirrorLock() time.Duration { return t.MirrorAlone - t.MirrorCall() }

// FieldCall returns what a call of HPEXPIRE costs beside the fields in it.
func (t Table) FieldCall() time.Duration { return (t.FieldAlone - t.Field32) * 32 / 31 }

// FieldEach returns what each field of a call costs beside the call.
func (t Table) FieldEach() time.Duration { return t.FieldAlone - t.FieldCall() }
