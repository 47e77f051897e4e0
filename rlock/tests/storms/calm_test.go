package storms_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// longestRead is the longest section of a reader in a calm spell, and longestSection of all others.
const longestRead, longestSection = 2 * time.Second, 20 * time.Millisecond

// Clients of many configurations contend, with waits of each sort, beside guests that only poll. Nothing breaks. No
// section overlaps that of a writer, no wait is long, and nothing is left.
func TestNoWaitIsLongWhileNothingBreaks(t *testing.T) {
	redistest.Slow(t)
	for _, kind := range contests {
		t.Run(kind.name, func(t *testing.T) {
			for seed := range testbed.Storms(1) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
						newCalmSpell(w, kind, seed).run()
					})
				})
			}
		})
	}
}

// A calmSpell is a contest without faults.
type calmSpell struct {
	*testbed.World
	kind     contest
	random   *rand.Rand
	length   time.Duration
	clients  []*testbed.Client // that are used, and stay open; nil: run makes some
	end      time.Time
	pause    time.Duration // the longest between two sections of a caller
	section  time.Duration // the longest, but of readers now and then
	longRead time.Duration
	polls    bool // the clients know that guests poll
	settings string

	mu               sync.Mutex // protects following
	writers, readers int        // that have the lock now
	sections         int
	longest          map[string]time.Duration // the longest wait of each sort
}

func newCalmSpell(w *testbed.World, kind contest, seed uint64) *calmSpell {
	c := &calmSpell{World: w, kind: kind, random: rand.New(rand.NewPCG(seed, 1)), longest: map[string]time.Duration{}}
	c.length = testbed.Thorough(6*time.Second, time.Second)
	if testbed.Fewer() {
		c.length = 300 * time.Millisecond // waits are measured without the race detector
	}
	return c
}

func (c *calmSpell) run() {
	r := c.random
	c.end = time.Now().Add(c.length)
	c.pause = oneOf(r, 2*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond)
	c.section = oneOf(r, time.Millisecond, 3*time.Millisecond, longestSection)
	c.longRead = oneOf(r, c.section, longestRead)
	c.polls = r.IntN(3) == 0
	c.settings = fmt.Sprintf("pauses %v, sections %v, reads %v, RedissonPolls %v", c.pause, c.section, c.longRead, c.polls)

	var all sync.WaitGroup
	clients := c.clients
	for range 1 + r.IntN(3) {
		if c.clients != nil {
			break
		}
		p := c.NewClient(c.configured())
		p.Net.SetRoundTrip(oneOf(r, 0, 200*time.Microsecond, 2*time.Millisecond))
		clients = append(clients, p)
	}
	each := 1 + r.IntN(4)
	for _, p := range clients {
		for range each {
			caller := &calmCaller{calmSpell: c, client: p, random: c.fork()}
			all.Go(caller.run)
		}
	}
	for i := range c.guests() {
		guest := c.newGuest(i)
		all.Go(guest.run)
	}
	all.Wait()

	c.T.Logf("%d clients with %d callers each, %s: %d sections, longest waits %v", len(clients), each, c.settings, c.sections, c.longest)
	for sort, wait := range c.longest {
		assert.LessOrEqual(c.T, wait, c.bound(), sort)
	}
	for _, p := range clients {
		assert.Zero(c.T, p.Stats().Waiting)
		if c.clients == nil {
			require.NoError(c.T, p.Close())
		}
	}
	time.Sleep(time.Minute + 10*time.Second) // guests are remembered for a minute
	assert.Empty(c.T, slices.DeleteFunc(c.Keys(), testbed.IsCounter))
	assert.Empty(c.T, testbed.LockChannels(c.Miniredis))
}

// bound is how long a wait may take: a caller waits for those before it, and at times for a turn of
// readers and one of guests.
func (c *calmSpell) bound() time.Duration {
	if c.longRead == longestRead {
		return 10 * time.Second
	}
	return 2 * time.Second
}

