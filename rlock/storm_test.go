package rlock_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A contest is for one name, by locks of these kinds.
type contest struct {
	name string
	// alone are the locks that one owner has at once, shared is what all may have when
	// nobody has it alone; nil if there is none.
	alone  lockers
	shared func([]*rlock.Client, string) locker
	seeds  int
	// lingers says that the locks linger after their last Unlock.
	lingers bool
}

type lockers = []func([]*rlock.Client, string) locker

var contests = []contest{
	{name: "plain", seeds: 6, alone: lockers{plainLock}},
	{name: "read and write", seeds: 10, alone: lockers{writeLock}, shared: readLock},
	{name: "fair", seeds: 6, alone: lockers{fairLock}},
	{name: "semaphore of one", seeds: 4, alone: lockers{semaphoreOfOne}},
	{name: "plain, fenced and fair", seeds: 4, alone: lockers{plainLock, fencedLock, fairLock}},
	{name: "plain that lingers", seeds: 6, alone: lockers{plainLock}, lingers: true},
	{name: "read and write that linger", seeds: 6, alone: lockers{writeLock}, shared: readLock, lingers: true},
	{name: "plain, fenced and fair that linger", seeds: 4, alone: lockers{plainLock, fencedLock, fairLock}, lingers: true},
}

// Connections are cut, silenced, refused and slow at random, of one client or of all.
// Replies are lost, scripts are, and keys; clients are closed, and callers run out of
// patience. Nobody is ever inside beside a writer, who believes to hold the lock holds
// it in Redis, and when the storm is over everybody is served at once and nothing is
// left.
func TestLocksExcludeEachOtherWhateverTheNetworkDoes(t *testing.T) {
	for _, kind := range contests {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range storms(kind.seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					bubble(t, func(t *testing.T, w *world) {
						newStorm(w, kind, rand.New(rand.NewPCG(seed, 0))).run(seed)
					})
				})
			}
		})
	}
}

var seeds = flag.Int("seeds", 300, "with -long, how many storms there are of each kind")

// storms returns how many storms a test runs that usually runs n of them: -seeds with -long,
// and a third of n with -short.
func storms(n int) uint64 {
	if testing.Short() && !*long {
		return uint64(max(n/3, 1))
	}
	return uint64(thorough(*seeds, n))
}

const (
	// stormLease is what the watchdogs of a storm keep the lock for, and longestLease
	// what nothing is kept for longer than: the claim of a fair lock.
	stormLease, longestLease = 1500 * time.Millisecond, 2 * time.Second
	// longestLinger is how long a lock lingers after its last Unlock at most.
	longestLinger = time.Minute
	// stormTime is how long the network is in trouble.
	stormTime = 15 * time.Second
	// recovery is how long a wait may be when it is no longer: until leases have ended
	// that nobody released, and waiters have slept who heard no message.
	recovery = 15 * time.Second
	// idle is how long the lock may be free while somebody waits when all is well.
	idle = 300 * time.Millisecond
)

// A storm is the trouble that a contest has.
type storm struct {
	*world
	kind   contest
	random *rand.Rand
	seats  []*seat
	begin  time.Time
	// shortest is the shortest time that somebody may have the lock for at most.
	shortest time.Duration
	gone     []*party       // who were closed in the middle
	closed   sync.WaitGroup // when they were
	taken    []time.Time    // when the lock was from whoever had it

	mu        sync.Mutex // protects following
	stays     []stay
	waits     []span      // of those who were patient, when all is well
	disturbed []time.Time // when keys were deleted, or unlocked by force
}

// A stay is what one owner had of the lock: alone, and then with others.
type stay struct{ alone, shared span }

func (s stay) from() time.Time {
	if s.alone.from.IsZero() {
		return s.shared.from
	}
	return s.alone.from
}

func (s stay) to() time.Time {
	if s.shared.to.IsZero() {
		return s.alone.to
	}
	return s.shared.to
}

// A seat is taken by one client after the other.
type seat struct {
	make func() *party

	mu    sync.Mutex // protects following
	party *party
}

func (s *seat) taken() *party {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.party
}

