package losses_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheWatchdogKeepsALockForAnHour(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		lock, me := w.NewProcess().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.Lock(me))
		for range w.Times(3 * testbed.Rounds(1200)) {
			time.Sleep(time.Second)
			require.GreaterOrEqual(t, w.Remaining(), 20*time.Second-50*time.Millisecond, "renewed at a third")
			require.True(t, lock.IsHeld(me))
		}
		require.NoError(t, lock.Unlock(me))
		w.Drain()
		assert.Empty(t, w.KeysLeft())
	})
}

func TestTheWatchdogRenewsNoMoreOftenThanAtAThird(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		n := len(p.Mirrors())
		assert.LessOrEqual(t, n, 61, "one for each third of a lease; the first is an EVALSHA and an EVAL")
		assert.GreaterOrEqual(t, n, 59)
		require.NoError(t, lock.Unlock(me))
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	for name, fail := range map[string]func(*testbed.World, *testbed.Client){
		"cut":    func(_ *testbed.World, p *testbed.Client) { p.Net.Refuse() },
		"silent": func(_ *testbed.World, p *testbed.Client) { p.Net.Rule(network.Silence) },
		"loading": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("LOADING Redis is loading the dataset in memory")
		},
		"read only": func(w *testbed.World, _ *testbed.Client) {
			w.AnswerScripts("READONLY You can't write against a read only replica.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewLock(testbed.Key)
				require.NoError(t, lock.Lock(me))
				time.Sleep(9 * time.Second)
				fail(w, p)
				time.Sleep(18 * time.Second) // the renewal was due 17 s ago
				w.AnswerScripts("")
				p.Net.Heal()
				time.Sleep(time.Second + 50*time.Millisecond)
				assert.GreaterOrEqual(t, w.Remaining(testbed.Key), 28*time.Second, "a failed renewal is retried after a second at most")
				assert.True(t, lock.IsHeld(me))
				require.NoError(t, lock.Unlock(me))
				assert.Zero(t, p.Logged("lock lost"))
			})
		})
	}
}

// One connection, cut between the replies to the two renewals of a batch.
func TestARenewalWhoseReplyAloneIsLostIsTriedAgainSoon(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		one, other := p.NewLock("one"), p.NewLock("other")
		require.NoError(t, one.Lock(me))
		require.NoError(t, other.Lock(me))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		renewed := len(p.Mirrors())
		p.Net.Rule(testbed.Scripts(2, network.Cut, network.Reply, "mirrored"))
		time.Sleep(9500 * time.Millisecond)
		require.Greater(t, len(p.Mirrors()), renewed, "the second renewal was not sent")
		time.Sleep(5 * time.Minute)
		assert.True(t, one.IsHeld(me))
		assert.True(t, other.IsHeld(me))
		require.NoError(t, one.Unlock(me))
		require.NoError(t, other.Unlock(me))
	})
}

func TestALevelThatIsOpenedWhileAMirrorIsTriedAgainIsMirroredToo(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
		require.NoError(t, lock.LockFor(me, 20*time.Second))
		w.AnswerScripts(testbed.Passing[0])
		require.NoError(t, lock.LockFor(me, 30*time.Second))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lock.LockFor(me, 40*time.Second))
		w.AnswerScripts("")
		time.Sleep(time.Second)
		assert.InDelta(t, 39*time.Second, w.Remaining(testbed.Key), float64(2*time.Millisecond))
		assert.Equal(t, 3, lock.HoldCount(me))
		for range 3 {
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestAfterUnlockNothingIsRenewedEver(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		p, me := w.NewProcess(), w.Caller()
		lock := p.NewLock(testbed.Key)
		for range w.Times(testbed.Rounds(50)) {
			require.NoError(t, lock.Lock(me))
			require.NoError(t, lock.Lock(me)) // the mirror of the second level may still be in flight when both levels are unlocked
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Unlock(me))
			w.Settle()
			sent := p.Scripts()
			time.Sleep(time.Minute)
			require.Empty(t, w.KeysLeft())
			require.Equal(t, sent, p.Scripts(), "a mirror was sent after Unlock")
		}
	})
}

func TestAfterAnUnlockThatWasNotConfirmedNothingIsRenewedEither(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(12 * time.Second)
		p.Net.Rule(network.Silence)
		require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed)
		sent := len(p.Mirrors())
		p.Net.Heal()
		time.Sleep(time.Minute)
		assert.Len(t, p.Mirrors(), sent)
		assert.Empty(t, w.Keys())
	})
}

func TestTheWatchdogOutlivesEveryReconnect(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(me))
		for range testbed.Rounds(500) {
			time.Sleep(7 * time.Second)
			p.Net.Cut()
			assert.Greater(t, w.Remaining(testbed.Key), 10*time.Second)
		}
		assert.True(t, lock.IsHeld(me))
		synctest.Wait() // until the client has seen the last cut
		require.NoError(t, lock.Unlock(me))
	})
}

