package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// What a contended lock costs by its protocol alone. In virtual time the processor costs
// nothing and the network always takes as long, so that the figures are those of the
// protocol, on any machine. With -long there are all settings:
//
//	go test -v -timeout 30m -run InVirtualTime ./rlock -long

// A contention is processes whose goroutines want one lock again and again.
type contention struct {
	processes, goroutines int
	section, roundTrip    time.Duration
	pauses                bool // between the sections of a goroutine
}

func (c contention) String() string {
	text := fmt.Sprintf("%d x %d, %v sections, %v away", c.processes, c.goroutines, c.section, c.roundTrip)
	if c.pauses {
		text += ", pauses"
	}
	return text
}

func (c contention) waiters() int { return c.processes * c.goroutines }

// rest is the pause of a goroutine after a turn. The pauses of each are spread evenly up to
// eight sections, or 8 ms, and not random.
func (c contention) rest(goroutine, turn int) time.Duration {
	if !c.pauses {
		return 0
	}
	_, part := math.Modf(float64(goroutine)*math.Sqrt2 + float64(turn)*math.Phi)
	return time.Duration(part * 8 * float64(max(c.section, time.Millisecond)))
}

// A tally is what a contention has come to. The lock protects it until all are done.
type tally struct {
	contention
	warm, left int // the sections before those that are counted, and of these
	sections   []int
	waits      []time.Duration
	handovers  []time.Duration // from the call of Unlock in one process to the return of Lock in another that waited
	took       time.Duration
	sent       int64 // scripts

	scripts func() int64
	began   time.Time
	before  int64
	last    int       // the process that had the lock last
	freed   time.Time // when it called Unlock
}

// enter notes that a goroutine has got the lock, for which it has waited since then.
func (y *tally) enter(process int, since time.Time) {
	now := time.Now()
	switch {
	case y.warm > 0:
		if y.warm--; y.warm == 0 {
			y.began, y.before = now, y.scripts()
		}
	case y.left > 0:
		y.sections[process]++
		y.waits = append(y.waits, now.Sub(since))
		if process != y.last && !since.After(y.freed) {
			y.handovers = append(y.handovers, now.Sub(y.freed))
		}
		if y.left--; y.left == 0 {
			y.took, y.sent = now.Sub(y.began), y.scripts()-y.before
		}
	}
}

// leave notes that Unlock is about to be called, and reports whether the contention is over.
func (y *tally) leave(process int) (over bool) {
	y.last, y.freed = process, time.Now()
	return y.left == 0
}

func (y *tally) total() int { return len(y.waits) }

// rate is in sections a second: infinite if no time has passed.
func (y *tally) rate() float64 { return float64(y.total()) / y.took.Seconds() }

// share is that of the process that had the fewest sections in those of the one that had
// the most.
func (y *tally) share() float64 {
	return float64(slices.Min(y.sections)) / float64(slices.Max(y.sections))
}

func (y *tally) scriptsEach() float64 { return float64(y.sent) / float64(y.total()) }

// rounds is a wait in rounds: as many mean sections as there are waiters.
func (y *tally) rounds(wait time.Duration) float64 {
	return wait.Seconds() * y.rate() / float64(y.waiters())
}

// percentile sorts all.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// row is the tally as a row of a table.
func (y *tally) row() string {
	trips := func(percent int) string {
		if y.roundTrip == 0 || len(y.handovers) == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", percentile(y.handovers, percent).Seconds()/y.roundTrip.Seconds())
	}
	wait := percentile(y.waits, 99)
	return fmt.Sprintf("%v\t%.0f\t%.2f\t%v\t%.2f\t%.2f\t%s\t%s", y, y.rate(), y.share(), wait.Round(time.Microsecond), y.rounds(wait),
		y.scriptsEach(), trips(50), trips(99))
}

// hold runs the contention until each goroutine has had a lock of that kind so often, on
// average, and long enough for one section more or less to make no difference. The first
// sections are not counted: in them connections are opened and channels subscribed to.
func (c contention) hold(t *testing.T, k kind, rounds int) *tally {
	t.Helper()
	y := &tally{contention: c, warm: max(3*c.waiters(), 20), left: max(rounds*c.waiters(), 40), sections: make([]int, c.processes), last: -1}
	bubbleAlone(t, func(t *testing.T, w *world) {
		y.scripts = func() int64 {
			calls := w.redis.Calls()
			return calls["evalsha"] + calls["eval"]
		}
		var all sync.WaitGroup
		for process := range c.processes {
			p := w.client(func(config *rlock.Config) { config.Logger = quiet })
			p.net.SetRoundTrip(c.roundTrip)
			for i := range c.goroutines {
				lock, me := k.lock([]*rlock.Client{p.Client}, key), w.caller()
				all.Go(func() {
					for turn := 0; ; turn++ {
						since := time.Now()
						if !assert.NoError(t, lock.Lock(me)) {
							return
						}
						y.enter(process, since)
						time.Sleep(c.section)
						over := y.leave(process)
						if !assert.NoError(t, lock.Unlock(me)) || over {
							return
						}
						time.Sleep(c.rest(process*c.goroutines+i, turn))
					}
				})
			}
		}
		all.Wait()
	})
	return y
}

