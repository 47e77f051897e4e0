package inspect

import (
	"reflect"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
)

// Stats are figures about a client, like sql.DBStats about a pool. All but Held and Waiting only
// grow, from 0 when the client was made: the difference between two Stats counts the events between
// them.
//
// A multi or red lock is not counted; each of its parts is, by the part's client.
type Stats struct {
	Held    int64 // the number of locks that are held now, once for each owner
	Waiting int64 // the number of calls that wait now

	// Acquired is the number of acquisitions in any way but nesting.
	Acquired int64
	// The fields below count acquisitions by rlock.AcquiredBy.
	AcquiredByNesting int64
	AcquiredByJoining int64
	AcquiredByHandoff int64
	AcquiredByRedis   int64
	AcquiredByQueue   int64
	AcquiredByPass    int64

	// Answered is the number of calls of packages once and idempotent that ended without the lock,
	// because another process, or a kept value, gave them their result.
	Answered int64
	Denied   int64 // the number of calls that ended with rlock.ErrNotAcquired, or with false
	Canceled int64 // the number of calls that gave up because their context ended
	// Failed is the number of calls that ended with another error. Calls with invalid arguments, or
	// with a context that had already ended, do not count.
	Failed int64

	// WaitTime is the sum of the times from the beginning of a call for a lock to its end, with
	// round trips.
	WaitTime time.Duration

	// Lost is the number of locks that were lost for any reason except the end of the lease for
	// which their owner had asked.
	Lost int64
	// The fields below count losses by rlock.LossReason.
	LostUnrenewed   int64
	LostLeaseEnded  int64
	LostHeldTooLong int64
	LostKeyGone     int64
	LostForced      int64

	Renewals       int64 // the number of renewals that were sent, with changes of depth or owner
	RenewalsFailed int64 // the number of renewals that Redis did not confirm

	// Tracked is the number of keys of held locks that Redis watches for the client now: see
	// rlock.Advanced.TrackedKeys. TrackingRefused is the number of connections over which Redis
	// refused to watch keys.
	Tracked         int64
	TrackingRefused int64

	Commands int64 // the number of commands that were sent to Redis for locks; many renewals share one command
}

// Add returns the sums of the figures of two clients.
func (s Stats) Add(other Stats) Stats {
	to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(other)
	for i := range to.NumField() { // all are numbers of 64 bits
		to.Field(i).SetInt(to.Field(i).Int() + from.Field(i).Int())
	}
	return s
}

// Stats returns figures about the client. It takes some microseconds, however many locks there are,
// and allocates nothing. Each figure is true at a moment during the call. It may also be called
// after Close.
func (i Inspector) Stats() Stats {
	n := i.driver.Counts()
	s := Stats{
		Held:              n.Held,
		Waiting:           n.Waiting,
		AcquiredByNesting: n.Acquired[contract.ByNesting],
		AcquiredByJoining: n.Acquired[contract.ByJoining],
		AcquiredByHandoff: n.Acquired[contract.ByHandoff],
		AcquiredByRedis:   n.Acquired[contract.ByRedis],
		AcquiredByPass:    n.Acquired[contract.ByPass],
		AcquiredByQueue:   n.Acquired[contract.ByQueue],
		Answered:          n.Answered,
		Denied:            n.Denied,
		Canceled:          n.Canceled,
		Failed:            n.Failed,
		WaitTime:          n.Waited,
		LostUnrenewed:     n.Lost[contract.LostUnrenewed],
		LostLeaseEnded:    n.Lost[contract.LostLeaseEnded],
		LostHeldTooLong:   n.Lost[contract.LostHeldTooLong],
		LostKeyGone:       n.Lost[contract.LostKeyGone],
		LostForced:        n.Lost[contract.LostForced],
		Renewals:          n.Renewals,
		RenewalsFailed:    n.RenewalsFailed,
		Tracked:           i.driver.Tracked(),
		TrackingRefused:   i.driver.Redis.TrackingRefused(),
		Commands:          i.driver.Redis.Commands(),
	}
	s.Acquired = s.AcquiredByJoining + s.AcquiredByHandoff + s.AcquiredByRedis + s.AcquiredByQueue + s.AcquiredByPass
	s.Lost = s.LostUnrenewed + s.LostHeldTooLong + s.LostKeyGone + s.LostForced
	return s
}
