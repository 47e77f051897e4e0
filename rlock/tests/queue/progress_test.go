package queue_test

import (
	"context"
	"fmt"
	"runtime"
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

// Callers that are told where they stand: WithProgress.

// A sight is where a caller was told that it stands, in order.
type sight struct {
	mu   sync.Mutex
	seen []string
}

func (s *sight) option() rlock.AcquireOption {
	return rlock.WithProgress(func(place, waiting int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprintf("%d of %d", place, waiting))
	})
}

func (s *sight) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *sight) last() string {
	if all := s.all(); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// waits starts a call that releases the lock when it has it.
func (s *sight) waits(ctx context.Context, l *rlock.Lock, options ...rlock.AcquireOption) <-chan error {
	return testbed.Start(func() error { return l.Do(ctx, testbed.Nothing, append(options, s.option())...) })
}

// held returns a hold of another client, and what releases it.
func heldElsewhere(t *testing.T, w *testbed.World, of func(*rlock.Client, string) *rlock.Lock) *rlock.Hold {
	h, err := of(w.NewClient().Client, testbed.Key).Acquire(w.Ctx)
	require.NoError(t, err)
	return h
}

// A caller is told its place when it begins to wait, and by each look, of every kind.
func TestACallerIsToldWhereItStands(t *testing.T) {
	for name, of := range waitersOf {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				held := heldElsewhere(t, w, of)
				ctx, leaves := context.WithCancel(w.Ctx)
				first := bounded(ctx, of(w.NewClient().Client, testbed.Key), 9)
				require.True(t, testbed.Pending(first))
				var s sight
				mine := s.waits(w.Ctx, of(w.NewClient().Client, testbed.Key))
				require.True(t, testbed.Pending(mine))
				assert.Equal(t, []string{"2 of 2"}, s.all())
				last := bounded(w.Ctx, of(w.NewClient().Client, testbed.Key), 9)
				time.Sleep(10 * time.Second) // several looks
				assert.Equal(t, []string{"2 of 2", "2 of 3"}, s.all())
				leaves()
				require.ErrorIs(t, <-first, context.Canceled)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				assert.Equal(t, "1 of 2", s.last())
				require.NoError(t, held.Release(w.Ctx))
				require.NoError(t, testbed.Soon(mine))
				require.NoError(t, testbed.Soon(last))
				assert.Len(t, s.all(), 3)
			})
		})
	}
}

func TestACallerIsToldWhereItStandsOnServers(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		held, err := s.NewLock().Acquire(s.Ctx)
		require.NoError(t, err)
		first := bounded(s.Ctx, s.NewLock(), 9)
		s.AwaitWaiters(1, testbed.Key)
		var at sight
		mine := at.waits(s.Ctx, s.NewLock())
		require.Eventually(t, func() bool { return at.last() == "2 of 2" }, testbed.Hang, time.Millisecond)
		require.NoError(t, held.Release(s.Ctx))
		require.NoError(t, s.Await(first))
		require.NoError(t, s.Await(mine))
	})
}

// The callers of a process that share a place are told also what this process knows by itself.
func TestCallersOfAProcessMoveUp(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		held, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		var all [3]sight
		var results []<-chan error
		var leaves [3]context.CancelFunc
		for i := range all {
			ctx, cancel := context.WithCancel(w.Caller())
			leaves[i] = cancel
			defer cancel()
			results = append(results, all[i].waits(ctx, p.NewLock(testbed.Key)))
			require.True(t, testbed.Pending(results[i]))
			assert.Equal(t, []string{fmt.Sprintf("%d of %[1]d", i+1)}, all[i].all())
		}
		leaves[0]()
		synctest.Wait()
		assert.Equal(t, []string{"2 of 2", "1 of 2"}, all[1].all())
		assert.Equal(t, []string{"3 of 3", "2 of 2"}, all[2].all())
		require.NoError(t, held.Release(w.Ctx))
		require.Error(t, <-results[0])
		require.NoError(t, testbed.Soon(results[1]))
		require.NoError(t, testbed.Soon(results[2]))
	})
}

