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