// configured returns a configuration at random.
func (c *calmSpell) configured() func(*rlock.Config) {
	r := c.random
	limit, turn := oneOf(r, -1, 0, 1, 1000), oneOf(r, 0, 0, time.Millisecond, 100*time.Millisecond)
	lease := oneOf(r, 0, 0, 3*time.Second)
	c.settings += fmt.Sprintf(" [HandoffLimit %d HandoffTime %v Lease %v]", limit, turn, lease)
	return func(config *rlock.Config) {
		config.Advanced.HandoffLimit, config.Advanced.HandoffTime = limit, turn
		config.Lease, config.Logger = lease, testbed.Quiet
		if c.polls {
			config.Advanced.RedissonPolls = rlock.RedissonPollsAlways
		}
	}
}

// fork returns a source of its own for a goroutine.
func (c *calmSpell) fork() *rand.Rand { return rand.New(rand.NewPCG(c.random.Uint64(), 1)) }

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// enter and leave count those that have the lock.
func (c *calmSpell) enter(shared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sections++
	if shared {
		c.readers++
	} else {
		c.writers++
		assert.Equal(c.T, 1, c.writers, "writers")
		assert.Zero(c.T, c.readers, "readers beside a writer")
	}
	assert.False(c.T, shared && c.writers > 0, "a reader beside a writer")
}

func (c *calmSpell) leave(shared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared {
		c.readers--
	} else {
		c.writers--
	}
}

// downgrade is enter for a reader that is the writer, and leave for the writer.
func (c *calmSpell) downgrade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers, c.readers = c.writers-1, c.readers+1
}

// waited notes how long a wait of that sort was.
func (c *calmSpell) waited(sort string, long time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest[sort] = max(c.longest[sort], long)
}

// A calmCaller takes the lock again and again, each time as a new owner.
type calmCaller struct {
	*calmSpell
	client *testbed.Client
	random *rand.Rand
}

func (c *calmCaller) run() {
	for time.Now().Before(c.end) {
		time.Sleep(upTo(c.random, c.pause))
		c.turn()
	}
}

func (c *calmCaller) turn() {
	clients := []*rlock.Client{c.client.Client}
	lock, shared, sort := oneOf(c.random, c.kind.exclusive...)(clients, testbed.Key), false, "write"
	var read testbed.Locker
	if c.kind.shared != nil {
		if read = c.kind.shared(clients, testbed.Key); c.random.IntN(5) > 0 {
			lock, shared, sort = read, true, "read"
		}
	}
	ctx := rlock.WithOwner(c.Ctx, rlock.NewOwner())
	began := time.Now()
	hold, how := c.acquire(ctx, lock)
	c.waited(sort+how, time.Since(began))
	if hold == nil {
		return
	}
	c.enter(shared)
	time.Sleep(c.length(shared))
	switch c.random.IntN(6) {
	case 0:
		nested, err := lock.Acquire(ctx)
		assert.NoError(c.T, err)
		defer func() { assert.NoError(c.T, nested.Release(c.Ctx)) }()
	case 1:
		if read == nil || shared {
			break
		}
		below, err := read.Acquire(ctx)
		assert.NoError(c.T, err)
		c.downgrade()
		assert.NoError(c.T, hold.Release(c.Ctx))
		time.Sleep(c.length(true))
		hold, shared = below, true
	}
	c.leave(shared)
	assert.NoError(c.T, hold.Release(c.Ctx))
}

// length returns how long a section is.
func (c *calmCaller) length(shared bool) time.Duration {
	if shared && c.random.IntN(100) == 0 {
		return upTo(c.random, c.longRead)
	}
	return upTo(c.random, c.section)
}

