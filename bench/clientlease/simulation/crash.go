package simulation

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// A Crash is the death of one client, with the state of its locks.
type Crash struct {
	Design  Design // Batch or Client
	Locks   int    // that the client holds, all attached
	Servers int
	Cluster bool
	Lease   time.Duration

	Backstop time.Duration
	Waiting  float64       // the share of the locks with a waiter
	Wanted   float64       // the share of the others that a client asks for later
	Mean     time.Duration // until the first does, on average

	Take time.Duration // the cost of granting such a lock to the next client: Table.Take, or Table.Acquire
	Seed uint64
}

// A Recovery is the result of a Crash. Times are from the crash.
type Recovery struct {
	FirstFree, MedianFree, LastFree time.Duration         // from when on the locks could be taken
	MedianTaken, LastTaken          time.Duration         // when the waiters had them
	Burst                           int                   // locks given to waiters in the busiest 10 ms of one server
	Busy                            time.Duration         // of all servers, to give locks to others
	Extra                           int                   // commands more than without client leases
	Garbage                         map[time.Duration]int // keys of the dead client's locks, at each of Marks
}

// Marks are the times at which Recovery counts Garbage: keys of the dead client's locks.
var Marks = []time.Duration{time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// An event is an acquire of a lock, by a waiter at the end of the lease or by a newcomer, or
// the expiry of its key.
type event struct {
	at      time.Duration
	lock    int
	expires bool
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// A lock is one lock of the dead client.
type lock struct {
	server         int
	free           time.Duration // from when on it can be taken
	waiting        bool          // it has a waiter
	taken, expired bool
}

// Run lets the client crash at time 0 and follows its locks until nothing is left of them.
func (c Crash) Run() Recovery {
	random := rand.New(rand.NewPCG(c.Seed, uint64(c.Design)))
	// A lease was renewed at some time within the last third of it, each at its own.
	rest := func(lease time.Duration) time.Duration {
		return lease - time.Duration(random.Int64N(int64(lease/3)))
	}
	leases := make(map[int]time.Duration) // of the client, by slot or server
	locks := make([]lock, c.Locks)
	var queue events
	for i := range locks {
		slot := random.IntN(Slots)
		l := lock{server: slot * c.Servers / Slots}
		switch c.Design {
		case Client:
			place := l.server
			if c.Cluster {
				place = slot
			}
			if _, known := leases[place]; !known {
				leases[place] = rest(c.Lease)
			}
			l.free = leases[place]
			queue = append(queue, event{at: rest(c.Backstop), lock: i, expires: true})
		default:
			l.free = rest(c.Lease)
			queue = append(queue, event{at: l.free, lock: i, expires: true})
		}
		if l.waiting = random.Float64() < c.Waiting; l.waiting {
			queue = append(queue, event{at: l.free, lock: i}) // a waiter looks when the lease ends
		} else if random.Float64() < c.Wanted {
			queue = append(queue, event{at: time.Duration(random.ExpFloat64() * float64(c.Mean)), lock: i})
		}
		locks[i] = l
	}
	return c.follow(locks, queue)
}

// follow carries out the events.
func (c Crash) follow(locks []lock, queue events) Recovery {
	heap.Init(&queue)
	r := Recovery{Garbage: make(map[time.Duration]int)}
	idle := make([]time.Duration, c.Servers) // from when on a server has nothing to do
	burst := make(map[[2]int]int)            // locks given to waiters, by server and 10 ms
	var taken []time.Duration                // by waiters
	left, mark := len(locks), 0
	for queue.Len() > 0 {
		e := heap.Pop(&queue).(event)
		for ; mark < len(Marks) && e.at > Marks[mark]; mark++ {
			r.Garbage[Marks[mark]] = left
		}
		l := &locks[e.lock]
		switch {
		case l.taken:
		case e.expires:
			l.expired = true
			left--
		case e.at < l.free: // refused: now a waiter
			heap.Push(&queue, event{at: l.free, lock: e.lock})
		default:
			l.taken = true
			idle[l.server] = max(idle[l.server], e.at) + c.Take
			r.Busy += c.Take
			if !l.expired {
				left--
			}
			if l.waiting {
				at := idle[l.server]
				taken = append(taken, at)
				window := [2]int{l.server, int(at / (10 * time.Millisecond))}
				burst[window]++
				r.Burst = max(r.Burst, burst[window])
			} else if c.Design == Client && !l.expired {
				r.Extra++ // a waiter's looks name the client lease; a newcomer learns it by a refusal
			}
		}
	}
	for ; mark < len(Marks); mark++ {
		r.Garbage[Marks[mark]] = left
	}
	free := make([]time.Duration, len(locks))
	for i, l := range locks {
		free[i] = l.free
	}
	slices.Sort(free)
	slices.Sort(taken)
	r.FirstFree, r.MedianFree, r.LastFree = free[0], free[len(free)/2], free[len(free)-1]
	if len(taken) > 0 {
		r.MedianTaken, r.LastTaken = taken[len(taken)/2], taken[len(taken)-1]
	}
	return r
}
