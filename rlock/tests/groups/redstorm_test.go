package groups_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A majorityStorm is a kind of lock that needs a number of its parts.
type majorityStorm struct {
	testbed.Kind
	need int
	// clean is set where no server may lose its data at any time.
	clean bool
}

var majorityStorms = []majorityStorm{
	{Kind: testbed.Kind{Name: "red of three", Lock: testbed.RedLock, Servers: 3}, need: 2},
	{Kind: testbed.Kind{Name: "red of five", Lock: testbed.RedLock, Servers: 5}, need: 3},
	{Kind: testbed.Kind{Name: "multi", Lock: multiLockOfKinds, Servers: 3}, need: 3, clean: true},
	{Kind: testbed.Kind{Name: "multi of a red one", Lock: multiLockOfRed, Servers: 4}, need: 3},
	{Kind: testbed.Kind{Name: "fenced", Lock: testbed.FencedLock, Servers: 1}, need: 1, clean: true},
}

func multiLockOfKinds(clients []*rlock.Client, name string) testbed.Locker {
	return rlock.NewMultiLock(clients[0].NewFairLock(name), clients[1].NewLock(name), clients[2].NewFencedLock(name))
}

func multiLockOfRed(clients []*rlock.Client, name string) testbed.Locker {
	return rlock.NewMultiLock(rlock.NewRedLock(clients[1:], name), clients[0].NewLock(name))
}

// Connections are cut, silenced, refused and slow at random, of one process or of all, to one
// server or to several, and servers lose their data once no lease is left. A holder holds
// enough parts for longer than it reports, and no two holders overlap; tokens grow; the
// levels of an owner are those that it was granted; and after the faults every owner gets the
// lock and nothing is left.
func TestLocksOverSeveralServersExcludeEachOtherWhateverTheNetworksDo(t *testing.T) {
	for _, a := range majorityStorms {
		t.Run(a.Name, func(t *testing.T) {
			for seed := range testbed.Storms(2) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					a.play(t, seed)
				})
			}
		})
	}
}

const (
	// majorityLease is the longest lease of a majorityStorm.
	majorityLease = 700 * time.Millisecond
	// claimLease is the lease of a grant from the queue, until its holder asks for its own.
	claimLease = 2 * time.Second
)

func (a majorityStorm) play(t *testing.T, seed uint64) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		g := &majorityRun{majorityStorm: a, VirtualKind: &testbed.VirtualKind{World: w, Kind: a.Kind, Worlds: []*testbed.World{w}}, end: time.Now().Add(20 * time.Second)}
		for len(g.Worlds) < a.Servers {
			g.Worlds = append(g.Worlds, testbed.NewWorld(t, w.Ctx))
		}
		g.empty = make([]bool, a.Servers)
		for range 3 {
			p := g.NewProcess(testbed.WithLease(majorityLease), func(c *rlock.Config) { c.LongestLease = claimLease }) // red locks heal
			g.peers = append(g.peers, p)
			g.marks = append(g.marks, g.marksOf(p))
		}
		var majorityUsers sync.WaitGroup
		for i, peer := range g.peers {
			for j := range 2 {
				p := &majorityUser{majorityRun: g, team: i, lock: a.Lock(peer.Clients, testbed.Key), owner: w.Caller(), random: rand.New(rand.NewPCG(seed, uint64(10*i+j)))}
				majorityUsers.Go(p.play)
			}
		}
		g.disturb(rand.New(rand.NewPCG(seed, 99)))
		majorityUsers.Wait()

		slices.SortFunc(g.beliefs, func(a, b belief) int { return a.from.Compare(b.from) })
		for i := 1; i < len(g.beliefs); i++ {
			before, after := g.beliefs[i-1], g.beliefs[i]
			require.False(t, after.from.Before(before.to), "%v and %v overlap", before, after)
			require.True(t, after.token == 0 || before.token < after.token, "the token of %v is not larger than that of %v", after, before)
		}
		assert.GreaterOrEqual(t, len(g.beliefs), 6, "some owner did not get the lock at the end")
		time.Sleep(time.Minute)
		assert.Empty(t, g.KeysLeft())
		for _, p := range g.peers {
			assert.NoError(t, p.Close())
		}
		synctest.Wait()
		for _, world := range g.Worlds {
			assert.Empty(t, world.PubSubChannels(""))
		}
	})
}

