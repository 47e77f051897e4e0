package cost

import (
	"fmt"
	"time"
)

// A Table has the costs that a design's cost is made of. Times are CPU time of Redis for
// one of what the name says, sizes are bytes in Redis.
type Table struct {
	Server string // name and version

	MirrorAlone  time.Duration // a renewal of one lock in a call of its own
	Mirror32     time.Duration // a renewal of one lock of 32 in a call
	Pair         time.Duration // a renewal of one lock by PEXPIRE GT and HGET, 0 where PEXPIRE has no GT (before Redis 7)
	Look32       time.Duration // the same without the renewal: is the lock still there?
	Renew        time.Duration // PEXPIRE of a client lease
	Attach32     time.Duration // to attach one lock of 32, or to renew its backstop
	Field32      time.Duration // HPEXPIRE GT and HMGET of one field of 32 in a call, 0 where Redis has none
	FieldAlone   time.Duration // of one field in a call of its own
	Acquire      time.Duration // of a free lock
	Refused      time.Duration // an acquire of a lock with a lease of its own
	RefusedNamed time.Duration // of a lock with a client lease that the call names
	Take         time.Duration // of a lock of a dead client, by the call that names its client lease
	Release      time.Duration

	PairClient   time.Duration // CPU time of this process for a Pair in a pipeline of 1 000
	RenewClient  time.Duration // CPU time of this process for a Renew
	MirrorClient time.Duration // and for a lock of a Mirror32
	End          time.Duration // to cancel the context of one hold, of as many at once as locks were measured

	LockBytes     float64 // a lock with its lease
	AttachedBytes float64 // an attached lock
	LeaseBytes    float64 // a client lease
	FieldBytes    float64 // a field of a hash with a time to live
}

// MirrorCall returns the cost of a call without its locks, from the costs of one lock
// alone and of one of 32.
func (t Table) MirrorCall() time.Duration { return (t.MirrorAlone - t.Mirror32) * 32 / 31 }

// MirrorLock returns the cost of each lock of a call without the call.
func (t Table) MirrorLock() time.Duration { return t.MirrorAlone - t.MirrorCall() }

// FieldCall returns the cost of HPEXPIRE and HMGET without their fields.
func (t Table) FieldCall() time.Duration { return (t.FieldAlone - t.Field32) * 32 / 31 }

// FieldEach returns the cost of each field of a call without the calls.
func (t Table) FieldEach() time.Duration { return t.FieldAlone - t.FieldCall() }

// Rows returns the table as text, a name and a figure in each row.
func (t Table) Rows() [][2]string {
	micros := func(d time.Duration) string { return fmt.Sprintf("%.2f µs", d.Seconds()*1e6) }
	bytes := func(x float64) string { return fmt.Sprintf("%.0f B", x) }
	rows := [][2]string{
		{"a lock is renewed, in a call of its own", micros(t.MirrorAlone)},
		{"one of 32 in a call, as rlock does", micros(t.Mirror32)},
		{"a lock is renewed by PEXPIRE GT and HGET", micros(t.Pair)},
		{"one of 32 is looked at and not renewed", micros(t.Look32)},
		{"a client lease is renewed (PEXPIRE)", micros(t.Renew)},
		{"a lock is attached, or its backstop renewed, one of 32", micros(t.Attach32)},
		{"a free lock is acquired", micros(t.Acquire)},
		{"a lock is released", micros(t.Release)},
		{"an acquire is refused, the lock has a lease of its own", micros(t.Refused)},
		{"an acquire is refused, the client lease that it names is good", micros(t.RefusedNamed)},
		{"a lock of a dead client is taken", micros(t.Take)},
		{"this client, a renewal of one lock of 32", micros(t.MirrorClient)},
		{"this client, a renewal by PEXPIRE GT and HGET", micros(t.PairClient)},
		{"this client, a renewal of a client lease", micros(t.RenewClient)},
		{"this client, the context of one hold of many is cancelled", micros(t.End)},
		{"memory of a lock", bytes(t.LockBytes)},
		{"memory of an attached lock", bytes(t.AttachedBytes)},
		{"memory of a client lease", bytes(t.LeaseBytes)},
	}
	if t.FieldAlone > 0 {
		rows = append(rows, [][2]string{
			{"a lock that is a field of a hash is renewed by HPEXPIRE GT and HMGET, alone", micros(t.FieldAlone)},
			{"one of 32 fields in these two", micros(t.Field32)},
			{"memory of such a field", bytes(t.FieldBytes)},
		}...)
	}
	return rows
}