// acquire waits for the lock in one of the possible ways, and says which one.
func (c *calmCaller) acquire(ctx context.Context, lock testbed.Locker) (hold *rlock.Hold, how string) {
	var options []rlock.AcquireOption
	switch c.random.IntN(6) {
	case 0:
		how, options = " for a moment", append(options, rlock.WithWait(upTo(c.random, longestSection)))
	case 1:
		var cancel context.CancelFunc
		how = " until it is cancelled"
		ctx, cancel = context.WithTimeout(ctx, upTo(c.random, 50*time.Millisecond))
		defer cancel()
	case 2:
		options = append(options, rlock.WithLease(8*time.Second+upTo(c.random, 2*time.Second)))
	}
	hold, err := lock.Acquire(ctx, options...)
	if how == "" || !errors.Is(err, rlock.ErrNotAcquired) && !errors.Is(err, context.DeadlineExceeded) {
		assert.NoError(c.T, err)
	}
	return hold, how
}

// A calmGuest is a client of Redisson that only polls, and takes the lock now and then.
type calmGuest struct {
	*calmSpell
	redis   *testbed.Foreigner
	random  *rand.Rand
	owner   string
	reads   bool
	section time.Duration
	pause   time.Duration // the longest between two sections
	channel string        // to which it publishes, "" for none
}

// guests returns how many contend as well.
func (c *calmSpell) guests() int {
	if c.kind.shared == nil && c.kind.name != "plain" {
		return 0
	}
	return c.random.IntN(3)
}

func (c *calmSpell) newGuest(i int) *calmGuest {
	g := &calmGuest{
		calmSpell: c,
		redis:     c.NewGuest(),
		random:    c.fork(),
		owner:     fmt.Sprint(testbed.ForeignOwner, i),
		reads:     c.kind.shared != nil && c.random.IntN(3) > 0,
		section:   oneOf(c.random, 5*time.Millisecond, 50*time.Millisecond),
		pause:     oneOf(c.random, 50*time.Millisecond, time.Second, 10*time.Second),
	}
	if g.reads {
		g.section = oneOf(c.random, g.section, c.longRead)
	}
	if c.random.IntN(2) == 0 {
		g.channel = testbed.Channel
		if c.kind.shared != nil {
			g.channel = "redisson_rwlock:{" + testbed.Key + "}"
		}
	}
	c.settings += fmt.Sprintf(" [guest reads %v, sections %v, pauses %v, publishes %v]", g.reads, g.section, g.pause, g.channel != "")
	return g
}

// What Redisson does, without its nested levels.
const (
	guestTakes = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		return redis.call('pexpire', KEYS[1], 30000)`
	guestWrites = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
		return redis.call('pexpire', KEYS[1], 30000)`
	guestReads = `
		if redis.call('hget', KEYS[1], 'mode') == 'write' then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
		redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', 30000)
		return redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), 30000))`
	guestLeaves = `
		redis.call('hdel', KEYS[1], ARGV[1], ARGV[1] .. ':write')
		redis.call('del', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:1')
		local left = redis.call('hkeys', KEYS[1])
		if #left > 1 or left[1] and left[1] ~= 'mode' then
			return 0
		end
		redis.call('del', KEYS[1])
		return ARGV[2] == '' and 0 or redis.call('publish', ARGV[2], '0')`
)

func (g *calmGuest) run() {
	for time.Now().Before(g.end) {
		time.Sleep(upTo(g.random, g.pause))
		began := time.Now()
		for !g.take() {
			time.Sleep(time.Millisecond + upTo(g.random, 127*time.Millisecond))
		}
		if g.polls { // else one that was never met waits until the lock is free
			g.waited("guest", time.Since(began))
		}
		g.enter(g.reads)
		time.Sleep(g.section)
		g.leave(g.reads)
		assert.NoError(g.T, g.redis.Eval(guestLeaves, g.owner, g.channel).Error())
	}
}

func (g *calmGuest) take() bool {
	script := guestTakes
	switch {
	case g.reads:
		script = guestReads
	case g.kind.shared != nil:
		script = guestWrites
	}
	got, err := g.redis.Eval(script, g.owner).AsInt64()
	return assert.NoError(g.T, err) && got == 1
}