// A majorityRun is a run of several processes for one lock.
type majorityRun struct {
	majorityStorm
	*testbed.VirtualKind
	peers []*testbed.Peer
	marks [][]string // the prefixes of the owners' names in Redis, by process and server
	end   time.Time  // the end of the faults

	mu      sync.Mutex // protects following
	beliefs []belief
	empty   []bool // the servers that have lost their data and cannot be reached
}

// A belief is a period in which a majorityUser's hold was valid.
type belief struct {
	from, to time.Time
	token    uint64
	team     int
}

func (b belief) String() string {
	return fmt.Sprintf("%d: %s to %s (%d)", b.team, b.from.Format("04:05.000000000"), b.to.Format("04:05.000000000"), b.token)
}

// marksOf returns the prefixes of the UUIDs of the process's clients.
func (g *majorityRun) marksOf(p *testbed.Peer) (marks []string) {
	for i, client := range p.Clients {
		require.NoError(g.T, client.NewLock("mark").Do(g.Ctx, func(context.Context) error {
			marks = append(marks, g.Worlds[i].Fields("mark")[0][:19])
			return nil
		}))
	}
	return marks
}

// shows returns for how long each server still has the process as a holder, less the drift.
func (g *majorityRun) shows(team int) (left []time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, world := range g.Worlds {
		mine := func(field string) bool { return strings.HasPrefix(field, g.marks[team][i]) }
		switch ttl := world.Remaining(testbed.Key); {
		case g.empty[i]:
			left = append(left, claimLease) // it had the lock, and grants nothing at present
		case slices.ContainsFunc(world.Fields(testbed.Key), mine):
			left = append(left, ttl-ttl/100-2*time.Millisecond)
		}
	}
	return left
}

// The faults of a network, with the round trip that it has then.
var incidents = []func(n *network.Network, roundTrip time.Duration){
	func(n *network.Network, _ time.Duration) { n.Cut() },
	func(n *network.Network, _ time.Duration) { n.Refuse() },
	func(n *network.Network, _ time.Duration) { n.Rule(network.Silence) },
	func(n *network.Network, _ time.Duration) { n.Rule(network.Deaf) },
	func(n *network.Network, _ time.Duration) { n.Rule(testbed.EveryScript(network.Hold, network.Request)) },
	func(n *network.Network, roundTrip time.Duration) { n.SetRoundTrip(roundTrip) },
	func(n *network.Network, _ time.Duration) { n.SetRoundTrip(0) },
	func(n *network.Network, _ time.Duration) { n.Heal() },
	func(n *network.Network, _ time.Duration) { n.Heal() },
	func(n *network.Network, _ time.Duration) { n.Heal() },
}

// disturb breaks the networks until the end, and heals them: of one process or of all, to one
// server or to all.
func (g *majorityRun) disturb(random *rand.Rand) {
	for time.Now().Before(g.end) {
		time.Sleep(time.Duration(random.IntN(100)) * step)
		whose, where := random.IntN(2*len(g.peers)), random.IntN(2*len(g.Worlds))
		if !g.clean && random.IntN(30) == 0 {
			g.restart(where % len(g.Worlds))
			continue
		}
		happens, roundTrip := incidents[random.IntN(len(incidents))], time.Duration(random.IntN(60))*2*step
		for i, p := range g.peers {
			for j, client := range p.TestClients {
				if (whose == i || whose >= len(g.peers)) && (where == j || where >= len(g.Worlds)) {
					happens(client.Net, roundTrip)
				}
			}
		}
	}
	for _, p := range g.peers {
		p.Networks(func(n *network.Network) { n.SetRoundTrip(0) })
		p.Heal()
	}
}

// restart erases a server's data, and brings it back when the longest lease has ended.
func (g *majorityRun) restart(server int) {
	for _, p := range g.peers {
		p.TestClients[server].Net.Refuse()
	}
	g.empties(server, true)
	g.Worlds[server].FlushAll()
	time.Sleep(claimLease + 100*time.Millisecond)
	g.empties(server, false)
	for _, p := range g.peers {
		p.TestClients[server].Net.Heal()
	}
}

func (g *majorityRun) empties(server int, empty bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.empty[server] = empty
}

// A majorityUser takes the lock again and again, as an owner in one of the processes.
type majorityUser struct {
	*majorityRun
	team   int // the process
	lock   testbed.Locker
	owner  context.Context
	random *rand.Rand
}

// upTo returns a time up to d, from a few values only, so that many events coincide.
func (p *majorityUser) upTo(d time.Duration) time.Duration {
	return time.Duration(p.random.Int64N(int64(d/step))+1) * step
}

