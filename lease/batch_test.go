package lease_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	tick = 10 * time.Millisecond
	turn = 512 * tick // of the whole wheel
)

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// advance returns the entries that the wheel yields at a time after epoch.
func advance(w *lease.Wheel, to time.Duration) []*lease.Entry {
	var due []*lease.Entry
	w.Advance(epoch.Add(to), func(e *lease.Entry) { due = append(due, e) })
	return due
}

func TestAnEntryInThePastIsDueWithTheNextTick(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	advance(w, time.Minute)
	var past, before lease.Entry
	w.Schedule(&past, epoch.Add(time.Second))
	w.Schedule(&before, epoch.Add(-time.Hour))
	assert.Empty(t, advance(w, time.Minute))
	assert.Len(t, advance(w, time.Minute+tick), 2)
}

func TestNextIsTheTimeOfTheNextOccupiedSlot(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	_, ok := w.Next()
	require.False(t, ok, "nothing is scheduled")

	var far, near lease.Entry
	w.Schedule(&far, epoch.Add(turn+100*tick))
	at, ok := w.Next()
	require.True(t, ok)
	assert.Equal(t, 100*tick, at.Sub(epoch), "its slot is passed a turn before")

	advance(w, 100*tick)
	at, _ = w.Next()
	assert.Equal(t, turn+100*tick, at.Sub(epoch))

	w.Schedule(&near, epoch.Add(150*tick))
	at, _ = w.Next()
	assert.Equal(t, 150*tick, at.Sub(epoch))
}

func TestFlushYieldsEveryEntry(t *testing.T) {
	w := lease.NewWheel(epoch, tick)
	entries := make([]lease.Entry, 100)
	for i := range entries {
		w.Schedule(&entries[i], epoch.Add(time.Duration(i)*time.Second))
	}
	n := 0
	w.Flush(func(*lease.Entry) { n++ })
	assert.Equal(t, 100, n)
	assert.Zero(t, w.Len())
	assert.Empty(t, advance(w, time.Hour))
}

func TestAWheelNeedsATick(t *testing.T) {
	assert.Panics(t, func() { lease.NewWheel(epoch, 0) })
}

// agree plays operations, five bytes each, on a wheel and on the specification, a map from entry to
// time.
func agree(t *testing.T, play []byte) {
	w := lease.NewWheel(epoch, tick)
	entries := make([]lease.Entry, 64)
	model := make(map[*lease.Entry]time.Duration)
	var now time.Duration
	for ; len(play) >= 5; play = play[5:] {
		e := &entries[play[0]%64]
		d := time.Duration(binary.LittleEndian.Uint32(play[1:])) * time.Microsecond
		switch play[0] / 64 {
		case 0, 1: // up to 17 s ahead, or in the past
			d = d%(17*time.Second) - time.Second
			w.Schedule(e, epoch.Add(now+d))
			// An entry must not come due before this time, nor later than a tick after it.
			model[e] = max(now+d, now/tick*tick+1)
		case 2:
			_, known := model[e]
			require.Equal(t, known, w.Stop(e))
			delete(model, e)
		case 3: // by up to 10 s, mostly by less
			now += d % (10 * time.Second >> (play[0] % 8))
			w.Advance(epoch.Add(now), func(e *lease.Entry) {
				due, known := model[e]
				require.True(t, known, "it was not scheduled")
				require.LessOrEqual(t, due, now, "early")
				delete(model, e)
			})
			for _, due := range model {
				if due+tick <= now {
					t.Fatal("late")
				}
			}
		}
		require.Equal(t, len(model), w.Len())
		at, ok := w.Next()
		require.Equal(t, len(model) > 0, ok)
		for _, due := range model {
			if at.Sub(epoch) >= due+tick {
				t.Fatal("Next would have slept past an entry")
			}
		}
	}
}

func TestTheWheelAgreesWithAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	play := make([]byte, 5*5000)
	for range 5 {
		for i := range play {
			play[i] = byte(rnd.Uint32())
		}
		agree(t, play)
	}
}

func FuzzTheWheelAgreesWithAMap(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 200, 255, 255, 255, 255, 130, 0, 0, 0, 0})
	f.Fuzz(agree)
}

func TestDriftIsAHundredthTwoMillisecondsAndATick(t *testing.T) {
	assert.Equal(t, 312*time.Millisecond, lease.Drift(30*time.Second, 10*time.Millisecond))
	assert.Equal(t, 2*time.Millisecond, lease.Drift(0, 0))
}