func newStorm(w *world, kind contest, random *rand.Rand) *storm {
	s := &storm{world: w, kind: kind, random: random, begin: time.Now()}
	configured := func(connections int) func(*rlock.Config) {
		limit := []int{-1, 0, 1}[random.IntN(3)]
		linger := time.Duration(0)
		if kind.lingers {
			linger = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, longestLinger}[random.IntN(4)]
		}
		return func(c *rlock.Config) {
			c.Linger = linger
			c.Lease, c.HandoffLimit = stormLease, limit
			c.Redis.PipelineMultiplex = connections
		}
	}
	if s.shortest = 25 * time.Millisecond; random.IntN(3) == 0 {
		s.shortest = time.Second // leases end while the network is in trouble
	}
	several := []int{-1, -1, 1, 2}[random.IntN(4)]
	for range 2 {
		change := configured(several)
		s.seats = append(s.seats, &seat{make: func() *party { return w.client(change) }})
	}
	if sharing := random.IntN(2) == 0; !sharing {
		change := configured(-1)
		s.seats = append(s.seats, &seat{make: func() *party { return w.client(change) }})
	} else {
		net, client := w.program()
		for range 2 {
			change := configured(0)
			s.seats = append(s.seats, &seat{make: func() *party {
				p := w.client(change, func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, client })
				p.net = net
				return p
			}})
		}
	}
	for _, seat := range s.seats {
		seat.party = seat.make()
	}
	return s
}

// program returns the rueidis client of a program that shares it with its locks.
func (w *world) program() (*network.Network, rueidis.Client) {
	net := network.New(w.Dial)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		ConnWriteTimeout:  2 * time.Second,
		DialCtxFn:         net.Dial,
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { client.Close(); net.Close() })
	return net, client
}

func (s *storm) run(seed uint64) {
	healed := make(chan struct{})
	var guests, recovered sync.WaitGroup
	for i, seat := range s.seats {
		for j := range 3 {
			g := &guest{storm: s, seat: seat, random: rand.New(rand.NewPCG(seed, uint64(10*i+j+1)))}
			recovered.Add(1)
			guests.Go(func() {
				for time.Since(s.begin) < stormTime {
					g.visit(g.patience(), min(s.shortest<<g.random.IntN(g.random.IntN(8)+1), 5*time.Second))
					time.Sleep(g.upTo(300 * time.Millisecond))
				}
				<-healed
				assert.True(s.t, g.visit(recovery, 50*time.Millisecond), "it waits for ever")
				recovered.Done()
				recovered.Wait()
				time.Sleep(longestLease)
				g.calm = true
				for range 8 {
					if g.random.IntN(2) == 0 {
						g.visit(g.upTo(5*time.Millisecond), 20*time.Millisecond)
					} else {
						assert.True(s.t, g.visit(recovery, 20*time.Millisecond), "it waits for ever")
					}
					time.Sleep(g.upTo(300 * time.Millisecond))
				}
			})
		}
	}
	s.trouble()
	close(healed)
	recovered.Wait()
	for _, seat := range s.seats {
		seat.party.net.SetRoundTrip(time.Duration(s.random.IntN(5)) * time.Millisecond)
	}
	guests.Wait()
	s.closed.Wait()
	s.nobodyIsBesideAWriter()
	s.nobodyWaitsForAFreeLock()
	s.nothingIsLeft()
}

// trouble breaks the networks until the storm is over, and heals them.
func (s *storm) trouble() {
	admin, outside := s.client(), s.outsider()
	rude := s.random.IntN(3) == 0 // somebody deletes keys
	heal := func(n *network.Network) {
		n.SetRoundTrip(0)
		n.Heal()
		n.Deliver()
	}
	for time.Since(s.begin) < stormTime {
		time.Sleep(time.Duration(s.random.IntN(800)) * time.Millisecond)
		victims, what, roundTrip := s.seats, s.random.IntN(15), time.Duration(s.random.IntN(600))*time.Millisecond
		if s.random.IntN(3) > 0 {
			one := s.random.IntN(len(s.seats))
			victims = s.seats[one : one+1]
		}
		nth := s.random.IntN(4) + 1
		switch what {
		case 10:
			s.answerScripts("")
		case 11:
			s.answerScripts([]string{"LOADING a while", "READONLY", "BUSY", "ERR max number of clients"}[s.random.IntN(4)])
		case 12:
			assert.NoError(s.t, outside.Do(s.ctx, outside.B().ScriptFlush().Build()).Error())
		case 13:
			if rude {
				s.disturb(admin)
			}
		case 14:
			s.change(victims[0])
		}
		for _, seat := range victims {
			net := seat.taken().net
			switch what {
			case 0:
				net.Cut()
			case 1:
				net.Rule(network.Silence)
			case 2:
				net.Refuse()
			case 3:
				net.Rule(network.Deaf)
			case 4:
				net.Rule(network.All(network.Hold, network.Request, "EVALSHA"))
			case 5:
				net.SetRoundTrip(roundTrip)
			case 6:
				net.SetRoundTrip(0)
			case 7:
				net.Rule(network.Nth(nth, network.Cut, network.Reply, "EVALSHA"))
			case 8, 9:
				heal(net)
			}
		}
	}
	s.answerScripts("")
	for _, seat := range s.seats {
		heal(seat.party.net)
	}
	for _, p := range s.gone {
		heal(p.net)
	}
}