// play takes the lock until the end, with all leases and waits, and then once more, which
// must succeed.
func (p *majorityUser) play() {
	for last := false; !last; time.Sleep(p.upTo(300 * time.Millisecond)) {
		wait := p.upTo(3 * time.Second)
		if last = !time.Now().Before(p.end); last || p.random.IntN(3) == 0 {
			wait = 20 * time.Second
		}
		ctx, cancel := context.WithTimeout(p.owner, wait)
		var lease time.Duration
		if p.random.IntN(2) == 0 {
			lease = 100*time.Millisecond + p.upTo(majorityLease-100*time.Millisecond)
		}
		if p.random.IntN(2) == 0 {
			ctx = rlock.WithOwner(ctx, rlock.Owner(0))
		}
		had := p.take(ctx, lease)
		cancel()
		assert.True(p.T, had || !last, "the lock was not granted")
		assert.Zero(p.T, p.lock.HoldCount(p.owner), "levels")
	}
}

// take takes the lock as the owner in the context.
func (p *majorityUser) take(ctx context.Context, lease time.Duration) bool {
	hold, err := p.lock.Acquire(ctx, rlock.WithLease(lease))
	if err != nil {
		return false
	}
	g := p.levelOf(hold)
	if left, _ := g.left(); lease > 0 {
		assert.LessOrEqual(p.T, left, lease, "the lease is longer than asked for")
	}
	p.have(g)
	return true
}

// have keeps the lock for a while, perhaps takes it once more inside, and releases it.
func (p *majorityUser) have(g level) {
	b := belief{from: time.Now(), team: p.team}
	b.token, _ = g.Token() // 0 if the hold has none
	assert.True(p.T, g.Valid(), "the acquire succeeded, but the lock is not held")
	b.to = p.keep(g)
	if g.mine && p.random.IntN(3) == 0 {
		hold, err := p.lock.Acquire(p.owner, rlock.WithWait(0))
		if g.Valid() {
			assert.NoError(p.T, err, "a nested lock sends no command")
			b.to = time.Now()
		}
		if err == nil {
			p.keep(p.levelOf(hold), g)
			p.over(hold.Release(p.owner))
			if to := p.keep(g); !to.IsZero() {
				b.to = to
			}
		}
	}
	if b.from.Before(b.to) {
		p.mu.Lock()
		p.beliefs = append(p.beliefs, b)
		p.mu.Unlock()
	}
	p.over(g.Release(p.owner))
}

// keep holds a level inside of others for a while, and checks each report of the hold
// against the servers. It returns the time of the last valid report, zero if there is none.
func (p *majorityUser) keep(g level, around ...level) (to time.Time) {
	all := append(around, g)
	for until := time.Now().Add(p.upTo(200 * time.Millisecond << max(p.random.IntN(8)-4, 0))); ; {
		left, is := g.left()
		if !is {
			return to
		}
		to = time.Now()
		before, shown, n := levels(all), p.shows(p.team), p.lock.HoldCount(p.owner)
		if after, is := g.left(); is && levels(all) == before {
			left = min(left, after) // a lease may have been shortened or renewed meanwhile
			shown = slices.DeleteFunc(shown, func(d time.Duration) bool { return d < left })
			assert.GreaterOrEqual(p.T, len(shown), p.need, "too few servers show the hold, which has %v left", left)
			assert.Equal(p.T, before, n, "levels")
		}
		if !to.Before(until) {
			return to
		}
		select {
		case <-g.Context().Done():
			return time.Now()
		case <-time.After(p.upTo(20 * time.Millisecond)):
		}
	}
}

// over asserts that the release of a hold returns one of the documented errors.
func (p *majorityUser) over(err error) {
	assert.True(p.T, err == nil || errors.Is(err, rlock.ErrLost) || errors.Is(err, rlock.ErrUnconfirmed), "%v", err)
}

const step = 5 * time.Millisecond

// A level is a hold of the lock.
type level struct {
	*rlock.Hold
	mine bool // it is the user's, and not the handle's own
}

func (p *majorityUser) levelOf(h *rlock.Hold) level {
	owner, _ := rlock.OwnerFrom(p.owner)
	of, _ := rlock.OwnerFrom(h.Context())
	return level{h, of == owner}
}

// left is the certain minimum.
func (g level) left() (left time.Duration, is bool) {
	until := g.ValidUntil()
	return max(time.Until(until), 0), !until.IsZero()
}

// levels returns how many of them are held by the user.
func levels(all []level) (n int) {
	for _, g := range all {
		if g.mine && g.Valid() {
			n++
		}
	}
	return n
}
