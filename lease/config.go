package lease

import (
	"context"
	"time"
)

// A Renewable is a lease that a [Keeper] keeps alive. The keeper calls Due and Group without its
// mutex, from one goroutine, for one renewable after the other. They may take a mutex of their own
// and call the keeper, but must not wait for a network. The keeper's methods may be called with the
// renewable's mutex held.
type Renewable interface {
	// Entry returns the entry embedded in the renewable, always the same one. It takes no mutex.
	Entry() *Entry

	// Group returns the node on which the lease is kept, which may change. It is called each time
	// Due has returned true. All leases of a batch are on one node.
	Group() uint32

	// Due reports whether the lease must be sent as soon as there is room, judged by the state of
	// the renewable. It is called when a time given to [Keeper.Schedule] has come, after a
	// [Keeper.Nudge], before each retry after a node did not answer, and when the machine may have
	// slept. So it may be called at any time, also when there is nothing to do.
	//
	// A call of Due ends the schedule of the renewable. A renewable that lives on must schedule
	// itself again: if it waits to be sent, for the end of its validity, so that it learns of this
	// even if its node never answers; else for its renewal. A renewable that is over does not
	// schedule itself, and returns false.
	Due(now time.Time) (send bool)
}

// A Sender sends one batch to the node of a group, and tells each renewable its own outcome. It is
// called from a goroutine of the batch, for several batches at a time, but never for two that have
// a renewable in common.
//
// While it builds the commands, it must look at each renewable under the renewable's own mutex and
// omit stopped entries: see [Keeper.Stop].
//
// reached reports whether the node answered at all. If it did, a renewable whose own command failed
// has to call Schedule for its retry. If it did not, the outcome of the whole batch is unknown, and
// the keeper tries all of it again. ctx ends when the keeper is closed. A Sender must return within
// a time limit of its own: until then nothing in its batch is sent again, though each renewable is
// still asked at its times, and so finds that it is over. A Sender must not keep or change the
// batch, which is filled again.
type Sender func(ctx context.Context, group uint32, batch []Renewable) (reached bool)

// Config says how a [Keeper] works. Only Send is required.
type Config struct {
	// Send sends a batch.
	Send Sender

	// Tick is the precision of times: nothing is due early, or more than a tick late. A finer tick
	// wakes the keeper more often while many leases are kept. A thousandth of the lease, between 1
	// and 10 ms, is a good choice. Defaults to 10 ms.
	Tick time.Duration

	// Batch is the largest number of renewables that are sent together. Other commands wait longer
	// behind larger batches in Redis. Defaults to 128.
	Batch int

	// Flights is the largest number of batches of one group in flight. Defaults to 4.
	Flights int

	// Pace is the least time between the beginnings of two sends of one renewable. Nudges within
	// this time become one. Defaults to 1 ms.
	Pace time.Duration

	// MinBackoff is the time for which the keeper leaves alone a node that did not answer. It
	// doubles with each failure, up to MaxBackoff. A tenth of the lease, but no more than a second,
	// is a good maximum. They default to 50 ms and 1 s; a smaller maximum bounds the minimum too.
	MinBackoff, MaxBackoff time.Duration
}

func (c Config) withDefaults() Config {
	if c.Send == nil {
		panic("lease: Config.Send is nil")
	}
	orDefault(&c.Tick, 10*time.Millisecond)
	orDefault(&c.Batch, 128)
	orDefault(&c.Flights, 4)
	orDefault(&c.Pace, time.Millisecond)
	orDefault(&c.MinBackoff, 50*time.Millisecond)
	orDefault(&c.MaxBackoff, time.Second)
	c.MinBackoff = min(c.MinBackoff, c.MaxBackoff)
	return c
}

func orDefault[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}