// change closes the client and gives its place to another.
func (s *storm) change(seat *seat) {
	old := seat.taken()
	s.gone = append(s.gone, old)
	s.closed.Go(func() {
		if err := old.Close(); err != nil {
			assert.ErrorIs(s.t, err, rlock.ErrUnconfirmed)
		}
	})
	party := seat.make() // without the mutex: over a connection that is silent it takes its time
	seat.mu.Lock()
	defer seat.mu.Unlock()
	seat.party = party
}

// disturb takes the lock from whoever has it, without a word or by force.
func (s *storm) disturb(admin *party) {
	now := time.Now()
	s.mu.Lock()
	s.disturbed = append(s.disturbed, now)
	s.mu.Unlock()
	switch s.random.IntN(3) {
	case 0:
		s.Del(key)
	case 1:
		s.FlushAll()
	default:
		locks := s.kind.alone
		if s.kind.shared != nil {
			locks = append(slices.Clone(locks), s.kind.shared)
		}
		freed, _ := locks[s.random.IntN(len(locks))]([]*rlock.Client{admin.Client}, key).ForceUnlock(s.ctx)
		if !freed || s.kind.shared != nil { // of readers and a writer it frees one sort
			return
		}
	}
	s.taken = append(s.taken, now)
}

// wasDisturbed reports whether keys were deleted in a time.
func (s *storm) wasDisturbed(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !firstOf(s.disturbed, from, to).IsZero()
}

// firstOf returns the first of the times that is not outside, zero if none is.
func firstOf(times []time.Time, from, to time.Time) time.Time {
	for _, at := range times {
		if !at.Before(from) && !at.After(to) {
			return at
		}
	}
	return time.Time{}
}

func (s *storm) nobodyIsBesideAWriter() {
	var alone, all []span
	for _, stay := range s.stays {
		from := stay.from()
		if s.wasDisturbed(from.Add(-longestLease), from) {
			continue // it may have been of a tenure that was over
		}
		if at := firstOf(s.taken, from, stay.to()); !at.IsZero() {
			assert.LessOrEqual(s.t, stay.to().Sub(at), longestLease, "it was not told")
		}
		if at := firstOf(s.disturbed, from, stay.to()); !at.IsZero() {
			stay.alone.cap(at)
			stay.shared.cap(at)
		}
		all = append(all, stay.alone, stay.shared)
		alone = append(alone, stay.alone)
	}
	for _, a := range alone {
		for _, b := range all {
			if a != b {
				require.False(s.t, a.from.Before(b.to) && b.from.Before(a.to), "%v and %v overlap", s.since(a), s.since(b))
			}
		}
	}
}

// cap has the span end at a time at the latest.
func (s *span) cap(at time.Time) {
	if at.Before(s.to) {
		s.to = at
	}
}

func (s *storm) since(of span) [2]time.Duration {
	return [2]time.Duration{of.from.Sub(s.begin), of.to.Sub(s.begin)}
}

func (s *storm) nobodyWaitsForAFreeLock() {
	var busy []span
	for _, stay := range s.stays {
		busy = append(busy, span{stay.from(), stay.to()})
	}
	slices.SortFunc(busy, func(a, b span) int { return a.from.Compare(b.from) })
	var longest time.Duration
	for _, wait := range s.waits {
		free := wait.from // since when
		for _, b := range busy {
			if b.from.After(wait.to) {
				break
			}
			if b.to.Before(free) {
				continue
			}
			longest = max(longest, b.from.Sub(free))
			free = b.to
		}
		longest = max(longest, wait.to.Sub(free))
		assert.Less(s.t, longest, idle, "a waiter was forgotten: %v", s.since(wait))
	}
	s.t.Logf("%d stays, %d waits, the lock was free for %v at most", len(s.stays), len(s.waits), longest)
}

func (s *storm) nothingIsLeft() {
	time.Sleep(50 * time.Millisecond)
	if s.kind.lingers {
		time.Sleep(longestLinger) // the last holder's client was not called
	}
	assert.Empty(s.t, slices.DeleteFunc(s.Keys(), isCounter))
	time.Sleep(10 * time.Second) // subscriptions linger
	assert.Empty(s.t, lockChannels(s.Miniredis))
	for _, seat := range s.seats {
		assert.NoError(s.t, seat.party.Close())
	}
}
