package lease_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bubble runs f in virtual time, with a keeper and the nodes it sends to.
func bubble(t *testing.T, f func(t *testing.T, k *lease.Keeper, s *server)) {
	t.Helper()
	configured(t, lease.Config{Tick: tick}, f)
}

// configured is bubble with another config.
func configured(t *testing.T, c lease.Config, f func(t *testing.T, k *lease.Keeper, s *server)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T) {
		s := newServer()
		c.Send = s.send
		k := lease.NewKeeper(c)
		defer k.Close()
		f(t, k, s)
	})
}

// pass advances virtual time by d, and returns when all goroutines wait.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// asking is a renewable with only a Due.
type asking struct {
	entry lease.Entry
	due   func(time.Time) bool
}

func (a *asking) Entry() *lease.Entry                      { return &a.entry }
func (a *asking) Group() uint32                            { return 1 }
func (a *asking) Due(now time.Time) bool                   { return a.due(now) }
func none(context.Context, uint32, []lease.Renewable) bool { return true }

// examined returns a renewable that says when it is asked, and has its answer from the test.
func examined() (a *asking, asked chan time.Time, answer chan bool) {
	asked, answer = make(chan time.Time), make(chan bool)
	return &asking{due: func(now time.Time) bool {
		asked <- now
		return <-answer
	}}, asked, answer
}

// failing returns a keeper whose commands fail if fail says so.
func failing() (k *lease.Keeper, fail chan bool) {
	fail = make(chan bool)
	return lease.NewKeeper(lease.Config{Tick: tick, Send: func(context.Context, uint32, []lease.Renewable) bool {
		return !<-fail
	}}), fail
}

func TestARenewableThatIsStoppedWhileItIsAskedIsNotSent(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		var sent atomic.Int32
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			sent.Add(1)
			return true
		}})
		defer k.Close()
		asked, stopped := make(chan bool), make(chan bool)
		a := &asking{due: func(time.Time) bool {
			asked <- true
			<-stopped
			return true
		}}
		k.Nudge(a)
		<-asked
		assert.False(t, k.Stop(a), "Due is running")
		close(stopped)
		synctest.Wait()
		assert.Zero(t, sent.Load())
	})
}

// TestNothingIsRenewedAfterARelease runs releases and the building of batches concurrently, in real
// time, under the race detector and the scheduler.
func TestNothingIsRenewedAfterARelease(t *testing.T) {
	s := newServer()
	k := lease.NewKeeper(lease.Config{Send: s.send, Tick: time.Millisecond, Pace: 1})
	defer k.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 500 {
				h := newHeld(k, 1, 30*time.Second)
				h.set(i + 1)
				if i%2 == 0 {
					runtime.Gosched()
				}
				h.release()
				sent := len(h.sentTimes())
				runtime.Gosched()
				assert.Len(t, h.sentTimes(), sent)
			}
		}()
	}
	wg.Wait()
	assert.Zero(t, k.Len())
}

// asleep returns the lead of the wall clock over the monotonic one, as after a sleep of the machine,
// a function that makes the keeper pass once, and a channel that has a value each time the keeper
// asks a renewable which is due in an hour.
func asleep(t *testing.T) (ahead *atomic.Int64, pass func(), asked chan bool) {
	ahead, asked = new(atomic.Int64), make(chan bool, 1)
	k := lease.NewKeeperWithClock(lease.Config{Send: none}, func() time.Time {
		return wallAhead(t, time.Now(), time.Duration(ahead.Load()))
	})
	t.Cleanup(k.Close)
	other := make(chan bool)
	a := &asking{due: func(time.Time) bool { asked <- true; return false }}
	b := &asking{due: func(time.Time) bool { other <- true; return false }}
	k.Schedule(a, time.Now().Add(time.Hour))
	return ahead, func() {
		for range 2 { // the first may have begun before
			k.Nudge(b)
			<-other
		}
	}, asked
}

func TestEverythingIsAskedWhenTheMachineSlept(t *testing.T) {
	ahead, pass, asked := asleep(t)
	ahead.Store(-int64(time.Hour)) // the clock was set back
	pass()
	require.Empty(t, asked)
	ahead.Add(int64(2 * time.Second))
	<-asked // only the keeper's own check of the clock wakes it
}

// Each sleep is too short to be told from a clock that is slewed, but a lease ends by their sum.
func TestEverythingIsAskedWhenTheMachineSleptForAMomentAgainAndAgain(t *testing.T) {
	ahead, pass, asked := asleep(t)
	pass()
	for range 3 {
		require.Empty(t, asked)
		ahead.Add(int64(30 * time.Millisecond))
		pass()
	}
	require.Empty(t, asked, "so little may be a clock that is slewed")
	ahead.Add(int64(30 * time.Millisecond))
	pass()
	require.NotEmpty(t, asked)
}

