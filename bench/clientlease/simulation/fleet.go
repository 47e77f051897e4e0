package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/bench/clientlease/cost"
)

// Slots is how many hash slots a Cluster has.
const Slots = 16384

// together is how many locks, or fields, one call renews at most.
const together = 32

// A Design is a way to keep leases.
type Design int

// The designs.
const (
	Alone  Design = iota // a renewal of each lock in a call of its own
	Batch                // rlock's: 32 locks in a call; in a Cluster 32 of one slot
	Pairs                // two plain commands for each lock: PEXPIRE with GT, then HGET, which shows the owner
	Fields               // a hash for each slot, or server, in which a lock is a field with a time to live: HPEXPIRE with GT, then HMGET
	Client               // a client lease for each server, or in a Cluster for each slot that the client uses
)

func (d Design) String() string {
	return [...]string{"one by one", "batches of 32 (rlock)", "two plain commands", "hash fields", "client lease"}[d]
}

// A Fleet is many clients that hold locks at many servers. Locks are dealt out evenly among
// the clients, and at random among the slots.
type Fleet struct {
	Locks, Clients, Servers int
	Cluster                 bool          // commands and scripts have keys of one slot only
	Lease                   time.Duration // renewed when a third of it is over
	Backstop                time.Duration // of the key of an attached lock, renewed likewise; 0: it has no end
	Seed                    uint64
}

// A Load is the cost of a fleet without faults.
type Load struct {
	Commands  float64 // a second, at all servers
	Renewals  float64 // renewals of locks, fields and client leases, a second
	ServerCPU float64 // of one core of one server
	Bytes     float64 // in all servers
	Leases    int     // client leases, 0 in other designs
}

// tally is how the locks lie.
type tally struct {
	groups int // of one client and slot, or server, in which there is a lock
	calls  int // of up to 32 locks of one group
}

func (f Fleet) tally() tally {
	random := rand.New(rand.NewPCG(f.Seed, uint64(f.Locks)))
	var counts [Slots]int32 // of one client
	var t tally
	for client := range f.Clients {
		clear(counts[:])
		mine := f.Locks / f.Clients
		if client < f.Locks%f.Clients {
			mine++
		}
		for range mine {
			at := int(random.Uint32() % Slots)
			if !f.Cluster {
				at = at * f.Servers / Slots
			}
			counts[at]++
		}
		for _, n := range counts {
			if n > 0 {
				t.groups++
				t.calls += (int(n) + together - 1) / together
			}
		}
	}
	return t
}

// Steady returns the costs by design.
func (f Fleet) Steady(costs cost.Table) map[Design]Load {
	t := f.tally()
	locks, groups, calls := float64(f.Locks), float64(t.groups), float64(t.calls)
	every := func(lease time.Duration, n float64) float64 { // n things a second, one each third of a lease
		if lease == 0 {
			return 0
		}
		return n / (lease / 3).Seconds()
	}
	price := func(n float64, one time.Duration) float64 { return n * one.Seconds() / float64(f.Servers) }
	loads := map[Design]Load{
		Alone: {
			Commands: every(f.Lease, locks), Renewals: every(f.Lease, locks),
			ServerCPU: price(every(f.Lease, locks), costs.MirrorAlone),
			Bytes:     locks * costs.LockBytes,
		},
		Batch: {
			Commands: every(f.Lease, calls), Renewals: every(f.Lease, locks),
			ServerCPU: price(every(f.Lease, calls), costs.MirrorCall()) + price(every(f.Lease, locks), costs.MirrorLock()),
			Bytes:     locks * costs.LockBytes,
		},
		Client: {
			Commands: every(f.Lease, groups) + every(f.Backstop, calls), Renewals: every(f.Lease, groups) + every(f.Backstop, locks),
			// The backstop's renewal is an attach, which looks at the lock: it costs a mirror's call.
			ServerCPU: price(every(f.Lease, groups), costs.Renew) + price(every(f.Backstop, calls), costs.MirrorCall()) + price(every(f.Backstop, locks), costs.Attach32),
			Bytes:     locks*costs.AttachedBytes + groups*costs.LeaseBytes,
			Leases:    t.groups,
		},
	}
	if costs.Pair > 0 {
		loads[Pairs] = Load{
			Commands: 2 * every(f.Lease, locks), Renewals: every(f.Lease, locks),
			ServerCPU: price(every(f.Lease, locks), costs.Pair),
			Bytes:     locks * costs.LockBytes,
		}
	}
	if costs.FieldAlone > 0 {
		loads[Fields] = Load{
			Commands: 2 * every(f.Lease, calls), Renewals: every(f.Lease, locks),
			ServerCPU: price(every(f.Lease, calls), costs.FieldCall()) + price(every(f.Lease, locks), costs.FieldEach()),
			Bytes:     locks * costs.FieldBytes,
		}
	}
	return loads
}

func (f Fleet) String() string {
	if f.Cluster {
		return fmt.Sprintf("a Cluster of %d", f.Servers)
	}
	return fmt.Sprintf("%d servers", f.Servers)
}
