package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// Each command of each operation is lost once, in each way there is: the client cannot know
// whether it was executed, or will be. The caller may get an error, but no lock stays behind
// without a holder, no count is off by one, a late command touches no later tenure, and
// waiters go on.

// The operations. Each is made by an owner that is alone with its client, unless its name
// says otherwise.
var operations = []operation{
	{name: "Lock", run: func(s *story) {
		s.take(s.me, s.lock.Lock(s.me))
		require.Len(s, s.held, 1, "Lock asks again")
	}},
	{name: "LockFor", run: func(s *story) {
		s.take(s.me, s.lock.LockFor(s.me, s.lease*5/6))
		require.Len(s, s.held, 1, "Lock asks again")
	}},
	{name: "TryLock", run: func(s *story) {
		ok, err := s.lock.TryLock(s.me)
		require.Equal(s, err == nil, ok, "false means that another owner holds the lock, and none does")
		s.take(s.me, err)
	}},
	{name: "TryLockFor", run: func(s *story) {
		ok, err := s.lock.TryLockFor(s.me, s.lease, 0)
		require.NoError(s, err)
		require.True(s, ok)
		s.take(s.me, nil)
	}},
	{name: "Acquire", run: func(s *story) {
		hold, err := s.lock.Acquire(s.me)
		require.NoError(s, err)
		s.held = append(s.held, level{s.me, func() error { return hold.Release(s.me) }})
	}},
	{name: "Lock behind another client", before: (*story).heldByAnother, run: func(s *story) {
		result := start(func() error { return s.lock.Lock(s.me) })
		s.pause()
		require.NoError(s, s.other.NewLock(s.key).Unlock(s.theirs))
		s.take(s.me, <-result)
		require.Len(s, s.held, 1, "Lock asks again")
	}},
	{name: "nested Lock", before: (*story).locked, run: func(s *story) {
		s.take(s.me, s.lock.Lock(s.me))
		require.Len(s, s.held, 2, "a nested lock waits for nothing")
	}},
	{name: "hand-over", before: (*story).locked, run: func(s *story) {
		ctx, queued := queueing(s.them)
		result := start(func() error { return s.lock.Lock(ctx) })
		<-queued
		s.unlock()
		s.take(s.them, <-result)
		require.Len(s, s.held, 1, "a nested lock waits for nothing")
	}},
	{name: "renewal", before: (*story).locked, run: func(s *story) {
		time.Sleep(s.lease/3 + s.lease/100)
	}},
	{name: "nested Unlock", before: (*story).lockedTwice, run: func(s *story) {
		s.unlock()
	}},
	{name: "Unlock", before: (*story).locked, run: func(s *story) {
		s.unlock()
	}},
	{name: "Unlock of a nested lock", before: (*story).lockedTwice, run: func(s *story) {
		s.unlock()
		s.unlock()
	}},
	{name: "ForceUnlock", before: (*story).locked, run: func(s *story) {
		freed, err := s.lock.ForceUnlock(s.them)
		if err == nil {
			require.True(s, freed)
			require.Zero(s, s.lock.HoldCount(s.me))
		}
		s.forced = true
	}},
	{name: "ForceUnlock of another client's lock", before: (*story).heldByAnother, run: func(s *story) {
		freed, err := s.lock.ForceUnlock(s.me)
		require.Equal(s, err == nil, freed)
		if err = s.other.NewLock(s.key).Unlock(s.theirs); freed || err != nil {
			require.ErrorIs(s, err, rlock.ErrLost)
		}
	}},
	{name: "Lock cancelled in flight", run: func(s *story) {
		ctx, cancel := context.WithCancel(s.me)
		result := start(func() error { return s.lock.Lock(ctx) })
		time.Sleep(roundTrip / 2)
		cancel()
		s.take(s.me, <-result)
	}},
	{name: "Lock cancelled while it waits", before: (*story).heldByAnother, run: func(s *story) {
		ctx, cancel := context.WithCancel(s.me)
		result := start(func() error { return s.lock.Lock(ctx) })
		s.pause()
		cancel()
		require.ErrorIs(s, <-result, context.Canceled)
		require.NoError(s, s.other.NewLock(s.key).Unlock(s.theirs))
	}},
}

type operation struct {
	name   string
	before func(*story) // sets up the state in which the operation begins
	run    func(*story)
}

