package lease_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/lease"
)

const pace = time.Millisecond // the default

func TestTheFirstNudgeIsSentAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		h := newHeld(k, 1, 30*time.Second)
		start := time.Now()
		h.set(1)
		pass(time.Second)
		require.Len(t, h.sentTimes(), 1)
		assert.Equal(t, start, h.sentTimes()[0])
		pass(10 * time.Second)
		assert.Len(t, h.sentTimes(), 2, "the lease is renewed after the nudge")
	})
}

func TestNudgesBecomeOneSendAMillisecond(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		h := newHeld(k, 1, 30*time.Second)
		const every = 10 * time.Microsecond
		for i := range 10_000 {
			h.set(i + 1)
			pass(every)
		}
		pass(pace)
		sends := h.sentTimes()
		assert.InDelta(t, 100, len(sends), 2)
		for i := range sends[1:] {
			assert.GreaterOrEqual(t, sends[i+1].Sub(sends[i]), pace)
		}
		assert.Equal(t, 10_000, h.mirrored, "the last state is always sent")
	})
}

func TestANudgeDuringTheFlightIsSentAfterIt(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, false, 5*time.Millisecond)
		h := newHeld(k, 1, 30*time.Second)
		start := time.Now()
		h.set(1)
		pass(2 * time.Millisecond)
		h.set(2)
		pass(time.Second)
		sends := h.sentTimes()
		require.Len(t, sends, 2)
		assert.Equal(t, 5*time.Millisecond, sends[1].Sub(start), "the pace has passed by then")
		assert.Equal(t, 2, h.mirrored)
	})
}

func TestANudgeWaitsForThePaceAfterAShortFlight(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, false, pace/4)
		h := newHeld(k, 1, 30*time.Second)
		start := time.Now()
		h.set(1)
		pass(pace / 8)
		h.set(2) // in flight
		pass(time.Second)
		require.Len(t, h.sentTimes(), 2)
		assert.Equal(t, pace, h.sentTimes()[1].Sub(start))
	})
}

func TestNoNudgeWaitsLongerThanAPace(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		a, b := newHeld(k, 1, 30*time.Second), newHeld(k, 1, 30*time.Second)
		a.set(1)
		pass(pace / 2)
		b.set(1)
		pass(pace / 4)
		start := time.Now()
		b.set(2) // due later than a, but queued before it
		a.set(2)
		pass(time.Second)
		for _, h := range []*held{a, b} {
			sends := h.sentTimes()
			require.Len(t, sends, 2)
			assert.LessOrEqual(t, sends[1].Sub(start), pace)
			assert.GreaterOrEqual(t, sends[1].Sub(sends[0]), pace)
		}
	})
}

func TestARenewableThatComesDueWaitsForThePaceToo(t *testing.T) {
	slowly := lease.Config{Tick: time.Millisecond, Pace: 100 * time.Millisecond}
	configured(t, slowly, func(t *testing.T, k *lease.Keeper, s *server) {
		h := newHeld(k, 1, 30*time.Second)
		h.set(1)
		pass(10 * time.Millisecond)
		h.value = 2
		k.Schedule(h, time.Now())
		pass(time.Second)
		sends := h.sentTimes()
		require.Len(t, sends, 2)
		assert.Equal(t, 100*time.Millisecond, sends[1].Sub(sends[0]))
	})
}

func TestANudgeWhileItsNodeIsDownWaitsForTheNode(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		h, other := newHeld(k, 1, 30*time.Second), newHeld(k, 1, 30*time.Second)
		h.set(1)
		other.set(1)
		pass(10 * time.Millisecond)
		tries := len(s.times(1))
		h.set(2)
		pass(10 * time.Millisecond)
		assert.Len(t, s.times(1), tries)
		s.set(1, false, 0)
		pass(time.Second)
		assert.Equal(t, 2, h.mirrored)
		assert.Equal(t, 1, other.mirrored)
	})
}

func TestANudgeWhileItIsAskedAndFindsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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

func TestANudgeSurvivesSchedule(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		h := newHeld(k, 1, 30*time.Second)
		h.set(1)
		synctest.Wait()
		h.set(2)
		k.Schedule(h, time.Now().Add(time.Hour))
		pass(pace)
		assert.Equal(t, 2, h.mirrored)
	})
}

func TestANudgeStopsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		synctest.Test(t, func(t *testing.T) {
			k := lease.NewKeeper(lease.Config{Send: none})
			defer k.Close()
			asked, answer := make(chan time.Time), make(chan bool)
			a := &asking{due: func(now time.Time) bool {
				asked <- now
				return <-answer
			}}
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
		synctest.Test(t, func(t *testing.T) {
			fail := make(chan bool)
			k := lease.NewKeeper(lease.Config{Tick: tick, Send: func(context.Context, uint32, []lease.Renewable) bool {
				return !<-fail
			}})
			defer k.Close()
			asked, answer := make(chan time.Time), make(chan bool)
			a := &asking{due: func(now time.Time) bool {
				asked <- now
				return <-answer
			}}
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
	synctest.Test(t, func(t *testing.T) {
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
		pass(100 * time.Hour)
		assert.Equal(t, before, looks())
	})
}

func TestLeasesTakenAndGivenBackOverAndOverDoNotWakeTheKeeper(t *testing.T) {
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

func TestSchedulingAndStoppingDoNotWakeTheKeeper(t *testing.T) {
	counted(t, func(k *lease.Keeper, looks func() int) {
		a := &asking{due: func(time.Time) bool { return false }}
		k.Schedule(a, time.Now().Add(10*time.Second))
		before := looks()
		for range 100 {
			k.Stop(a)
			k.Schedule(a, time.Now().Add(10*time.Second))
		}
		assert.Equal(t, before, looks())
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
// end of a lease is told by then.
func TestWhoseTimeComesDuringAPassIsAskedSoon(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, _ *server) {
		asked := make(chan time.Time, 1)
		at := time.Now().Add(100 * time.Millisecond)
		k.Schedule(&slow{asked: asked}, at)
		for range 2000 {
			k.Nudge(&slow{})
		}
		late := (<-asked).Sub(at)
		assert.GreaterOrEqual(t, late, time.Duration(0))
		assert.LessOrEqual(t, late, 100*time.Millisecond)
		time.Sleep(3 * time.Second)
	})
}
