package rlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A contest is for one name, with locks of these kinds.
type contest struct {
	name string
	// exclusive are the locks that exclude every other owner; shared is the lock that all
	// may have while none is held exclusively, nil if there is none.
	exclusive lockers
	shared    func([]*rlock.Client, string) locker
	seeds     int
	// lingers makes the locks linger after their last Unlock.
	lingers bool
}

type lockers = []func([]*rlock.Client, string) locker

var contests = []contest{
	{name: "plain", seeds: 6, exclusive: lockers{plainLock}},
	{name: "read and write", seeds: 10, exclusive: lockers{writeLock}, shared: readLock},
	{name: "fair", seeds: 6, exclusive: lockers{fairLock}},
	{name: "semaphore of one", seeds: 4, exclusive: lockers{semaphoreOfOne}},
	{name: "plain, fenced and fair", seeds: 4, exclusive: lockers{plainLock, fencedLock, fairLock}},
	{name: "plain that lingers", seeds: 6, exclusive: lockers{plainLock}, lingers: true},
	{name: "read and write that linger", seeds: 6, exclusive: lockers{writeLock}, shared: readLock, lingers: true},
	{name: "plain, fenced and fair that linger", seeds: 4, exclusive: lockers{plainLock, fencedLock, fairLock}, lingers: true},
}

// Connections are cut, silenced, refused and slow at random, of one client or of all.
// Replies, scripts and keys are lost, clients are closed, and callers give up. No section
// overlaps that of a writer. A client that says that it holds the lock has it in Redis. After
// the storm every caller gets the lock at once, and nothing is left.
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

var seeds = flag.Int("seeds", 300, "with -long, the number of storms of each kind")

// storms returns how many storms a test runs: usually n, -seeds with -long, and a third of n
// with -short.
func storms(n int) uint64 {
	if testing.Short() && !*long {
		return uint64(max(n/3, 1))
	}
	return uint64(thorough(*seeds, n))
}

const (
	// stormLease is the lease of the watchdogs in a storm, and longestLease the longest of
	// all: the claim of a fair lock.
	stormLease, longestLease = 1500 * time.Millisecond, 2 * time.Second
	// longestLinger is the longest time that a lock lingers after its last Unlock.
	longestLinger = time.Minute
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
	*world
	kind    contest
	random  *rand.Rand
	clients []*replaceable
	begin   time.Time
	// shortest is the smallest of the bounds of a section.
	shortest time.Duration
	gone     []*testClient  // the clients closed during the storm
	closed   sync.WaitGroup // until they are closed
	taken    []time.Time    // when the lock was taken from its holder

	mu        sync.Mutex // protects following
	sections  []criticalSection
	waits     []span      // after the storm, without a short deadline
	disturbed []time.Time // when keys were deleted, or unlocked by force
}

// A criticalSection is the time in which one owner had the lock: exclusively, and then shared.
type criticalSection struct{ exclusive, shared span }

func (s criticalSection) from() time.Time {
	if s.exclusive.from.IsZero() {
		return s.shared.from
	}
	return s.exclusive.from
}

func (s criticalSection) to() time.Time {
	if s.shared.to.IsZero() {
		return s.exclusive.to
	}
	return s.shared.to
}

// A replaceable is a client that the storm closes and replaces.
type replaceable struct {
	make func() *testClient

	mu     sync.Mutex // protects following
	client *testClient
}