func TestADeadNodeDelaysNoOther(t *testing.T) {
	for name, latency := range map[string]time.Duration{"refusing": 0, "silent": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
				s.set(1, true, latency)
				dead, alive := make([]*held, 1000), make([]*held, 1000)
				start := time.Now()
				for i := range dead {
					dead[i] = newHeld(k, 1, 30*time.Second)
					alive[i] = newHeld(k, 2, 30*time.Second)
				}
				pass(59 * time.Second)
				for i := range dead {
					require.Zero(t, alive[i].lost())
					require.Len(t, alive[i].sentTimes(), 5, "every ten seconds and a tick")
					require.NotZero(t, dead[i].lost())
					require.LessOrEqual(t, dead[i].lost().Sub(start), 30*time.Second, "the loss is reported before the lease in Redis ends")
				}
				assert.Equal(t, len(alive), k.Len())
			})
		})
	}
}

func TestADownNodeIsProbedWithABackoff(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		newHelds(k, 1, 1000)
		pass(15 * time.Second)
		at, sizes := s.times(1), s.sizes(1)

		// The commands that were due before the first failure went at once.
		first := 0
		for first < len(at) && at[first].Equal(at[0]) {
			first++
		}
		assert.LessOrEqual(t, first, 8)
		want := 50 * time.Millisecond
		for i := first; i < len(at); i++ {
			assert.Equal(t, want, at[i].Sub(at[i-1]))
			assert.Equal(t, 128, sizes[i])
			want = min(2*want, time.Second)
		}
		assert.InDelta(t, 9, len(at)-first, 1)
	})
}

func TestAProbeOverlapsNoOtherCommand(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 500*time.Millisecond)
		newHelds(k, 1, 1000)
		pass(10*time.Second + 600*time.Millisecond) // the first four have failed
		before := len(s.times(1))
		require.Equal(t, 5, before, "and a probe is in flight")
		pass(15 * time.Second)
		at := s.times(1)
		for i := before; i < len(at); i++ {
			assert.Greater(t, at[i].Sub(at[i-1]), 500*time.Millisecond)
		}
		assert.Greater(t, len(at), before+5)
	})
}

func TestEverythingGoesAtOnceWhenTheNodeIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		all := newHelds(k, 1, 5000)
		pass(15 * time.Second)
		s.set(1, false, 0)
		back := time.Now()
		tries := len(s.sizes(1))
		pass(time.Second) // the longest backoff
		var last time.Time
		for _, h := range all {
			require.True(t, h.valid.end().After(back.Add(25*time.Second)), "it is renewed")
			sends := h.sentTimes()
			if at := sends[len(sends)-1]; at.After(last) {
				last = at
			}
		}
		first := s.times(1)[tries]
		assert.Zero(t, last.Sub(first), "the moment that the probe was answered")
		assert.Len(t, s.sizes(1)[tries:], 40)
		assert.Equal(t, 5000, k.Len())
	})
}

func TestAFailureAfterTheRecoveryBeginsWithTheShortBackoff(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		h := newHeld(k, 1, 30*time.Second)
		s.set(1, true, 0)
		h.set(1)
		pass(3 * time.Second)
		s.set(1, false, 0)
		pass(time.Second)
		s.set(1, true, 0)
		tries := len(s.times(1))
		h.set(2)
		pass(time.Second)
		at := s.times(1)[tries:]
		require.Greater(t, len(at), 2)
		assert.Equal(t, 50*time.Millisecond, at[1].Sub(at[0]))
		assert.Equal(t, 100*time.Millisecond, at[2].Sub(at[1]))
	})
}

func TestTheMaximumBoundsTheBackoffFromTheBeginning(t *testing.T) {
	configured(t, lease.Config{Tick: tick, MaxBackoff: 20 * time.Millisecond}, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		newHeld(k, 1, 30*time.Second).set(1)
		pass(time.Second)
		assert.Len(t, s.times(1), 51)
	})
}

func TestARenewableThatIsOverIsDroppedFromTheQueueOfADownNode(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		h := newHeld(k, 1, 30*time.Second)
		pass(31 * time.Second)
		require.NotZero(t, h.lost())
		tries := len(s.times(1))
		pass(time.Minute)
		assert.Len(t, s.times(1), tries)
	})
}