// The ways in which a command is lost.
var losses = []loss{
	{"the request with its connection", network.Request, network.Cut, never},
	{"the reply with its connection", network.Reply, network.Cut, never},
	{"the request in silence", network.Request, network.Hold, never},
	{"the reply in silence", network.Reply, network.Hold, never},
	{"the request, until the operation is over", network.Request, network.Hold, afterwards},
	{"the request, until another client's tenure", network.Request, network.Hold, inTheirTenure},
	{"the request, until this client's next tenure", network.Request, network.Hold, inNextTenure},
	{"the request, until long after", network.Request, network.Hold, longAfter}, // the last: see below
}

type loss struct {
	name  string
	stage network.Stage // Reply stands for everything that the server sends
	fate  network.Fate
	until moment // when it arrives
}

type moment int

const (
	never moment = iota
	afterwards
	inTheirTenure
	inNextTenure
	longAfter
)

// roundTrip is the round trip between the server and the client that loses a command.
const roundTrip = 2 * time.Millisecond

// A story is the history of two clients of one lock, of which one loses a command.
type story struct {
	t       *testing.T
	ctx     context.Context
	virtual bool      // in a bubble
	stalls  *stalls   // of a real server
	began   time.Time // in real time
	dial    func() (net.Conn, error)
	config  func(*rlock.Config)
	others  func(*rlock.Config) // the config of the client that loses nothing
	key     string
	lease   time.Duration
	outside rueidis.Client

	client, other    *testClient
	lock             *rlock.Lock
	me, them, theirs context.Context // two owners of the client, and one of the other client
	held             []level         // the levels of the client's owners, the innermost last
	forced           bool            // earlier levels may be lost
}

// Errorf makes the story a require.TestingT. A story has not failed if the machine stalled
// meanwhile, so that leases ended.
func (s *story) Errorf(format string, args ...any) {
	s.t.Helper()
	if !s.virtual && s.stalls.since(s.began) {
		s.t.Skipf("the server or this process had no processor, and leases may have ended:"+format, args...)
	}
	s.t.Errorf(format, args...)
}

// FailNow is for require, as Helper is.
func (s *story) FailNow() {
	s.t.Helper()
	s.t.FailNow()
}

func (s *story) Helper() { s.t.Helper() }

type level struct {
	owner  context.Context
	unlock func() error
}

// tell runs an operation whose nth command is lost, or no command if n is 0, and returns how
// many commands it has.
func (s *story) tell(o operation, l loss, n int) (commands int) {
	s.client, s.other = newTestClient(s.t, s.dial, s.config), newTestClient(s.t, s.dial, s.others)
	s.client.net.SetRoundTrip(roundTrip)
	s.lock = s.client.NewLock(s.key)
	s.me, s.them, s.theirs = s.newOwner(), s.newOwner(), s.newOwner()
	if o.before != nil {
		o.before(s)
		s.settle()
	}

	count := s.lose(l, n)
	o.run(s)
	if l.until == afterwards {
		s.settle()
		s.deliver()
		s.settle()
	}
	waiting := s.newOwner()
	theirs := s.other.NewLock(s.key)
	waiter := start(func() error { return theirs.Lock(waiting) })
	s.settle()
	s.client.net.Rule(nil)
	commands = *count

	for len(s.held) > 0 {
		require.Empty(s, waiter, "a waiter got a lock that is held")
		s.unlock()
	}
	s.eventually(func() bool { return len(waiter) > 0 }, "the waiter never got the lock")
	require.NoError(s, <-waiter)
	if l.until == inTheirTenure {
		s.untouched(s.deliver)
		require.True(s, theirs.IsHeld(waiting))
	}
	s.released(theirs.Unlock(waiting))

	s.locked()
	if l.until == inNextTenure {
		s.untouched(s.deliver)
	}
	s.settle()
	s.unlock()
	if l.until == longAfter {
		time.Sleep(5 * time.Minute)
		s.deliver()
		time.Sleep(s.lease) // an acquire whose caller left long ago
	}
	s.eventually(func() bool { return len(s.hash()) == 0 }, "the lock stays held")
	return commands
}