// The process is interrupted between the readings of the two clocks, now and then.
func TestAnInterruptionBetweenTheClocksIsNoSleep(t *testing.T) {
	var readings atomic.Int64
	k := lease.NewKeeperWithClock(lease.Config{Send: none}, func() time.Time {
		if n := readings.Add(1) % 5; n == 0 || n == 3 { // never twice in a row
			return wallAhead(t, time.Now(), -time.Second)
		}
		return time.Now()
	})
	t.Cleanup(k.Close)
	asked, other := make(chan bool, 1), make(chan bool)
	k.Schedule(&asking{due: func(time.Time) bool { asked <- true; return false }}, time.Now().Add(time.Hour))
	b := &asking{due: func(time.Time) bool { other <- true; return false }}
	for range 30 {
		k.Nudge(b)
		<-other
	}
	require.Empty(t, asked)
}

// TestABatchThatIsNotFullIsNotKeptWaiting: a batch never waits for more members.
func TestABatchThatIsNotFullIsNotKeptWaiting(t *testing.T) {
	var sent atomic.Bool
	k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
		sent.Store(true)
		return true
	}})
	defer k.Close()
	over, began := make(chan bool), time.Now()
	var next func(n int) *asking
	next = func(n int) *asking {
		return &asking{due: func(time.Time) bool {
			runtime.Gosched()
			if sent.Load() || time.Since(began) > 2*time.Minute {
				close(over)
			} else {
				k.Nudge(next(n + 1))
			}
			return n == 0
		}}
	}
	k.Nudge(next(0))
	<-over
	assert.True(t, sent.Load())
}

func TestAKeeperNeedsASender(t *testing.T) {
	assert.Panics(t, func() { lease.NewKeeper(lease.Config{}) })
}

const pace = time.Millisecond // the default

func TestANudgeWhileItIsAskedAndFindsNoRoom(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		land := make(chan bool)
		var sent []lease.Renewable
		k := lease.NewKeeper(lease.Config{Batch: 1, Flights: 1, Send: func(_ context.Context, _ uint32, batch []lease.Renewable) bool {
			<-land
			sent = append(sent, batch...)
			return true
		}})
		defer k.Close()
		first := &asking{due: func(time.Time) bool { return true }}
		k.Nudge(first)
		synctest.Wait()

		var second *asking
		asks := 0
		second = &asking{due: func(time.Time) bool {
			if asks++; asks == 1 {
				k.Nudge(second)
			}
			return true
		}}
		k.Nudge(second)
		synctest.Wait()
		require.Equal(t, 1, asks, "it waits for room, with its nudge")
		land <- true
		synctest.Wait()
		land <- true
		synctest.Wait()
		assert.Equal(t, []lease.Renewable{first, second}, sent)
		assert.Equal(t, 2, asks)
	})
}

func TestANudgeStopsNoTime(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		k := lease.NewKeeper(lease.Config{Send: none})
		defer k.Close()
		start := time.Now()
		var asks []time.Duration
		a := &asking{due: func(now time.Time) bool {
			asks = append(asks, now.Sub(start))
			return false
		}}
		k.Schedule(a, start.Add(time.Second))
		k.Nudge(a)
		pass(time.Minute)
		assert.Equal(t, []time.Duration{0, time.Second}, asks, "a call of Due keeps its time")
	})
}

// TestANudgeWhileItIsAskedIsAskedAgain: the answer may be older than the change.
func TestANudgeWhileItIsAskedIsAskedAgain(t *testing.T) {
	for _, send := range []bool{false, true} {
		redistest.Virtual(t, func(t *testing.T) {
			k := lease.NewKeeper(lease.Config{Send: none})
			defer k.Close()
			a, asked, answer := examined()
			k.Nudge(a)
			<-asked
			k.Nudge(a)
			answer <- send
			<-asked
			answer <- false
		})
	}
}

// TestARenewableThatFailsWhileItIsAskedIsAskedAgain: Due may have declined because the command was
// in flight.
func TestARenewableThatFailsWhileItIsAskedIsAskedAgain(t *testing.T) {
	for _, send := range []bool{false, true} {
		redistest.Virtual(t, func(t *testing.T) {
			k, fail := failing()
			defer k.Close()
			a, asked, answer := examined()
			k.Nudge(a)
			<-asked
			answer <- true
			synctest.Wait()
			k.Schedule(a, time.Now().Add(tick)) // for example the end of its validity
			<-asked
			fail <- true
			synctest.Wait()
			answer <- send
			<-asked
			answer <- true
			time.Sleep(50 * time.Millisecond) // the backoff, unless it has passed
			if !send {
				<-asked
				answer <- true
			}
			fail <- false
			synctest.Wait()
			assert.Zero(t, k.Len())
		})
	}
}

