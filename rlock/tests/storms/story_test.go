package storms_test

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

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
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

	client, other    *testbed.Client
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
	s.client, s.other = testbed.NewTestClient(s.t, s.dial, s.config), testbed.NewTestClient(s.t, s.dial, s.others)
	s.client.Net.SetRoundTrip(roundTrip)
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
	waiter := testbed.Start(func() error { return theirs.Lock(waiting) })
	s.settle()
	s.client.Net.Rule(nil)
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
	s.client.Net.Rule(func(f network.Frame) network.Fate {
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
	s.client.Net.Heal()
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