// No command is sent for it.
func TestProgressSendsNothing(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		sent := map[bool]int64{}
		for _, told := range []bool{false, true} {
			held := heldElsewhere(t, w, (*rlock.Client).NewLock)
			p := w.NewClient()
			var options []rlock.AcquireOption
			var s sight
			if told {
				options = append(options, s.option())
			}
			result := testbed.Start(func() error { return p.NewLock(testbed.Key).Do(w.Caller(), testbed.Nothing, options...) })
			time.Sleep(time.Minute + time.Second) // no look is due at that moment
			require.NoError(t, held.Release(w.Ctx))
			require.NoError(t, testbed.Soon(result))
			sent[told] = p.Stats().Commands
		}
		assert.Equal(t, sent[false], sent[true])
	})
}

// A caller that is slow to be told delays itself alone: neither the release that grants it the lock nor another caller.
func TestASlowFunctionDelaysItsCallerAlone(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		held, err := p.NewLock(testbed.Key).Acquire(w.Ctx)
		require.NoError(t, err)
		goOn := make(chan struct{})
		slow := testbed.Start(func() error {
			return p.NewLock(testbed.Key).Do(w.Caller(), testbed.Nothing, rlock.WithProgress(func(int, int) { <-goOn }))
		})
		require.True(t, testbed.Pending(slow))
		ctx, leaves := context.WithCancel(w.Caller())
		second := testbed.Start(func() error { return p.NewLock(testbed.Key).Do(ctx, testbed.Nothing) })
		require.True(t, testbed.Pending(second))
		leaves() // wakes those that are told
		require.Error(t, <-second)
		testbed.Within(t, 0, 0, func() { require.NoError(t, held.Release(w.Ctx)) })
		time.Sleep(time.Minute)
		assert.Len(t, p.Held(), 1, "it was handed the lock, which is renewed")
		close(goOn)
		require.NoError(t, <-slow)
		assert.True(t, w.IsFree(p.NewLock(testbed.Key)))
	})
}

// If the function panics, or ends the goroutine, nothing is held and no place is taken: also if the lock was granted meanwhile.
func TestAFunctionThatPanicsReleasesTheLock(t *testing.T) {
	for name, end := range map[string]func(){"panics": func() { panic("told") }, "ends the goroutine": runtime.Goexit} {
		for _, granted := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", granted ", granted), func(t *testing.T) {
				testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
					held := heldElsewhere(t, w, (*rlock.Client).NewLock)
					p := w.NewClient()
					goOn, ended := make(chan struct{}), make(chan any, 1)
					go func() {
						defer func() { ended <- recover() }()
						_, _ = p.NewLock(testbed.Key).Acquire(w.Ctx, rlock.WithProgress(func(int, int) { <-goOn; end() }))
					}()
					synctest.Wait()
					require.Len(t, w.Queued(), 1)
					if granted {
						require.NoError(t, held.Release(w.Ctx))
						synctest.Wait()
					}
					close(goOn)
					if why := <-ended; name == "panics" {
						assert.Equal(t, "told", why)
					}
					synctest.Wait()
					assert.Empty(t, w.Queued())
					assert.Zero(t, p.Stats().Held)
					assert.Zero(t, p.Stats().Waiting)
					if !granted {
						require.NoError(t, held.Release(w.Ctx))
					}
					require.Eventually(t, func() bool { return w.IsFree(p.NewLock(testbed.Key)) }, time.Minute, time.Millisecond)
				})
			})
		}
	}
}

// A call that is served at once, and one whose wait is lost in an outage, are told nothing untrue.
func TestWhatIsNotKnownIsNotTold(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		var s sight
		require.NoError(t, p.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing, s.option()))
		assert.Empty(t, s.all())
		held := heldElsewhere(t, w, (*rlock.Client).NewLock)
		p.Net.Rule(testbed.EveryScript(network.Cut, network.Request))
		result := s.waits(w.Ctx, p.NewLock(testbed.Key))
		time.Sleep(10 * time.Second)
		assert.Empty(t, s.all())
		require.NoError(t, held.Release(w.Ctx))
		p.Net.Rule(nil)
		require.NoError(t, testbed.Soon(result))
	})
}