// lose applies a loss to the nth command from now on, and counts them.
func (s *story) lose(l loss, n int) *int {
	count := new(int)
	s.client.net.Rule(func(f network.Frame) network.Fate {
		own := f.Is("EVALSHA") || f.Is("EVAL") || f.Is("HKEYS") || f.Is("SUBSCRIBE") || f.Is("message")
		if (f.Stage == network.Request) != (l.stage == network.Request) || !own {
			return network.Pass
		}
		if *count++; *count == n {
			return l.fate
		}
		return network.Pass
	})
	return count
}

// deliver lets the commands arrive that were held back. An idle client may have no connection
// at that moment: a query opens one.
func (s *story) deliver() {
	s.client.net.Heal()
	s.eventually(func() bool {
		_, err := s.client.NewLock("another").IsLocked(s.ctx)
		return err == nil
	}, "it arrives")
	if s.virtual {
		time.Sleep(time.Second)
	}
}

// settle returns when Redis shows the levels that the client's owners have, which the client
// itself knows at once.
func (s *story) settle() {
	s.t.Helper()
	if !s.forced {
		s.believed()
	}
	s.eventually(func() bool {
		if s.forced && s.lock.HoldCount(s.me) == 0 {
			require.ErrorIs(s, s.held[0].unlock(), rlock.ErrLost)
			s.held, s.forced = nil, false
		}
		return s.shown()
	}, "Redis never showed the levels")
	s.pause()
	s.believed()
}

// believed asserts that each owner reports the levels that it has not unlocked.
func (s *story) believed() {
	s.t.Helper()
	depth := make(map[context.Context]int)
	for _, l := range s.held {
		depth[l.owner]++
	}
	for _, owner := range []context.Context{s.me, s.them} {
		require.Equal(s, depth[owner], s.lock.HoldCount(owner))
	}
}

// shown reports whether Redis shows these levels, and nothing else of the client.
func (s *story) shown() bool {
	want := make(map[string]string)
	if len(s.held) > 0 {
		o, _ := rlock.OwnerFrom(s.held[0].owner)
		want[fmt.Sprint(o)] = strconv.Itoa(len(s.held))
	}
	got := make(map[string]string)
	for field, count := range s.hash() {
		if strings.HasPrefix(field, s.client.ID()) {
			_, id, _ := strings.Cut(field, ":")
			got[id] = count
		} else if len(want) > 0 {
			return false
		}
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}

// untouched asserts that a change leaves a held lock as it is.
func (s *story) untouched(change func()) {
	s.t.Helper()
	before := s.hash()
	require.Len(s, before, 1)
	change()
	if s.virtual {
		time.Sleep(time.Minute)
	}
	require.Equal(s, before, s.hash())
}

func (s *story) newOwner() context.Context { return rlock.WithOwner(s.ctx, rlock.NewOwner()) }

// take notes a level of an owner if err says that there is one.
func (s *story) take(owner context.Context, err error) {
	if err == nil {
		s.held = append(s.held, level{owner, func() error { return s.lock.Unlock(owner) }})
	}
}

// unlock gives back the innermost level. Only the last level needs an answer of Redis.
func (s *story) unlock() {
	s.t.Helper()
	last := s.held[len(s.held)-1]
	s.held = s.held[:len(s.held)-1]
	if err := last.unlock(); len(s.held) > 0 || !errors.Is(err, rlock.ErrUnconfirmed) {
		require.NoError(s, err)
	}
}

// released checks an Unlock whose answer is not lost. On a busy machine a real server may be
// too slow; the client then returns ErrUnconfirmed and releases the lock later.
func (s *story) released(err error) {
	s.t.Helper()
	if s.virtual || !errors.Is(err, rlock.ErrUnconfirmed) {
		require.NoError(s, err)
	}
}

func (s *story) locked() {
	require.NoError(s, s.lock.Lock(s.me))
	s.take(s.me, nil)
}

func (s *story) lockedTwice() {
	s.locked()
	s.locked()
}

func (s *story) heldByAnother() {
	require.NoError(s, s.other.NewLock(s.key).Lock(s.theirs))
}

// pause gives a call time to wait. Nothing is wrong if it does not.
func (s *story) pause() { time.Sleep(50 * time.Millisecond) }

// hash returns the lock as Redis shows it.
func (s *story) hash() map[string]string {
	s.t.Helper()
	hash, err := s.outside.Do(s.ctx, s.outside.B().Hgetall().Key(s.key).Build()).AsStrMap()
	require.NoError(s, err)
	return hash
}

// eventually returns when the condition is met. In virtual time that is soon: a silent
// connection is closed within four seconds, and the next look is at most a fallback poll
// away.
func (s *story) eventually(met func() bool, what string) {
	s.t.Helper()
	for begin := time.Now(); !met(); time.Sleep(20 * time.Millisecond) {
		require.NoError(s, s.ctx.Err(), what)
		if s.virtual {
			require.Less(s, time.Since(begin), s.lease/3, what)
		}
	}
}

// lose calls tell for each command of the operation that may be lost in that way. The first
// call loses none and counts them.
func (o operation) lose(t *testing.T, l loss, tell func(t *testing.T, n int) (commands int)) {
	t.Run(o.name+" loses "+l.name, func(t *testing.T) {
		commands := tell(t, 0)
		var stories sync.WaitGroup
		for n := 1; n <= commands; n++ {
			stories.Go(func() { // in real time they mostly wait
				t.Run(fmt.Sprintf("%d of %d", n, commands), func(t *testing.T) { tell(t, n) })
			})
		}
		stories.Wait()
	})
}

// cutFirst is a rule that ends the connection at each of the first n frames of that kind of script.
func cutFirst(n int, stage network.Stage, kind string) network.Rule {
	return func(f network.Frame) network.Fate {
		if n == 0 || f.Stage != stage || !isScript(f, kind) {
			return network.Pass
		}
		n--
		return network.Cut
	}
}

func TestNoCommandThatIsLostLeavesALockWithoutAHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("it is slow and the same in each run: without -short")
	}
	for _, o := range operations {
		for _, l := range losses {
			o.lose(t, l, func(t *testing.T, n int) (commands int) {
				bubbleAlone(t, func(t *testing.T, w *world) {
					s := &story{
						t: t, ctx: w.ctx, virtual: true,
						dial: w.Dial, outside: w.outsider(), key: key,
						lease: 30 * time.Second, config: func(*rlock.Config) {}, others: func(*rlock.Config) {},
					}
					commands = s.tell(o, l, n)
				})
				assert.Positive(t, commands, "the operation sends no command")
				return commands
			})
		}
	}
}

