package storms_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A contest is for one name, with locks of these kinds.
type contest struct {
	name string
	// exclusive are the locks that exclude every other owner; shared is the lock that all
	// may have while none is held exclusively, nil if there is none.
	exclusive lockers
	shared    func([]*rlock.Client, string) testbed.Locker
	seeds     int
}

type lockers = []func([]*rlock.Client, string) testbed.Locker

var contests = []contest{
	{name: "plain", seeds: 4, exclusive: lockers{testbed.PlainLock}},
	{name: "read and write", seeds: 6, exclusive: lockers{testbed.WriteLock}, shared: testbed.ReadLock},
	{name: "fair", seeds: 4, exclusive: lockers{testbed.FairLock}},
	{name: "semaphore of one", seeds: 3, exclusive: lockers{testbed.SemaphoreOfOne}},
	{name: "plain, fenced and fair", seeds: 3, exclusive: lockers{testbed.PlainLock, testbed.FencedLock, testbed.FairLock}},
}

// Connections are cut, silenced, refused and slow at random, of one client or of all.
// Replies, scripts and keys are lost, clients are closed, and callers give up. No section
// overlaps that of a writer. A client that says that it holds the lock has it in Redis. After
// the storm every caller gets the lock at once, and nothing is left.
func TestLocksExcludeEachOtherWhateverTheNetworkDoes(t *testing.T) {
	for _, kind := range contests {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range testbed.Storms(kind.seeds) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
						newStorm(w, kind, rand.New(rand.NewPCG(seed, 0))).run(seed)
					})
				})
			}
		})
	}
}

const (
	// stormLease is the lease of the watchdogs in a storm, and longestLease the longest of
	// all: the claim of a fair lock.
	stormLease, longestLease = 1500 * time.Millisecond, 2 * time.Second
	// stormTime is how long there are faults.
	stormTime = 15 * time.Second
	// recovery is how long a wait may take after the faults: abandoned leases end, and
	// waiters whose message was lost look again.
	recovery = 15 * time.Second
	// idle is how long the lock may be free while a caller waits and there are no faults.
	idle = 300 * time.Millisecond
)

// A storm is a contest with faults.
type storm struct {
	*testbed.World
	kind    contest
	random  *rand.Rand
	clients []*replaceable
	begin   time.Time
	// shortest is the smallest of the bounds of a section.
	shortest time.Duration
	gone     []*testbed.Client // the clients closed during the storm
	closed   sync.WaitGroup    // until they are closed
	taken    []time.Time       // when the lock was taken from its holder

	mu        sync.Mutex // protects following
	sections  []criticalSection
	waits     []testbed.Span // after the storm, without a short deadline
	disturbed []time.Time    // when keys were deleted, or unlocked by force
}

// A replaceable is a client that the storm closes and replaces.
type replaceable struct {
	make func() *testbed.Client

	mu     sync.Mutex // protects following
	client *testbed.Client
}

func (r *replaceable) current() *testbed.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
}

func newStorm(w *testbed.World, kind contest, random *rand.Rand) *storm {
	s := &storm{World: w, kind: kind, random: random, begin: time.Now()}
	configured := func(connections int) func(*rlock.Config) {
		limit := []int{-1, 0, 1}[random.IntN(3)]
		return func(c *rlock.Config) {
			c.Lease, c.Advanced.HandoffLimit = stormLease, limit
			c.Redis.PipelineMultiplex = connections
		}
	}
	if s.shortest = 25 * time.Millisecond; random.IntN(3) == 0 {
		s.shortest = time.Second // leases end during faults
	}
	several := []int{-1, -1, 1, 2}[random.IntN(4)]
	for range 2 {
		change := configured(several)
		s.clients = append(s.clients, &replaceable{make: func() *testbed.Client { return w.NewClient(change) }})
	}
	if sharing := random.IntN(2) == 0; !sharing {
		change := configured(-1)
		s.clients = append(s.clients, &replaceable{make: func() *testbed.Client { return w.NewClient(change) }})
	} else {
		net, client := program(w)
		for range 2 {
			change := configured(0)
			s.clients = append(s.clients, &replaceable{make: func() *testbed.Client {
				p := w.NewClient(change, func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, client })
				p.Net = net
				return p
			}})
		}
	}
	for _, r := range s.clients {
		r.client = r.make()
	}
	return s
}

// program returns a rueidis client that a program shares with rlock, and its network.
func program(w *testbed.World) (*network.Network, rueidis.Client) {
	net := network.New(w.Dial)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		ConnWriteTimeout:  2 * time.Second,
		DialCtxFn:         net.Dial,
	})
	require.NoError(w.T, err)
	w.T.Cleanup(func() { client.Close(); net.Close() })
	return net, client
}

