package storms_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
		result := testbed.Start(func() error { return s.lock.Lock(s.me) })
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
		ctx, queued := testbed.Queueing(s.them)
		result := testbed.Start(func() error { return s.lock.Lock(ctx) })
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
		result := testbed.Start(func() error { return s.lock.Lock(ctx) })
		time.Sleep(roundTrip / 2)
		cancel()
		s.take(s.me, <-result)
	}},
	{name: "Lock cancelled while it waits", before: (*story).heldByAnother, run: func(s *story) {
		ctx, cancel := context.WithCancel(s.me)
		result := testbed.Start(func() error { return s.lock.Lock(ctx) })
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
	{"the request with its connection", network.Request, network.Cut, never, false},
	{"the reply with its connection", network.Reply, network.Cut, never, true},
	{"the request in silence", network.Request, network.Hold, never, false},
	{"the reply in silence", network.Reply, network.Hold, never, false},
	{"the request, until the operation is over", network.Request, network.Hold, afterwards, false},
	{"the request, until another client's tenure", network.Request, network.Hold, inTheirTenure, true},
	{"the request, until this client's next tenure", network.Request, network.Hold, inNextTenure, true},
	{"the request, until long after", network.Request, network.Hold, longAfter, false},
}

type loss struct {
	name  string
	stage network.Stage // Reply stands for everything that the server sends
	fate  network.Fate
	until moment // when it arrives
	real  bool   // a real server is asked, too: it reads connections in an order of its own
}

type moment int

const (
	never moment = iota
	afterwards
	inTheirTenure
	inNextTenure
	longAfter
)

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
	redistest.Slow(t)
	testbed.ManyCommands(t)
	for _, o := range operations {
		for _, l := range losses {
			o.lose(t, l, func(t *testing.T, n int) (commands int) {
				testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
					s := &story{
						t: t, ctx: w.Ctx, virtual: true,
						dial: w.Dial, outside: w.Outsider(), key: testbed.Key,
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

// The same on a real server, which decides itself in which order it reads connections.
func TestNoCommandThatIsLostLeavesALockOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	const lease = 10 * time.Second
	stalls := observeStalls(t, server.Client(t))
	busy := make(chan struct{}, 16) // bounds how many stories run at once, so that each gets the processor
	var all sync.WaitGroup
	for _, o := range operations {
		for _, l := range losses {
			if !l.real {
				continue
			}
			all.Go(func() { // they mostly wait
				o.lose(t, l, func(t *testing.T, n int) int {
					busy <- struct{}{}
					defer func() { <-busy }()
					ctx, cancel := context.WithTimeout(context.Background(), testbed.Hang)
					defer cancel()
					s := &story{
						t: t, ctx: ctx, stalls: stalls, began: time.Now(),
						dial:    func() (net.Conn, error) { return net.Dial("tcp", server.Addr()) },
						outside: server.Client(t), key: t.Name(),
						lease: lease, config: func(c *rlock.Config) {
							c.Lease = lease
							c.Redis.Dialer.Timeout = testbed.Hang
							c.Redis.Dialer.KeepAlive = 100 * time.Millisecond // notices a silent connection sooner
						},
						others: func(c *rlock.Config) { c.Lease, c.Redis = lease, testbed.Patient(c.Redis) },
					}
					return s.tell(o, l, n)
				})
			})
		}
	}
	all.Wait()
}