// settings returns the contentions for a kind of lock.
func settings(k kind) (all []contention) {
	const us, ms = time.Microsecond, time.Millisecond
	if !*long {
		all = []contention{
			{2, 1, 0, 500 * us, false},
			{8, 1, ms, 500 * us, false},
			{8, 1, ms, 500 * us, true},
			{16, 1, 45 * ms, 500 * us, false}, // a wait is longer than a third of a claim
		}
		if k.name == "plain" {
			all = append(all, contention{32, 1, ms, 500 * us, false})
		}
		if !k.strict {
			all = append(all, contention{4, 32, 50 * us, 500 * us, false})
		}
		return all
	}
	for _, processes := range []int{2, 8, 32, 64} {
		for _, section := range []time.Duration{0, ms, 10 * ms} {
			for _, roundTrip := range []time.Duration{0, 500 * us, 2 * ms} {
				all = append(all, contention{processes, 1, section, roundTrip, false}, contention{processes, 1, section, roundTrip, true})
			}
		}
	}
	for _, section := range []time.Duration{50 * us, ms} {
		all = append(all, contention{4, 32, section, 500 * us, false}, contention{8, 16, section, 500 * us, false})
	}
	return all
}

// holdsItsTargets asserts what the protocol is to reach in a contention for a lock of that
// kind. Where nothing takes time the order is that of the scheduler, and nothing is asserted.
func (y *tally) holdsItsTargets(t *testing.T, k kind) {
	t.Helper()
	if y.section+y.roundTrip == 0 {
		return
	}
	assert.LessOrEqual(t, y.scriptsEach(), 2.2, "%v: scripts a section", y)
	assert.LessOrEqual(t, y.rounds(percentile(y.waits, 99)), 1.5, "%v: p99 wait in rounds", y)
	assert.LessOrEqual(t, percentile(y.handovers, 99), y.roundTrip*6/5, "%v: p99 hand-over", y)
	if y.pauses {
		return // else the share is that of the pauses, and so is the rate
	}
	assert.NotEmpty(t, y.handovers, "%v", y)
	assert.GreaterOrEqual(t, y.share(), 0.9, "%v: smallest share of a process", y)
	handedOver := 1 / (y.section + y.roundTrip).Seconds() // each section
	assert.GreaterOrEqual(t, y.rate(), 0.95*handedOver, "%v: sections a second", y)
	if y.processes == 4 && y.section == 50*time.Microsecond && !k.strict {
		assert.GreaterOrEqual(t, y.rate(), 10_500.0, "%v: sections a second", y)
		assert.LessOrEqual(t, percentile(y.waits, 99), 30*time.Millisecond, "%v: p99 wait", y)
	}
}

func TestInVirtualTimeAContendedLockHoldsItsTargets(t *testing.T) {
	manyCommands(t)
	for _, name := range []string{"plain", "fair", "fenced", "write", "semaphore of one"} {
		k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "\tsections/s\tshare\tp99 wait\tin rounds\tscripts\thand-over p50\tp99")
			for _, c := range settings(k) {
				rounds := thorough(10, 5)
				if c.goroutines > 1 && !k.strict {
					rounds *= 4 // a turn is many sections
				}
				y := c.hold(t, k, rounds)
				y.holdsItsTargets(t, k)
				fmt.Fprintln(table, y.row())
			}
			_ = table.Flush() // a Builder takes everything
			t.Log("\n" + text.String())
		})
	}
}

// longestRead is the longest section of a reader in a calm spell, and longestSection of all others.
const longestRead, longestSection = 2 * time.Second, 20 * time.Millisecond

// Clients of many configurations contend, with waits of each sort, beside guests that only poll. Nothing breaks. No section overlaps that of a writer, no wait is long, and nothing is
// left.
func TestNoWaitIsLongWhileNothingBreaks(t *testing.T) {
	for _, kind := range contests {
		if kind.lingers {
			continue // each client of a calm spell lingers as it likes
		}
		t.Run(kind.name, func(t *testing.T) {
			for seed := range storms(1) {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					bubble(t, func(t *testing.T, w *world) {
						c := &calmSpell{world: w, kind: kind, random: rand.New(rand.NewPCG(seed, 1)), longest: map[string]time.Duration{}}
						c.run()
					})
				})
			}
		})
	}
}