// The same on a real server, which decides itself in which order it reads connections. The
// cases that take minutes run in virtual time only.
func TestNoCommandThatIsLostLeavesALockOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	const lease = 10 * time.Second
	stalls := observeStalls(t, server.Client(t))
	busy := make(chan struct{}, 16) // bounds how many stories run at once, so that each gets the processor
	var all sync.WaitGroup
	for _, o := range operations {
		for _, l := range losses[:len(losses)-1] {
			all.Go(func() { // they mostly wait
				o.lose(t, l, func(t *testing.T, n int) int {
					busy <- struct{}{}
					defer func() { <-busy }()
					ctx, cancel := context.WithTimeout(context.Background(), hang)
					defer cancel()
					s := &story{
						t: t, ctx: ctx, stalls: stalls, began: time.Now(),
						dial:    func() (net.Conn, error) { return net.Dial("tcp", server.Addr()) },
						outside: server.Client(t), key: t.Name(),
						lease: lease, config: func(c *rlock.Config) {
							c.Lease = lease
							c.Redis.Dialer.Timeout = hang
							c.Redis.Dialer.KeepAlive = 100 * time.Millisecond // notices a silent connection sooner
						},
						others: func(c *rlock.Config) { c.Lease, c.Redis = lease, patient(c.Redis) },
					}
					return s.tell(o, l, n)
				})
			})
		}
	}
	all.Wait()
}

// A command or its reply is lost with the connection, and the client cannot know which. In
// either case no lock stays behind without a holder.

func lost(t *testing.T, kind string, run func(t *testing.T, w *world, p *testClient, lose func())) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					p, me := w.client(), w.caller()
					lock := p.NewLock(key)
					require.NoError(t, lock.Lock(me)) // the scripts are known
					require.NoError(t, lock.Lock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, lock.Unlock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, lock.Unlock(me))
					run(t, w, p, func() {
						p.net.Rule(cutFirst(n, stage, kind))
					})
					time.Sleep(time.Minute)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

func TestAnAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lost(t, "acquired", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me := p.NewLock(key), w.caller()
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, lock.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.True(t, lock.IsHeld(me))
		require.Len(t, w.fields(key), 1)
		assert.Equal(t, "1", w.HGet(key, w.fields(key)[0]))
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestOneAttemptWithoutAReplyHoldsNothing(t *testing.T) {
	lost(t, "acquired", func(t *testing.T, w *world, p *testClient, lose func()) {
		lose()
		ok, err := p.NewLock(key).TryLock(w.caller())
		require.Error(t, err)
		assert.False(t, ok)
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys(), "a possible grant is not released")
	})
}

func TestAMirrorWithoutAReplyIsSentAgain(t *testing.T) {
	lost(t, "mirrored", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		lose()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(2 * time.Second)
		require.Len(t, w.fields(key), 1)
		assert.Equal(t, "3", w.HGet(key, w.fields(key)[0]), "the count is set, not incremented")
		time.Sleep(5 * time.Minute)
		for range 3 {
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestAHandOffWithoutAReplyIsMirroredAgain(t *testing.T) {
	lost(t, "mirrored", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me, them := p.NewLock(key), rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(w.ctx, me), rlock.WithOwner(w.ctx, them)
		require.NoError(t, lock.Lock(mine))
		result := start(func() error { return lock.Lock(theirs) })
		require.True(t, pending(result))
		lose()
		require.NoError(t, lock.Unlock(mine))
		require.NoError(t, <-result)
		time.Sleep(2 * time.Second)
		require.Len(t, w.fields(key), 1)
		assert.Contains(t, w.fields(key)[0], ":"+fmt.Sprint(them))
		require.NoError(t, lock.Unlock(theirs))
	})
}

func TestAReleaseWithoutAReplyIsReportedAndSentAgain(t *testing.T) {
	lost(t, "released", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me, them := p.NewLock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(me))
		lose()
		within(t, 0, 0, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
		within(t, 0, time.Second, func() { require.NoError(t, lock.Lock(them)) })
		time.Sleep(5 * time.Minute)
		assert.True(t, lock.IsHeld(them), "the repeated release must not end the next tenure")
		require.NoError(t, lock.Unlock(them))
	})
}

// A mirror arrives from a dead connection long after the end of its tenure, when another
// client has the lock.
func TestAMirrorThatArrivesTooLateTouchesNoOtherLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me, them := w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(9 * time.Second)
		p.net.Rule(scripts(1, network.Hold, network.Request, "mirrored"))
		time.Sleep(6 * time.Second)
		p.net.Rule(nil)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.LockFor(them, 10*time.Second))
		before := w.Dump()
		left := w.ttl(key)
		p.net.Deliver()
		require.True(t, lock.IsHeld(them))
		assert.Equal(t, before, w.Dump())
		assert.Equal(t, left, w.ttl(key))
		require.NoError(t, lock.Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

// Nor does a late forced unlock, which frees the lock only from the holder that it found.
func TestAForceUnlockThatArrivesTooLateTouchesNoOtherLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		theirs := other.NewLock(key)
		require.NoError(t, theirs.Lock(me))
		p.net.Rule(scripts(1, network.Hold, network.Request, "released"))
		freed, err := p.NewLock(key).ForceUnlock(w.ctx)
		require.Error(t, err)
		assert.False(t, freed)
		require.NoError(t, theirs.Unlock(me))
		require.NoError(t, theirs.Lock(them))
		p.net.Heal()
		time.Sleep(time.Minute)
		assert.True(t, theirs.IsHeld(them))
		require.NoError(t, theirs.Unlock(them))
	})
}

// A script of a ReadWriteLock, or its reply, is lost with the connection, once or twice.

func lostRW(t *testing.T, kind string, run func(t *testing.T, w *world, l, there rwClient, lose func())) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					l, there, me := w.rwClient(), w.rwClient(), w.caller()
					require.NoError(t, l.write.Lock(me)) // the scripts are known
					require.NoError(t, l.write.Lock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, l.write.Unlock(me))
					require.NoError(t, l.write.Unlock(me))
					run(t, w, l, there, func() {
						l.net.Rule(cutFirst(n, stage, kind))
					})
					time.Sleep(time.Minute)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

// counts returns the hash without the UUIDs.
func (w *world) counts() map[string]string {
	counts := map[string]string{}
	for _, field := range w.fields(key) {
		id := field
		if len(field) > 37 {
			id = field[37:]
		}
		counts[id] = w.HGet(key, field)
	}
	return counts
}

func TestAReadersAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lostRW(t, "acquired", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		other, owner := w.caller(), rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		require.NoError(t, there.read.Lock(other))
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, l.read.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.Len(t, w.fields(key), 3, "mode, and two readers")
		assert.Len(t, w.Keys(), 3)
		assert.Equal(t, "1", w.counts()[fmt.Sprint(owner)])
		require.NoError(t, there.read.Unlock(other))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAWritersAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lostRW(t, "acquired", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		owner := rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, l.write.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.Equal(t, map[string]string{"mode": "write", fmt.Sprint(owner) + ":write": "1"}, w.counts())
		require.NoError(t, l.write.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestADowngradeWithoutAReplyIsMirroredAgainAndDoneOnce(t *testing.T) {
	lostRW(t, "mirrored", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		owner := rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		require.NoError(t, l.write.Lock(me))
		lose()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.write.Lock(me))
		time.Sleep(3 * time.Second)
		id := fmt.Sprint(owner)
		assert.Equal(t, map[string]string{"mode": "write", id + ":write": "2", id: "1"}, w.counts())
		require.NoError(t, l.write.Unlock(me))
		time.Sleep(time.Second)
		reader := start(func() error { return there.read.Do(w.caller(), nothing) })
		require.True(t, pending(reader))
		lose()
		require.NoError(t, l.write.Unlock(me))
		within(t, 0, 3*time.Second, func() { require.NoError(t, <-reader) })
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]string{"mode": "read", id: "1"}, w.counts())
		assert.True(t, l.read.IsHeld(me))
		require.NoError(t, l.read.Unlock(me))
	})
}

func TestAReadersReleaseWithoutAReplyIsReportedAndSentAgain(t *testing.T) {
	lostRW(t, "released", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		me, other := w.caller(), w.caller()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, there.read.Lock(other))
		writer := w.caller()
		waiting := start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(waiting))
		lose()
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrUnconfirmed)
		time.Sleep(5 * time.Minute)
		assert.True(t, there.read.IsHeld(other), "the repeated release must not end the next tenure")
		assert.True(t, pending(waiting))
		assert.Len(t, w.fields(key), 2)
		require.NoError(t, there.read.Unlock(other))
		within(t, 0, 5*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, l.write.Unlock(writer))
	})
}

// A mirror of a writer arrives from a dead connection when the tenure belongs to a reader,
// and another owner reads: no reader may overlap a writer.
func TestAWritersMirrorThatArrivesTooLateChangesNoReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me, other := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		time.Sleep(9 * time.Second)
		l.net.Rule(scripts(1, network.Hold, network.Request, "mirrored"))
		time.Sleep(6 * time.Second)
		l.net.Rule(nil)
		require.NoError(t, l.write.Unlock(me))
		time.Sleep(time.Second)
		require.NoError(t, there.read.Lock(other))
		before := w.Dump()
		l.net.Deliver()
		time.Sleep(time.Second)
		assert.Equal(t, before, w.Dump())
		assert.True(t, l.read.IsHeld(me))
		require.NoError(t, there.read.Unlock(other))
		require.NoError(t, l.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

// In a Cluster rueidis sends each command over any of its connections to a node, so that a
// release may overtake its acquire.
func TestInAClusterAnAcquireThatArrivesAfterItsReleaseIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(func(c *rlock.Config) {
			c.Redis.ForceSingleClient = false
			c.Redis.PipelineMultiplex = 3
		})
		for i := range 20 {
			lock := p.NewLock(fmt.Sprint(i))
			require.NoError(t, lock.Do(w.caller(), nothing)) // the script is known
			p.net.Rule(scripts(1, network.Hold, network.Request, "acquired"))
			ctx, cancel := context.WithCancel(w.caller())
			result := start(func() error { return lock.Lock(ctx) })
			require.True(t, pending(result))
			p.net.Rule(nil)
			cancel()
			synctest.Wait()
			p.net.Deliver()
			require.ErrorIs(t, <-result, context.Canceled)
			time.Sleep(time.Second)
			assert.Empty(t, w.Keys())
		}
		require.NoError(t, p.Close())
		time.Sleep(time.Minute) // rueidis refreshes the Cluster's nodes once more, though it was closed
	})
}
