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
	w.Flush(func(e *lease.Entry) { delete(model, e) })
	require.Empty(t, model)
	require.Zero(t, w.Len())
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

// The end of a keeper: Close, or a panic.

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
				sent, scheduled := s.sent(), k.Len()

				h := newHeld(k, 1, 30*time.Second)
				assert.Equal(t, scheduled, k.Len(), "a closed keeper schedules nothing")
				h.set(1)
				h.release()
				pass(time.Minute)
				assert.Equal(t, sent, s.sent(), "a closed keeper sends nothing")
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