// A calmSpell is a contest without faults.
type calmSpell struct {
	*world
	kind     contest
	random   *rand.Rand
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

func (c *calmSpell) run() {
	r := c.random
	c.end = time.Now().Add(time.Duration(thorough(6, 1)) * time.Second)
	c.pause = oneOf(r, 2*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond)
	c.section = oneOf(r, time.Millisecond, 3*time.Millisecond, longestSection)
	c.longRead = oneOf(r, c.section, longestRead)
	c.polls = r.IntN(3) == 0
	c.settings = fmt.Sprintf("pauses %v, sections %v, reads %v, RedissonPolls %v", c.pause, c.section, c.longRead, c.polls)

	var all sync.WaitGroup
	var clients []*testClient
	for range 1 + r.IntN(3) {
		p := c.client(c.configured())
		p.net.SetRoundTrip(oneOf(r, 0, 200*time.Microsecond, 2*time.Millisecond))
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

	c.t.Logf("%d clients with %d callers each, %s: %d sections, longest waits %v", len(clients), each, c.settings, c.sections, c.longest)
	for sort, wait := range c.longest {
		assert.LessOrEqual(c.t, wait, c.bound(), sort)
	}
	for _, p := range clients {
		assert.Zero(c.t, p.Stats().Waiting)
		require.NoError(c.t, p.Close())
	}
	time.Sleep(time.Minute + 10*time.Second) // guests are remembered for a minute
	assert.Empty(c.t, slices.DeleteFunc(c.Keys(), isCounter))
	assert.Empty(c.t, lockChannels(c.Miniredis))
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
	linger, lease := oneOf(r, 0, 0, 20*time.Millisecond, time.Second), oneOf(r, 0, 0, 3*time.Second)
	c.settings += fmt.Sprintf(" [HandoffLimit %d HandoffTime %v Linger %v Lease %v]", limit, turn, linger, lease)
	return func(config *rlock.Config) {
		config.HandoffLimit, config.HandoffTime = limit, turn
		config.Linger, config.Lease, config.Logger = linger, lease, quiet
		if c.polls {
			config.RedissonPolls = rlock.RedissonPollsAlways
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
		assert.Equal(c.t, 1, c.writers, "writers")
		assert.Zero(c.t, c.readers, "readers beside a writer")
	}
	assert.False(c.t, shared && c.writers > 0, "a reader beside a writer")
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
	client *testClient
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
	lock, shared, sort := oneOf(c.random, c.kind.exclusive...)(clients, key), false, "write"
	var read locker
	if c.kind.shared != nil {
		if read = c.kind.shared(clients, key); c.random.IntN(5) > 0 {
			lock, shared, sort = read, true, "read"
		}
	}
	ctx := rlock.WithOwner(c.ctx, rlock.NewOwner())
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
		assert.NoError(c.t, err)
		defer func() { assert.NoError(c.t, nested.Release(c.ctx)) }()
	case 1:
		if read == nil || shared {
			break
		}
		below, err := read.Acquire(ctx)
		assert.NoError(c.t, err)
		c.downgrade()
		assert.NoError(c.t, hold.Release(c.ctx))
		time.Sleep(c.length(true))
		hold, shared = below, true
	}
	c.leave(shared)
	assert.NoError(c.t, hold.Release(c.ctx))
}

// length returns how long a section is.
func (c *calmCaller) length(shared bool) time.Duration {
	if shared && c.random.IntN(100) == 0 {
		return upTo(c.random, c.longRead)
	}
	return upTo(c.random, c.section)
}

// acquire waits for the lock in one of the possible ways, and says which one.
func (c *calmCaller) acquire(ctx context.Context, lock locker) (hold *rlock.Hold, how string) {
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
		assert.NoError(c.t, err)
	}
	return hold, how
}

// A calmGuest is a client of Redisson that only polls, and takes the lock now and then.
type calmGuest struct {
	*calmSpell
	redis   *foreigner
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
		redis:     c.guest(),
		random:    c.fork(),
		owner:     fmt.Sprint(foreignOwner, i),
		reads:     c.kind.shared != nil && c.random.IntN(3) > 0,
		section:   oneOf(c.random, 5*time.Millisecond, 50*time.Millisecond),
		pause:     oneOf(c.random, 50*time.Millisecond, time.Second, 10*time.Second),
	}
	if g.reads {
		g.section = oneOf(c.random, g.section, c.longRead)
	}
	if c.random.IntN(2) == 0 {
		g.channel = channel
		if c.kind.shared != nil {
			g.channel = "redisson_rwlock:{" + key + "}"
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
		assert.NoError(g.t, g.redis.eval(guestLeaves, g.owner, g.channel).Error())
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
	got, err := g.redis.eval(script, g.owner).AsInt64()
	return assert.NoError(g.t, err) && got == 1
}

// longStall is how long a server may let a PING wait. Beyond that a lease, or the two seconds
// of a claim, may end rightly in a test that expects it to be kept.
const longStall = 200 * time.Millisecond

// stalls are the times at which a real server, or this process, had no processor.
type stalls struct {
	mu    sync.Mutex // protects following
	asked time.Time  // when the PING that is not answered was due
	until time.Time  // the end of the last long stall
}

// observeStalls sends the server a PING every few milliseconds until the test ends.
func observeStalls(t *testing.T, server rueidis.Client) *stalls {
	s := &stalls{asked: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var observing sync.WaitGroup
	observing.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			server.Do(ctx, server.B().Ping().Build())
			s.answered()
		}
	})
	t.Cleanup(func() {
		cancel()
		observing.Wait()
	})
	return s
}

func (s *stalls) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.asked) > longStall {
		s.until = now
	}
	s.asked = now
}

// since reports whether a part of a long stall was after that time.
func (s *stalls) since(begin time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until.After(begin) || time.Since(s.asked) > longStall
}