func (r *replaceable) current() *testClient {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.client
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
		s.shortest = time.Second // leases end during faults
	}
	several := []int{-1, -1, 1, 2}[random.IntN(4)]
	for range 2 {
		change := configured(several)
		s.clients = append(s.clients, &replaceable{make: func() *testClient { return w.client(change) }})
	}
	if sharing := random.IntN(2) == 0; !sharing {
		change := configured(-1)
		s.clients = append(s.clients, &replaceable{make: func() *testClient { return w.client(change) }})
	} else {
		net, client := w.program()
		for range 2 {
			change := configured(0)
			s.clients = append(s.clients, &replaceable{make: func() *testClient {
				p := w.client(change, func(c *rlock.Config) { c.Redis, c.Client = rueidis.ClientOption{}, client })
				p.net = net
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
				assert.True(s.t, c.turn(recovery, 50*time.Millisecond), "a caller did not get the lock after the storm")
				recovered.Done()
				recovered.Wait()
				time.Sleep(longestLease)
				c.calm = true
				for range 8 {
					if c.random.IntN(2) == 0 {
						c.turn(c.upTo(5*time.Millisecond), 20*time.Millisecond)
					} else {
						assert.True(s.t, c.turn(recovery, 20*time.Millisecond), "a caller did not get the lock after the storm")
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
		r.client.net.SetRoundTrip(time.Duration(s.random.IntN(5)) * time.Millisecond)
	}
	callers.Wait()
	s.closed.Wait()
	s.noSectionOverlapsAWriter()
	s.noCallerWaitsForAFreeLock()
	s.nothingIsLeft()
}

// faults breaks the networks until the storm ends, and then heals them.
func (s *storm) faults() {
	admin, outside := s.client(), s.outsider()
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
			s.answerScripts("")
		case 11:
			s.answerScripts([]string{"LOADING a while", "READONLY", "BUSY", "ERR max number of clients"}[s.random.IntN(4)])
		case 12:
			assert.NoError(s.t, outside.Do(s.ctx, outside.B().ScriptFlush().Build()).Error())
		case 13:
			if deletes {
				s.disturb(admin)
			}
		case 14:
			s.replace(affected[0])
		}
		for _, r := range affected {
			net := r.current().net
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
	for _, r := range s.clients {
		heal(r.client.net)
	}
	for _, p := range s.gone {
		heal(p.net)
	}
}

// replace closes the client and makes another one.
func (s *storm) replace(r *replaceable) {
	old := r.current()
	s.gone = append(s.gone, old)
	s.closed.Go(func() {
		if err := old.Close(); err != nil {
			assert.ErrorIs(s.t, err, rlock.ErrUnconfirmed)
		}
	})
	client := r.make() // without the mutex: a silent connection delays it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.client = client
}

// disturb takes the lock from its holder, by deleting the key or by ForceUnlock.
func (s *storm) disturb(admin *testClient) {
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
		locks := s.kind.exclusive
		if s.kind.shared != nil {
			locks = append(slices.Clone(locks), s.kind.shared)
		}
		freed, _ := locks[s.random.IntN(len(locks))]([]*rlock.Client{admin.Client}, key).ForceUnlock(s.ctx)
		if !freed || s.kind.shared != nil { // it frees readers or a writer only
			return
		}
	}
	s.taken = append(s.taken, now)
}

// wasDisturbed reports whether keys were deleted between from and to.
func (s *storm) wasDisturbed(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !firstOf(s.disturbed, from, to).IsZero()
}

// firstOf returns the first of the times between from and to, zero if there is none.
func firstOf(times []time.Time, from, to time.Time) time.Time {
	for _, at := range times {
		if !at.Before(from) && !at.After(to) {
			return at
		}
	}
	return time.Time{}
}

func (s *storm) noSectionOverlapsAWriter() {
	var exclusive, all []span
	for _, section := range s.sections {
		from := section.from()
		if s.wasDisturbed(from.Add(-longestLease), from) {
			continue // its tenure may have been lost before it began
		}
		if at := firstOf(s.taken, from, section.to()); !at.IsZero() {
			assert.LessOrEqual(s.t, section.to().Sub(at), longestLease, "the holder was not notified")
		}
		if at := firstOf(s.disturbed, from, section.to()); !at.IsZero() {
			section.exclusive.cap(at)
			section.shared.cap(at)
		}
		all = append(all, section.exclusive, section.shared)
		exclusive = append(exclusive, section.exclusive)
	}
	for _, a := range exclusive {
		for _, b := range all {
			if a != b {
				require.False(s.t, a.from.Before(b.to) && b.from.Before(a.to), "%v and %v overlap", s.since(a), s.since(b))
			}
		}
	}
}

// cap ends the span at that time, unless it ends earlier.
func (s *span) cap(at time.Time) {
	if at.Before(s.to) {
		s.to = at
	}
}

func (s *storm) since(of span) [2]time.Duration {
	return [2]time.Duration{of.from.Sub(s.begin), of.to.Sub(s.begin)}
}

func (s *storm) noCallerWaitsForAFreeLock() {
	var busy []span
	for _, section := range s.sections {
		busy = append(busy, span{section.from(), section.to()})
	}
	slices.SortFunc(busy, func(a, b span) int { return a.from.Compare(b.from) })
	var longest time.Duration
	for _, wait := range s.waits {
		free := wait.from // the lock is free since then
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
		assert.Less(s.t, longest, idle, "the lock was free while a caller waited: %v", s.since(wait))
	}
	s.t.Logf("%d sections, %d waits, the lock was free for %v at most", len(s.sections), len(s.waits), longest)
}

func (s *storm) nothingIsLeft() {
	time.Sleep(50 * time.Millisecond)
	if s.kind.lingers {
		time.Sleep(longestLinger) // no client called the last holder, so the lock lingers
	}
	assert.Empty(s.t, slices.DeleteFunc(s.Keys(), isCounter))
	time.Sleep(time.Minute) // until the connection for subscriptions is renewed
	assert.Empty(s.t, lockChannels(s.Miniredis))
	for _, r := range s.clients {
		assert.NoError(s.t, r.client.Close())
	}
}

// A caller takes the lock again and again while the storm lasts, each time as a new owner.
type caller struct {
	*storm
	via    *replaceable
	random *rand.Rand
	calm   bool

	// Of one turn:
	ctx         context.Context
	client      *testClient
	write, read locker // read is nil if nothing is shared
	levels      []*taken
	section     criticalSection
}

// Taken is a level that the caller has not unlocked yet.
type taken struct {
	lock  locker
	hold  *rlock.Hold // nil if it was taken without a handle
	until time.Time   // the end of a fixed lease, zero if the watchdog keeps it
}

func (c *caller) upTo(d time.Duration) time.Duration { return upTo(c.random, d) }

// patience returns how long the caller waits while there are faults.
func (c *caller) patience() time.Duration {
	return []time.Duration{c.upTo(10 * time.Millisecond), c.upTo(3 * time.Second), 20 * time.Second}[c.random.IntN(3)]
}

// turn takes the lock once, waiting at most for patience, holds it at most for longest, and
// reports whether it got the lock.
func (c *caller) turn(patience, longest time.Duration) (got bool) {
	c.client, c.levels, c.section = c.via.current(), nil, criticalSection{}
	clients := []*rlock.Client{c.client.Client}
	c.write = c.kind.exclusive[c.random.IntN(len(c.kind.exclusive))](clients, key)
	if c.kind.shared != nil {
		c.read = c.kind.shared(clients, key)
	}
	c.ctx = rlock.WithOwner(c.world.ctx, rlock.NewOwner())
	lock, asked := c.write, time.Now()
	if c.read != nil && c.random.IntN(3) > 0 {
		lock = c.read
	}
	if !c.await(lock, patience) {
		return false
	}
	now := time.Now()
	if c.calm && patience == recovery {
		c.mu.Lock()
		c.waits = append(c.waits, span{asked, now})
		c.mu.Unlock()
	}
	longest = min(longest, max(time.Until(c.begin.Add(stormTime)), 50*time.Millisecond)) // the end of the storm bounds a late section
	leave := now.Add(c.upTo(longest))
	for c.holds() && now.Before(leave) {
		select {
		case <-c.done():
			c.extend(time.Now())
		case <-time.After(min(leave.Sub(now), c.upTo(50*time.Millisecond)+time.Millisecond)):
		}
		if now = time.Now(); c.holds() {
			c.change()
		}
	}
	for len(c.levels) > 0 {
		c.release(c.random.IntN(len(c.levels)))
	}
	c.mu.Lock()
	c.sections = append(c.sections, c.section)
	c.mu.Unlock()
	return true
}

// await waits for the lock in one of the possible ways.
func (c *caller) await(lock locker, patience time.Duration) bool {
	wait := time.Duration(-1)
	if patience < recovery {
		wait = []time.Duration{-1, -1, 0, patience}[c.random.IntN(4)]
	}
	within := c.ctx
	if wait < 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(within, patience)
		if !c.calm && c.random.IntN(2) == 0 { // a cancellation without a deadline
			within, cancel = context.WithCancel(c.ctx)
			defer time.AfterFunc(patience, cancel).Stop()
		}
		defer cancel()
	}
	return c.take(within, lock, wait)
}

// take takes one level. A wait below 0 has no end.
func (c *caller) take(ctx context.Context, lock locker, wait time.Duration) bool {
	l, lease := &taken{lock: lock}, time.Duration(0)
	if c.random.IntN(2) == 0 {
		lease = 100*time.Millisecond + c.upTo(stormLease)
	}
	ok, err := true, error(nil)
	switch named := c.random.IntN(2) == 0; {
	case named && wait < 0:
		err = lock.LockFor(ctx, lease)
	case named:
		ok, err = lock.TryLockFor(ctx, wait, lease)
	default:
		options := []rlock.AcquireOption{rlock.WithLease(lease)}
		if wait >= 0 {
			options = append(options, rlock.WithWait(wait))
		}
		l.hold, err = lock.Acquire(ctx, options...)
	}
	if err != nil || !ok {
		return false
	}
	if lease > 0 {
		l.until = time.Now().Add(lease)
	}
	c.levels = append(c.levels, l)
	return true
}

// handle returns a handle of the caller, nil if it has none.
func (c *caller) handle() *rlock.Hold {
	for _, l := range c.levels {
		if l.hold != nil {
			return l.hold
		}
	}
	return nil
}

// done is closed when the hold of a handle ends.
func (c *caller) done() <-chan struct{} {
	if hold := c.handle(); hold != nil {
		return hold.Context().Done()
	}
	return nil
}

// believes reports whether the client says that the caller holds the lock.
func (c *caller) believes() bool {
	if hold := c.handle(); hold != nil {
		return hold.Context().Err() == nil
	}
	return c.valid()
}

// valid reports whether the lease is valid by the clock.
func (c *caller) valid() bool {
	l := c.levels[0]
	if l.hold != nil {
		return l.hold.Valid()
	}
	return l.lock.IsHeld(c.ctx)
}

// has returns how many levels of a lock the caller has.
func (c *caller) has(lock locker) (n int) {
	for _, l := range c.levels {
		if l.lock == lock {
			n++
		}
	}
	return n
}

// holds reports whether the caller holds the lock, asserts that Redis agrees, and extends the
// section.
func (c *caller) holds() bool {
	t, now := c.world.t, time.Now()
	before, valid := c.believes(), c.valid()
	fields, writes, reads := c.fields(key), c.write.HoldCount(c.ctx), 0
	if c.read != nil {
		reads = c.read.HoldCount(c.ctx)
	}
	stillValid, after := c.valid(), c.believes()
	switch {
	case valid && stillValid:
		assert.Equal(t, c.has(c.write), writes)
		assert.Equal(t, c.has(c.read), reads)
	case !valid:
		assert.Zero(t, writes+reads)
	}
	if before && after && !c.wasDisturbed(now.Add(-longestLease), now) {
		assert.True(t, slices.ContainsFunc(fields, c.shows), "Redis does not show the holder: %v", fields)
		if ends := c.ends(); !ends.IsZero() {
			assert.LessOrEqual(t, now.Sub(ends), 20*time.Millisecond, "the hold outlasts its lease: %v", c)
		}
	}
	if before {
		c.extend(now)
	}
	return before && after
}

// open returns the part of the section that goes on.
func (c *caller) open() *span {
	if c.has(c.write) > 0 {
		return &c.section.exclusive
	}
	return &c.section.shared
}

// extend records that the caller has had the lock until now.
func (c *caller) extend(now time.Time) {
	s := c.open()
	if s.from.IsZero() {
		s.from = now
	}
	s.to = now
}

// shows reports whether a field of the hash is that of the caller's client.
func (c *caller) shows(field string) bool {
	if !strings.HasPrefix(field, c.client.ID()) {
		return false
	}
	return c.read == nil || c.has(c.write) == 0 || strings.HasSuffix(field, ":write")
}

// ends returns when the last lease of the levels ends, zero for never.
func (c *caller) ends() (latest time.Time) {
	for _, l := range c.levels {
		if l.until.IsZero() {
			return time.Time{}
		}
		if l.until.After(latest) {
			latest = l.until
		}
	}
	return latest
}

// change takes a nested level, or unlocks a level that is not the last one.
func (c *caller) change() {
	t := c.world.t
	switch c.random.IntN(6) {
	case 0, 1:
		if len(c.levels) > 1 {
			c.release(c.random.IntN(len(c.levels)))
		}
	case 2, 3:
		lock := c.write
		if c.read != nil && (c.has(c.write) == 0 || c.random.IntN(2) == 0) {
			lock = c.read
		}
		if valid := c.valid(); c.take(c.ctx, lock, 0) {
			if !valid || !c.believes() { // the levels belong to different holds
				c.release(len(c.levels) - 1)
			}
		} else {
			assert.False(t, valid && c.valid(), "a valid hold may nest")
		}
	case 4:
		if c.read != nil && c.has(c.write) == 0 {
			_, err := c.write.Acquire(c.ctx, rlock.WithWait(0))
			assert.Error(t, err)
			assert.True(t, errors.Is(err, rlock.ErrUpgrade) || !c.valid(), "%v", err)
		}
	}
}

// release unlocks one level.
func (c *caller) release(i int) {
	if c.believes() {
		c.extend(time.Now())
	}
	l := c.levels[i]
	if l.hold == nil { // Unlock ends the innermost
		for j, inner := range c.levels {
			if inner.hold == nil && inner.lock == l.lock {
				i = j
			}
		}
	}
	believed := c.believes()
	c.levels = slices.Delete(c.levels, i, i+1)
	if len(c.levels) > 0 && believed {
		c.extend(time.Now()) // as a reader, if it was a writer
	}
	var err error
	if l.hold != nil {
		err = l.hold.Release(c.ctx)
	} else {
		err = l.lock.Unlock(c.ctx)
	}
	for _, expected := range []error{nil, rlock.ErrLost, rlock.ErrUnconfirmed, rlock.ErrClosed} {
		if errors.Is(err, expected) {
			return
		}
	}
	assert.Fail(c.world.t, "unlock", "%v", err)
}

func (c *caller) String() string {
	text := ""
	for _, l := range c.levels {
		text += fmt.Sprintf("{%T handle %v until %v} ", l.lock, l.hold != nil, l.until.Sub(c.begin))
	}
	return fmt.Sprintf("%v %s %v", time.Since(c.begin), text, c.section)
}