// TestNoNudgeIsLost nudges in real time from many goroutines, and then waits until every last value
// was sent.
func TestNoNudgeIsLost(t *testing.T) {
	s := newServer()
	k := lease.NewKeeper(lease.Config{Send: s.send, Tick: time.Millisecond, Pace: 50 * time.Microsecond})
	defer k.Close()
	all := make([]*held, 50)
	for i := range all {
		all[i] = newHeld(k, uint32(i%3), 30*time.Second)
	}
	var wg sync.WaitGroup
	for seed := range uint64(4) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(seed, seed))
			for range 5000 {
				all[rnd.IntN(len(all))].set(rnd.IntN(1000))
			}
		}()
	}
	wg.Wait()
	for _, h := range all {
		assert.Eventually(t, func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.mirrored == h.value
		}, 2*time.Minute, time.Millisecond, "every nudge is sent")
	}
}

// What wakes the keeper.

// counted is bubble with a count of the keeper's passes, by its reads of the clock.
func counted(t *testing.T, f func(k *lease.Keeper, looks func() int)) {
	t.Helper()
	redistest.Virtual(t, func(t *testing.T) {
		var n atomic.Int64
		k := lease.NewKeeperWithClock(lease.Config{Send: none}, func() time.Time {
			n.Add(1)
			return time.Now()
		})
		defer k.Close()
		f(k, func() int {
			synctest.Wait()
			return int(n.Load())
		})
	})
}

func TestAKeeperWithNothingScheduledSleeps(t *testing.T) {
	counted(t, func(k *lease.Keeper, looks func() int) {
		a := &asking{due: func(time.Time) bool { return false }}
		k.Schedule(a, time.Now().Add(10*time.Second))
		looks()
		k.Stop(a)
		pass(2 * time.Second) // the keeper was due to wake for a
		before := looks()
		pass(time.Hour)
		assert.Equal(t, before, looks())
	})
}

func TestSchedulingAndStoppingDoNotWakeTheKeeper(t *testing.T) {
	for _, due := range []time.Duration{10 * time.Second, 100 * time.Millisecond} {
		counted(t, func(k *lease.Keeper, looks func() int) {
			a := &asking{due: func(time.Time) bool { return false }}
			once := func() int {
				k.Schedule(a, time.Now().Add(due))
				k.Stop(a) // before the keeper runs
				return looks()
			}
			once() // the keeper may not have slept before
			before := once()
			for range 100 {
				time.Sleep(10 * time.Microsecond)
				assert.Equal(t, before, once())
			}
		})
	}
}

func TestAKeeperWithSomethingScheduledLooksOnceASecond(t *testing.T) {
	counted(t, func(k *lease.Keeper, looks func() int) {
		a := &asking{due: func(time.Time) bool { return false }}
		k.Schedule(a, time.Now().Add(10*time.Hour))
		before := looks()
		pass(time.Hour)
		// Two reads a pass, one for the wheel and one before the sleep; and the slot of its entry
		// comes round every five seconds.
		assert.InDelta(t, 2*3600*1.2, looks()-before, 300)
	})
}

// A slow renewable takes a while to be asked, as one whose mutex many callers want.
type slow struct {
	entry lease.Entry
	asked chan<- time.Time // nil: it is not told
}

func (s *slow) Entry() *lease.Entry { return &s.entry }
func (s *slow) Group() uint32       { return 1 }

func (s *slow) Due(time.Time) bool {
	if s.asked != nil {
		s.asked <- time.Now()
		return false
	}
	time.Sleep(time.Millisecond)
	return false
}

// One whose time comes while many that were nudged are asked is not asked behind all of them: the
// end of a lease is told by then. Its time comes during a pass, or is over when the next one begins.
func TestWhoseTimeComesDuringAPassIsAskedSoon(t *testing.T) {
	for _, first := range []int{2000, 100} {
		bubble(t, func(t *testing.T, k *lease.Keeper, _ *server) {
			nudge := func(n int) {
				for range n {
					k.Nudge(&slow{})
				}
				time.Sleep(time.Millisecond) // the pass of one ends, and that of these begins
			}
			asked := make(chan time.Time, 1)
			at := time.Now().Add(100 * time.Millisecond)
			k.Schedule(&slow{asked: asked}, at)
			nudge(1)
			nudge(first)
			nudge(2000)
			late := (<-asked).Sub(at)
			assert.GreaterOrEqual(t, late, time.Duration(0))
			assert.LessOrEqual(t, late, 100*time.Millisecond)
			time.Sleep(5 * time.Second)
		})
	}
}