func TestALockTakenRightAfterAnUnlockIsRenewed(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		lock := p.NewLock(testbed.Key)
		for _, held := range []time.Duration{0, time.Nanosecond, 9999 * time.Millisecond, 10 * time.Second, 10001 * time.Millisecond, 29 * time.Second} {
			require.NoError(t, lock.Lock(me))
			time.Sleep(held)
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, lock.Lock(me))
			time.Sleep(5 * time.Minute)
			assert.True(t, lock.IsHeld(me))
			assert.Positive(t, w.Remaining(testbed.Key))
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestLocksThatAreDueAtAboutTheSameTimeAreRenewedInFewCalls(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		const n = 100
		for i := range n {
			require.NoError(t, p.NewLock(fmt.Sprint(testbed.Key, i)).Lock(me))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(11 * time.Second)
		renewed, calls := 0, 0
		for _, f := range p.Mirrors() {
			if f.Is("EVAL") {
				continue // the server had not seen the script yet
			}
			calls++
			keys, err := strconv.Atoi(f.Args[2])
			require.NoError(t, err)
			assert.LessOrEqual(t, keys, 32, "larger calls would block Redis for too long")
			renewed += keys
		}
		assert.Equal(t, n, renewed)
		assert.LessOrEqual(t, calls, 11, "at most one call for each tick of the wheel in a tenth of a second")
		for i := range n {
			assert.Greater(t, w.Remaining(fmt.Sprint(testbed.Key, i)), 28*time.Second)
			require.NoError(t, p.NewLock(fmt.Sprint(testbed.Key, i)).Unlock(me))
		}
	})
}

// One lock that cannot be renewed does not affect the others, though they share a call.
func TestALockThatCannotBeRenewedAffectsNoOtherOfItsBatch(t *testing.T) {
	t.Parallel()
	const lease = 6 * time.Second
	for name, spoil := range map[string]func(s *testbed.Site, name string) (mend func()){
		"its key is gone": func(s *testbed.Site, name string) func() {
			s.Number("DEL", name)
			return nil
		},
		"its key is of another type": func(s *testbed.Site, name string) func() {
			require.NoError(s.T, s.Do("SET", name, "x").Error())
			return nil
		},
		"the ACL excludes its name": func(s *testbed.Site, name string) func() {
			s.Admin("ACL", "SETUSER", "default", "resetkeys", "~even:*", "~redisson_lock__channel:*")
			return func() { s.Admin("ACL", "SETUSER", "default", "allkeys") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testbed.At(t, redistest.Standalone(t, "--save", ""))
			client := s.NewClient(testbed.WithLease(lease))
			me := rlock.WithOwner(s.Ctx, rlock.NewOwner())
			s.Ctx = me
			var holds []*rlock.Hold
			take := func(name string) {
				hold, err := client.NewLock(name).Acquire(me)
				require.NoError(t, err)
				holds = append(holds, hold)
			}
			take("odd")
			for i := range 8 {
				take(fmt.Sprint("even:", i))
			}
			mend := spoil(s, "odd")
			renewed := time.Now().Add(lease)
			for _, hold := range holds[1:] {
				require.Eventually(t, func() bool { return hold.ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
			}
			if mend == nil {
				<-holds[0].Context().Done()
				assert.ErrorIs(t, context.Cause(holds[0].Context()), rlock.ErrLost)
				s.Do("DEL", "odd")
			} else {
				assert.NoError(t, context.Cause(holds[0].Context()), "an error is not a loss")
				mend()
				require.Eventually(t, func() bool { return holds[0].ValidUntil().After(renewed) }, testbed.Hang, time.Millisecond)
				assert.NoError(t, holds[0].Release(me))
			}
			for _, hold := range holds[1:] {
				assert.NoError(t, hold.Release(me))
			}
		})
	}
}

func TestHeldLocksCostNoGoroutine(t *testing.T) {
	testbed.ManyCommands(t)
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		require.NoError(t, p.NewLock("first").Lock(me))
		synctest.Wait()
		before := runtime.NumGoroutine()
		for n := range 1000 {
			require.NoError(t, p.NewLock(string(rune('a'+n))).Lock(me))
		}
		time.Sleep(time.Minute)
		assert.Less(t, runtime.NumGoroutine(), before+100)
	})
}

func TestASlowNetworkLosesNoLock(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		p.Net.SetRoundTrip(1500 * time.Millisecond)
		hold, err := p.NewLock(testbed.Key).Acquire(me)
		require.NoError(t, err)
		for range 60 {
			time.Sleep(time.Minute)
			require.Greater(t, time.Until(hold.ValidUntil()), 10*time.Second)
		}
		require.NoError(t, hold.Release(me))
	})
}
