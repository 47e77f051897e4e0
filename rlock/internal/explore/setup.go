package explore

import (
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// A Setup is a world to be explored: its clients and users, their programs, and the faults.
type Setup struct {
	Name    string
	Clients int
	Users   int // of each client
	Rounds  int // calls of each user; 0: without end
	Kind    core.Kind
	RW      bool // a read-write lock

	Do      Users
	Faults  int // how many things may go wrong
	Fault   Fault
	Lazy    bool // the driver takes its time between an effect and what it does for it
	Ordered bool // the connections keep the order
	// Overtakes lets an answer be read before one that came earlier: the goroutines that wait for
	// answers take the mutex in any order. It multiplies the states.
	Overtakes bool
	Polling   bool // no client can subscribe
	Slots     int  // of each sort that a client has: a call gets one at any time; 0: all have one at once

	Foreign       []Foreign // what the foreign clients are
	ForeignRounds int       // how often each locks; 0: without end
	ForeignTicks  int       // in how many ticks ours may have the lock while one waits; 0: any

	Lease core.Span    // 0: 4
	Claim core.Span    // 0: 2
	Brief core.Span    // the claim of a brief ticket, as the first of each client is; 0: none is
	Look  core.Span    // 0: 2
	Least core.Span    // the shortest wait that is worth a ticket; 0: 1
	begin func(*world) // what there is from the beginning; nil for nothing

	Most   int  // how many calls may wait, with one that has a bound; 0: 1
	Idle   int  // for how many ticks the lock may be free while a caller waits; 0: 3
	Steady bool // no single fault may end a hold
	Passes int  // in how many ticks others may have the lock while a client is in the queue; 0: 3
}

// Users are what users do in addition to Lock and Unlock.
type Users uint32

// What users do.
const (
	Try         Users = 1 << iota // one attempt
	Timed                         // a Lock that waits for a tick
	Fixed                         // a Lock with a lease of two ticks
	Read                          // a read lock
	OnlyRead                      // no write lock
	OnlyFixed                     // no write lock without a lease of two ticks
	FixedRead                     // a read lock with a lease of two ticks
	Nest                          // a Lock of what they hold
	LongNest                      // the same with a lease that is twice as long as others
	Downgrade                     // a read lock of what they write
	Cancel                        // leave while they wait
	Close                         // close the client
	Pass                          // pass the lock on, and resume the last pass
	Capped                        // a Lock that is held for six ticks at most
	Extend                        // move that end, or that of a lease, to so long from now
	Stay                          // an Unlock after which the lock stays for three ticks
	SetLease                      // ask for a lease of two ticks
	Force                         // release the holder by force
	Write                         // a guarded write in each hold, for whose answer they do not wait
	Carry                         // an Unlock whose release carries a guarded write
	Ask                           // calls take an answer of such a release
	Wide                          // a Lock that takes two permits at once
	Same                          // the users of a client are one owner
	Bounded                       // a Lock that waits only if few other calls do
	OnlyBounded                   // no other write lock
	OnlyTry                       // nothing but attempts
	Noted                         // two of three calls have notes, of different texts
	Take                          // a Lock that takes the lock over, with a grace of two ticks
	Let                           // an operator lets a ticket through that waits for its turn, with that grace
)

// A Fault is a set of things that may go wrong.
type Fault uint32

// The faults.
const (
	Break         Fault = 1 << iota // a connection breaks: commands in flight on it get no answer
	Late                            // ... and one command of it runs later, within a lease
	Endless                         // ... or without a bound
	Double                          // a command runs twice, the second time late
	Repeat                          // a command is answered, and runs again within a lease
	NotRun                          // a command is refused before it runs, or skipped
	WrongType                       // a command is refused, and would be refused again
	JoinFails                       // a release is executed, and the join that goes with it is not
	Unreplicated                    // too few replicas confirm a grant
	LoseMessage                     // a message is lost
	DoubleMessage                   // a message comes twice
	Forge                           // a stranger publishes
	Cut                             // a subscription ends
	Partition                       // a client does not reach Redis for a while
	Slow                            // a tick comes while something is under way
	Stall                           // Redis stands still for three ticks, and loses nothing
	Die                             // a client dies
	Freeze                          // a client stands still for a while
	Sleep                           // ... and its monotonic clock with it
	Wipe                            // Redis loses everything
	LoseQueue                       // Redis loses the queue
	Delete                          // a stranger deletes the lock
	Failover                        // a replica takes over that has not seen the latest commands
)

// stays is for how many ticks a lock stays after an Unlock: not as long as a lease.
const stays = 3

// most is how many calls may wait, with one that has a bound.
func (s *Setup) most() int { return max(s.Most, 1) }

// capped is for how many ticks a capped hold lasts: longer than a lease.
const capped core.Span = 6

// grace is for how many ticks a holder may go on from whom the lock is taken over.
const grace core.Span = 2

func (s *Setup) lease() core.Span { return or(s.Lease, 4) }
func (s *Setup) claim() core.Span { return or(s.Claim, 2) }

func or(d, otherwise core.Span) core.Span {
	if d > 0 {
		return d
	}
	return otherwise
}

// queueTime is for how long Redis keeps the queue.
func (s *Setup) queueTime() core.Span { return max(8, 2*s.Look) }

func (s *Setup) config() core.Config {
	return core.Config{
		Lease: s.lease(), Claim: s.claim(), Brief: s.Brief, QueueTime: s.queueTime(),
		LookTime: or(s.Look, 2), Retry: 1, MaxRetry: 1, FirstPoll: 1, LastPoll: 1, Patience: 1, Silence: 1,
		LeastWait: or(s.Least, 1), ReadersTime: 2, HandoffLimit: 1, HandoffTime: 100,
		Foreign:  core.ForeignConfig{WindowLook: 1, Look: 1, SilentLook: 1, LongLease: 100},
		Replicas: s.Fault&Unreplicated != 0,
	}
}

func (s *Setup) server() *server.Config {
	kind := server.Plain
	switch {
	case s.RW:
		kind = server.ReadWrite
	case s.Kind.Permits > 0:
		kind = server.Semaphore
	}
	return &server.Config{Kind: kind, Claim: s.claim(), Brief: s.Brief, Silence: s.queueTime(), Windows: windows}
}

// locks is how many locks a client has: of a semaphore each owner has one.
func (s *Setup) locks() int {
	if s.Kind.Permits > 0 {
		return s.Users
	}
	return 1
}

// permits is how many owners may hold the lock at once. Readers count as one.
func (s *Setup) permits() int { return max(int(s.Kind.Permits), 1) }

// endless reports whether users go on without end: then it is bounded how often a client is passed.
func (s *Setup) endless() bool { return s.Rounds == 0 }