func (s *storm) run(seed uint64) {
	healed := make(chan struct{})
	var callers, recovered sync.WaitGroup
	for i, client := range s.clients {
		for j := range 3 {
			c := &caller{storm: s, via: client, random: rand.New(rand.NewPCG(seed, uint64(10*i+j+1)))}
			recovered.Add(1)
			callers.Go(func() {
				for time.Since(s.begin) < stormTime {
					c.turn(c.patience(), min(s.shortest<<c.random.IntN(c.random.IntN(8)+1), 5*time.Second))
					time.Sleep(c.upTo(300 * time.Millisecond))
				}
				<-healed
				assert.True(s.T, c.turn(recovery, 50*time.Millisecond), "a caller did not get the lock after the storm")
				recovered.Done()
				recovered.Wait()
				time.Sleep(longestLease)
				c.calm = true
				for range 8 {
					if c.random.IntN(2) == 0 {
						c.turn(c.upTo(5*time.Millisecond), 20*time.Millisecond)
					} else {
						assert.True(s.T, c.turn(recovery, 20*time.Millisecond), "a caller did not get the lock after the storm")
					}
					time.Sleep(c.upTo(300 * time.Millisecond))
				}
			})
		}
	}
	s.faults()
	close(healed)
	recovered.Wait()
	for _, r := range s.clients {
		r.client.Net.SetRoundTrip(time.Duration(s.random.IntN(5)) * time.Millisecond)
	}
	callers.Wait()
	s.closed.Wait()
	s.holdersWereNotified()
	s.noSectionOverlapsAWriter()
	s.noCallerWaitsForAFreeLock()
	s.nothingIsLeft()
}

// faults breaks the networks until the storm ends, and then heals them.
func (s *storm) faults() {
	admin, outside := s.NewClient(), s.Outsider()
	deletes := s.random.IntN(3) == 0 // an operator deletes keys
	heal := func(n *network.Network) {
		n.SetRoundTrip(0)
		n.Heal()
		n.Deliver()
	}
	for time.Since(s.begin) < stormTime {
		time.Sleep(time.Duration(s.random.IntN(800)) * time.Millisecond)
		affected, what, roundTrip := s.clients, s.random.IntN(15), time.Duration(s.random.IntN(600))*time.Millisecond
		if s.random.IntN(3) > 0 {
			one := s.random.IntN(len(s.clients))
			affected = s.clients[one : one+1]
		}
		nth := s.random.IntN(4) + 1
		switch what {
		case 10:
			s.AnswerScripts("")
		case 11:
			s.AnswerScripts([]string{"LOADING a while", "READONLY", "BUSY", "ERR max number of clients"}[s.random.IntN(4)])
		case 12:
			assert.NoError(s.T, outside.Do(s.Ctx, outside.B().ScriptFlush().Build()).Error())
		case 13:
			if deletes {
				s.disturb(admin)
			}
		case 14:
			s.replace(affected[0])
		}
		for _, r := range affected {
			net := r.current().Net
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
	s.AnswerScripts("")
	for _, r := range s.clients {
		heal(r.client.Net)
	}
	for _, p := range s.gone {
		heal(p.Net)
	}
}

// replace closes the client and makes another one.
func (s *storm) replace(r *replaceable) {
	old := r.current()
	s.gone = append(s.gone, old)
	s.closed.Go(func() {
		if err := old.Close(); err != nil {
			assert.ErrorIs(s.T, err, rlock.ErrUnconfirmed)
		}
	})
	client := r.make() // without the mutex: a silent connection delays it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = client
}

// disturb takes the lock from its holder, by deleting the key or by ForceUnlock.
func (s *storm) disturb(admin *testbed.Client) {
	now := time.Now()
	s.mu.Lock()
	s.disturbed = append(s.disturbed, now)
	s.mu.Unlock()
	switch s.random.IntN(3) {
	case 0:
		s.Del(testbed.Key)
	case 1:
		s.FlushAll()
	default:
		locks := s.kind.exclusive
		if s.kind.shared != nil {
			locks = append(slices.Clone(locks), s.kind.shared)
		}
		freed, _ := locks[s.random.IntN(len(locks))]([]*rlock.Client{admin.Client}, testbed.Key).ForceUnlock(s.Ctx)
		if !freed || s.kind.shared != nil { // it frees readers or a writer only
			return
		}
	}
	s.taken = append(s.taken, now)
}
