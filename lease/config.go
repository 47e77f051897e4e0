package lease

import (
	"context"
	"time"
)

// A Renewable is a lease that a [Keeper] keeps alive. Due and Group are called with no mutex of the
// keeper held, so they may take their own, and may call the keeper. They are called by one
// goroutine, for one renewable after the other, and must not wait for a network. The keeper may be
// called with the renewable's mutex held.
type Renewable interface {
	// Entry returns the entry embedded in the renewable: the same one always. It takes no mutex.
	Entry() *Entry

	// Group returns the node that the lease lives on, which may change. It is called each time Due
	// has returned true. All leases of a batch are on one node.
	Group() uint32

	// Due is called when a time given to [Keeper.Schedule] has come, after a [Keeper.Nudge], before
	// each retry after a node did not answer, and when the machine may have slept: at any time, and
	// thus also when there is nothing to do. It reports whether the lease must be sent as soon as
	// there is room, which it judges by the state of the renewable.
	//
	// The renewable may not be scheduled any more. One that lives on must schedule itself again:
	// while it waits to be sent for the end of its validity, of which it so learns even if its node
	// never answers; else for its renewal. One that is over does not, and returns false.
	Due(now time.Time) (send bool)
}

// A Sender sends one batch to the node of a group and tells each renewable its own outcome. It is
// called from a goroutine of the batch, for several batches at a time, but never for two that have
// a renewable in common.
//
// While building the commands, it must look at each renewable under the renewable's own mutex and
// leave out stopped entries: see [Keeper.Stop].
//
// reached says whether the node answered at all. If it did, what becomes of a renewable whose own
// command failed is the business of Sender and renewable, by means of Schedule. If it did not,
// nothing is known of any of the batch, and the keeper tries all of it again. ctx ends when the
// keeper is closed. A Sender must return within a time limit of its own: until then nothing in its
// batch is sent again, though each is still asked at its times, and so finds that it is over. It
// must not keep or change the batch, which is filled again.
type Sender func(ctx context.Context, group uint32, batch []Renewable) (reached bool)

// Config says how a [Keeper] works. Only Send is required.
type Config struct {
	// Send sends a batch.
	Send Sender

	// Tick is the precision of times: nothing is due early, and nothing more than a tick late. A
	// finer tick wakes the keeper more often while many leases are kept. A thousandth of the lease,
	// between 1 and 10 ms, is a good choice. Defaults to 10 ms.
	Tick time.Duration

	// Batch is the largest number of renewables that are sent together. Larger batches make others
	// wait longer behind them in Redis. Defaults to 128.
	Batch int

	// Flights is the largest number of batches of one group in flight. Defaults to 4.
	Flights int

	// Pace is the least time between the beginnings of two sends of one renewable; nudges within it
	// become one. Defaults to 1 ms.
	Pace time.Duration

	// MinBackoff is the time for which the keeper leaves a node alone that did not answer. It
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
