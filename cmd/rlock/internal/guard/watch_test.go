package guard_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/child"
	"github.com/go-rlock/rlock/cmd/rlock/internal/guard"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

const (
	name  = "nightly"
	lease = 30 * time.Second
	grace = 5 * time.Second
)

// A command is a process that ignores TERM.
type command struct {
	exited chan child.Status
	gone   chan struct{}
	exit   bool // it has not exited yet

	mu    sync.Mutex // guards the fields below
	ended bool
	terms []time.Time
	kills []time.Time
}

func newCommand() *command {
	return &command{exited: make(chan child.Status, 1), gone: make(chan struct{}), exit: true}
}

func (c *command) Exited() <-chan child.Status { return c.exited }
func (c *command) Gone() <-chan struct{}       { return c.gone }
func (c *command) Forward(os.Signal)           {}

func (c *command) Terminate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms = append(c.terms, time.Now())
}

func (c *command) Kill() {
	c.mu.Lock()
	c.kills = append(c.kills, time.Now())
	c.mu.Unlock()
	c.end()
}

// end makes the command exit, without leaving processes behind.
func (c *command) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		if c.exit {
			c.exited <- child.Status{}
		}
		close(c.gone)
	}
}

// A stage is a lock that is held over a network that the test can cut.
type stage struct {
	net    *network.Network
	hold   *rlock.Hold
	mine   *rlock.Client // of the hold
	others *rlock.Client // contends over a network of its own
}

func set(t *testing.T, server *redistest.Server) *stage {
	t.Helper()
	config := func() (rlock.Config, *network.Network) {
		option := server.Options()
		dial := option.DialCtxFn
		wire := network.New(func() (net.Conn, error) { return dial(context.Background(), "", nil, nil) })
		t.Cleanup(wire.Close)
		return rlock.Config{Redis: rueidis.ClientOption{InitAddress: option.InitAddress, ForceSingleClient: true, DialCtxFn: wire.Dial}, Lease: lease}, wire
	}
	open := func(config rlock.Config) *rlock.Client {
		client, err := rlock.New(config)
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	mine, wire := config()
	theirs, _ := config()
	s := &stage{net: wire, mine: open(mine), others: open(theirs)}
	var err error
	s.hold, err = s.mine.NewLock(name).Acquire(t.Context())
	require.NoError(t, err)
	return s
}

// watch runs the command to its end, and returns why the lock was lost.
func (s *stage) watch(t *testing.T, c *command) error {
	job := guard.Job{Name: name, Grace: grace, Log: t.Logf}
	return guard.Watch(job, lease, s.hold, c, make(chan os.Signal))
}

func TestACommandThatIgnoresTERMIsKilledBeforeAnotherIsGrantedTheLock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s, c := set(t, server), newCommand()
		granted := make(chan time.Time, 1)
		go func() {
			if _, err := s.others.NewLock(name).Acquire(context.Background()); err == nil {
				granted <- time.Now()
			}
		}()
		time.Sleep(time.Minute) // the lease is renewed meanwhile
		s.net.Rule(network.Silence)
		require.ErrorIs(t, s.watch(t, c), rlock.ErrLost)
		require.Len(t, c.kills, 1)
		require.NotEmpty(t, c.terms)
		assert.Equal(t, grace, c.kills[0].Sub(c.terms[0]))
		margin := (<-granted).Sub(c.kills[0])
		assert.GreaterOrEqual(t, margin, guard.Margin(lease))
		assert.Less(t, margin, lease/10, "the command is killed too early")
	})
}

func TestACommandWhoseLockWasHandedOverRunsOn(t *testing.T) {
	for what, cut := range map[string]bool{"": false, "and is ended in time if the network is cut at once": true} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
				s, c := set(t, server), newCommand()
				before, err := s.others.NewLock("handed").Acquire(t.Context())
				require.NoError(t, err)
				handed := make(chan *rlock.Hold, 1)
				go func() {
					hold, err := s.mine.NewLock("handed").Acquire(t.Context())
					assert.NoError(t, err)
					handed <- hold
				}()
				synctest.Wait()
				require.NoError(t, before.Release(t.Context()))
				s.hold = <-handed
				require.Less(t, time.Until(s.hold.ValidUntil()), lease/2, "the lock is granted as a claim")
				if !cut {
					time.AfterFunc(time.Hour, c.end)
					require.NoError(t, s.watch(t, c))
					return
				}
				s.net.Rule(network.Silence)
				granted := make(chan time.Time, 1)
				go func() {
					if _, err := s.others.NewLock("handed").Acquire(context.Background()); err == nil {
						granted <- time.Now()
					}
				}()
				require.ErrorIs(t, s.watch(t, c), rlock.ErrLost)
				require.Len(t, c.kills, 1)
				assert.True(t, c.kills[0].After(c.terms[0]))
				assert.True(t, (<-granted).After(c.kills[0]))
			})
		})
	}
}

// Also if the log hangs.
func TestALossThatRedisReportsLeavesTheCommandASecond(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s, c := set(t, server), newCommand()
		hangs := make(chan struct{})
		defer close(hangs)
		_, err := s.others.NewLock(name).ForceUnlock(t.Context())
		require.NoError(t, err)
		job := guard.Job{Name: name, Grace: grace, Log: func(string, ...any) { <-hangs }}
		require.ErrorIs(t, guard.Watch(job, lease, s.hold, c, make(chan os.Signal)), rlock.ErrLost)
		require.Len(t, c.kills, 1)
		assert.Equal(t, time.Second, c.kills[0].Sub(c.terms[0]))
	})
}

func TestProcessesThatACommandLeavesBehindAreEndedWhileTheLockIsHeld(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, server *redistest.Server) {
		s, c := set(t, server), newCommand()
		c.exited <- child.Status{} // and its group goes on
		c.exit = false
		require.NoError(t, s.watch(t, c))
		require.Len(t, c.terms, 1)
		require.Len(t, c.kills, 1)
		assert.Equal(t, grace, c.kills[0].Sub(c.terms[0]))
		assert.True(t, s.hold.Valid())
	})
}