func TestARenewableThatMovedGoesToItsNewNode(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		all := newHelds(k, 1, 1000)
		pass(12 * time.Second)
		moved := all[500:] // behind more of those that stay than a batch holds
		for _, h := range moved {
			h.mu.Lock()
			h.node = 2
			h.mu.Unlock()
		}
		pass(time.Second) // by the next probe
		assert.Equal(t, 500, sum(s.sizes(2)))
		pass(time.Minute)
		for _, h := range moved {
			require.Zero(t, h.lost())
		}
		assert.Equal(t, len(moved), k.Len())
	})
}

func sum(sizes []int) (n int) {
	for _, size := range sizes {
		n += size
	}
	return n
}

func TestRenewablesThatWereNotSentAreFirstInTheNextTry(t *testing.T) {
	configured(t, lease.Config{Tick: tick, Batch: 10, Flights: 1}, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		all := newHelds(k, 1, 30)
		pass(11 * time.Second)
		tries := len(s.times(1))
		require.Greater(t, tries, 3)
		for i, h := range all {
			assert.Equal(t, i < 10, len(h.sentTimes()) == tries)
			assert.Equal(t, i >= 10, len(h.sentTimes()) == 0)
		}
	})
}

// TestAFlightThatFailsBeforeItsMemberIsAsked: meanwhile the member has come due and is queued for
// Due, behind more members than are asked at once.
func TestAFlightThatFailsBeforeItsMemberIsAsked(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		k, fail := failing()
		defer k.Close()
		var asks atomic.Int32
		a := &asking{due: func(time.Time) bool { asks.Add(1); return true }}
		k.Nudge(a)
		synctest.Wait()
		require.Equal(t, int32(1), asks.Load(), "in flight")

		blocked, block := make(chan bool), make(chan bool)
		at := time.Now().Add(tick)
		k.Schedule(&asking{due: func(time.Time) bool { blocked <- true; <-block; return false }}, at)
		for range 200 {
			k.Schedule(&asking{due: func(time.Time) bool { return false }}, at)
		}
		k.Schedule(a, at)
		<-blocked
		fail <- true
		synctest.Wait()
		close(block)
		synctest.Wait()
		require.Equal(t, int32(2), asks.Load())
		time.Sleep(50 * time.Millisecond) // the backoff
		fail <- false                     // it is sent again
		synctest.Wait()
		assert.Equal(t, int32(3), asks.Load())
	})
}

func TestAFullNodeIsSentTheRestAsBatchesReturn(t *testing.T) {
	configured(t, lease.Config{Tick: tick, Batch: 10, Flights: 2}, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, false, 100*time.Millisecond)
		all := newHelds(k, 1, 45)
		pass(10*time.Second + 50*time.Millisecond)
		assert.Equal(t, []int{10, 10}, s.sizes(1))
		all[40].release() // while it waits for room
		pass(time.Second)
		assert.Equal(t, []int{10, 10, 10, 10, 4}, s.sizes(1))
		assert.Equal(t, 2, s.mostInFlight(1))
		assert.Empty(t, all[40].sentTimes())
	})
}

func TestAnAnswerToAnOlderBatchBringsTheNodeUp(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		answers := make(chan chan bool, 10)
		k := lease.NewKeeper(lease.Config{Batch: 1, Send: func(ctx context.Context, _ uint32, _ []lease.Renewable) bool {
			answer := make(chan bool)
			answers <- answer
			select {
			case reached := <-answer:
				return reached
			case <-ctx.Done():
				return false
			}
		}})
		defer k.Close()
		always := func(time.Time) bool { return true }
		for range 4 {
			k.Nudge(&asking{due: always})
			synctest.Wait()
		}
		one, two, three, four := <-answers, <-answers, <-answers, <-answers
		one <- false
		two <- false // a late failure, which does not count
		synctest.Wait()
		require.Empty(t, answers, "the node is down")
		three <- true
		pass(pace)
		require.Len(t, answers, 2, "the node is up: failed commands are repeated before any backoff")
		five, six := <-answers, <-answers
		for _, answer := range []chan bool{four, five, six} {
			answer <- true
		}
	})
}

func TestARenewableSchedulesTheRetryOfAFailedCommand(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		start := time.Now()
		var k *lease.Keeper
		var sent []time.Duration
		k = lease.NewKeeper(lease.Config{Send: func(_ context.Context, _ uint32, batch []lease.Renewable) bool {
			sent = append(sent, time.Since(start))
			k.Schedule(batch[0], time.Now().Add(time.Second)) // its retry
			return true
		}})
		defer k.Close()
		k.Schedule(&asking{due: func(time.Time) bool { return true }}, start.Add(time.Second))
		pass(3 * time.Second)
		assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, sent)
	})
}

func TestAProbeIsSentAtOnceWhenANodeIsReportedToAnswerAgain(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
		s.set(1, true, 0)
		h := newHeld(k, 1, 30*time.Second)
		h.set(1)
		pass(5 * time.Second) // the backoff has grown to a second
		s.set(1, false, 0)
		sent := len(h.sentTimes())
		k.Probe()
		synctest.Wait()
		require.Len(t, h.sentTimes(), sent+1)
		pass(5 * time.Second)
		k.Probe() // a node that is up is left alone
		synctest.Wait()
		assert.Len(t, h.sentTimes(), sent+1)
		h.release()
	})
}

// The end of a keeper: Close, or a panic.

func TestCloseEndsTheCommandsInFlight(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		ended := make(chan error, 1)
		k := lease.NewKeeper(lease.Config{Send: func(ctx context.Context, _ uint32, _ []lease.Renewable) bool {
			<-ctx.Done()
			ended <- ctx.Err()
			return false
		}})
		a := &asking{due: func(time.Time) bool { return true }}
		k.Nudge(a)
		synctest.Wait()
		k.Close()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestCloseInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(k *lease.Keeper, s *server){
		"new":       func(*lease.Keeper, *server) {},
		"scheduled": func(k *lease.Keeper, s *server) { newHeld(k, 1, 30*time.Second) },
		"paced": func(k *lease.Keeper, s *server) {
			h := newHeld(k, 1, 30*time.Second)
			h.set(1)
			synctest.Wait()
			h.set(2)
		},
		"node down": func(k *lease.Keeper, s *server) {
			s.set(1, true, 0)
			newHeld(k, 1, 30*time.Second).set(1)
			synctest.Wait()
		},
		"in flight": func(k *lease.Keeper, s *server) {
			s.set(1, false, time.Hour)
			newHeld(k, 1, 30*time.Second).set(1)
			synctest.Wait()
		},
		"about to ask": func(k *lease.Keeper, s *server) { newHeld(k, 1, 30*time.Second).set(1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
				prepare(k, s)
				start := time.Now()
				k.Close()
				k.Close()
				assert.Zero(t, time.Since(start), "Close waits for nothing")
				sent, scheduled := len(s.sizes(1)), k.Len()

				h := newHeld(k, 1, 30*time.Second)
				assert.Equal(t, scheduled, k.Len(), "a closed keeper schedules nothing")
				h.set(1)
				h.release()
				pass(time.Minute)
				assert.Len(t, s.sizes(1), sent, "a closed keeper sends nothing")
				assert.Zero(t, h.asks, "a closed keeper calls no Due")
			})
		})
	}
}

func TestCloseWaitsForASenderThatDoesNotHeedItsContext(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		start := time.Now()
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			time.Sleep(time.Second)
			return true
		}})
		k.Nudge(&asking{due: func(time.Time) bool { return true }})
		synctest.Wait()
		k.Close()
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestCloseWhileSomeAreAsked(t *testing.T) {
	redistest.Virtual(t, func(t *testing.T) {
		asked, answer := make(chan bool), make(chan bool)
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			t.Error("Close returned early")
			return true
		}})
		n := 0
		at := time.Now().Add(time.Second)
		for range 1000 {
			k.Schedule(&asking{due: func(time.Time) bool {
				if n++; n == 1 {
					asked <- true
					<-answer
				}
				return true
			}}, at)
		}
		<-asked
		go k.Close()
		synctest.Wait()
		close(answer)
		k.Close()
		assert.Less(t, n, 1000, "Close ends the calls of Due")
	})
}

// TestAPanicEndsTheProcess runs itself in another process, where Due or Send panics.
func TestAPanicEndsTheProcess(t *testing.T) {
	const variable = "LEASE_TEST_PANIC_IN"
	if where := os.Getenv(variable); where != "" {
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			panic("a bug in Send")
		}})
		k.Nudge(&asking{due: func(time.Time) bool {
			if where == "Due" {
				panic("a bug in Due")
			}
			return true
		}})
		select {}
	}
	for _, where := range []string{"Due", "Send"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAPanicEndsTheProcess$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), variable+"="+where)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "panic: a bug in "+where)
		assert.NotContains(t, string(out), "fatal error", "a fatal error would hide the panic")
		assert.NotContains(t, string(out), "timed out")
	}
}
