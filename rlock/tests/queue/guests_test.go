package queue_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Guests: foreign clients that only poll, and cannot be counted.

func TestAGuestThatOnlyPollsHasATurnEveryFewSeconds(t *testing.T) {
	testbed.ManyCommands(t)
	for _, c := range []struct {
		clients int
		met     bool
	}{{1, true}, {3, false}} {
		t.Run(fmt.Sprintf("%d clients, met before %v", c.clients, c.met), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				f := w.NewGuest()
				if c.met {
					f.Take()
				}
				end := time.Now().Add(5 * time.Second)
				var crowds []func() int
				for range c.clients {
					crowds = append(crowds, w.NewClient(func(config *rlock.Config) { config.RedissonPolls = rlock.RedissonPollsAlways }).Crowd(w, end))
				}
				time.Sleep(10 * time.Millisecond)
				if c.met {
					f.Free()
				}
				for time.Now().Before(end) {
					assert.Less(t, f.Take(), 3*time.Second)
					f.Sections++
					time.Sleep(testbed.Section)
					f.Free()
				}
				for _, ours := range crowds {
					assert.Positive(t, ours())
				}
				assert.Greater(t, f.Sections, 1)
			})
		})
	}
}

// Redisson's spin lock publishes nothing when it is released, and is taken again at once.
func TestAGuestThatPublishesNothingDoesNotKeepTheLock(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		f := w.NewGuest()
		f.Take()
		end := time.Now().Add(6 * time.Second)
		ours := w.NewClient().Crowd(w, end)
		for time.Now().Before(end) {
			time.Sleep(testbed.Section)
			w.Del(testbed.Key)
			time.Sleep(testbed.Section / 4)
			f.Take()
			f.Sections++
		}
		f.Free()
		t.Logf("sections: theirs %d, ours %d", f.Sections, ours())
		assert.Greater(t, ours(), 300)
		assert.Greater(t, f.Sections, 10)
	})
}

// Threads of Redisson's spin lock, which cannot be counted, beside clients of ours that
// leave no pause. internal/redisson has the real ones.

// A spinner is one thread.
type spinner struct {
	*testbed.Foreigner
	random *rand.Rand
	pause  time.Duration // before it wants the lock, at most
	waits  []time.Duration
}

// spinners returns so many of them.
func spinners(w *testbed.World, n int, pause time.Duration) (all []*spinner) {
	redis := w.Outsider()
	for i := range n {
		owner := fmt.Sprintf("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:%d", i+1)
		f := &testbed.Foreigner{World: w, Channel: testbed.Channel, Holds: []string{owner, "1"}, Redis: redis}
		all = append(all, &spinner{Foreigner: f, random: rand.New(rand.NewPCG(uint64(i), 0)), pause: pause})
	}
	return all
}

// contend takes the lock again and again until then, as RedissonSpinLock does with its
// default back-off: it publishes nothing. A command takes roundTrip.
func (s *spinner) contend(until time.Time, roundTrip time.Duration) {
	for time.Now().Before(until) {
		if s.pause > 0 {
			time.Sleep(time.Duration(s.random.Int64N(int64(s.pause))))
		}
		asked, period := time.Now(), time.Millisecond
		for fails := 1; !s.try(roundTrip); fails++ {
			time.Sleep(period)
			if period < 128*time.Millisecond {
				period = min(2*period+time.Duration(s.random.IntN(fails))*time.Millisecond, 128*time.Millisecond)
			}
		}
		s.waits = append(s.waits, time.Since(asked))
		time.Sleep(testbed.Section)
		time.Sleep(roundTrip / 2)
		s.Del(testbed.Key)
		time.Sleep(roundTrip / 2)
	}
}

func (s *spinner) try(roundTrip time.Duration) bool {
	time.Sleep(roundTrip / 2)
	got, err := s.Eval(`
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], unpack(ARGV))
		return redis.call('pexpire', KEYS[1], 30000)`, s.Holds...).AsInt64()
	assert.NoError(s.T, err)
	time.Sleep(roundTrip/2 + time.Duration(s.random.Int64N(int64(300*time.Microsecond))))
	return got == 1
}

// Two threads leave no pause either. Eight do, since Redisson alone keeps the unluckiest of
// eight that leave none waiting for longer. Chance decides which thread tries first: within
// three seconds most runs have served all, and the gate allows seven.
func TestThreadsThatSpinHaveTheLockWithinSeconds(t *testing.T) {
	testbed.ManyCommands(t)
	const roundTrip = 200 * time.Microsecond
	longest := time.Duration(testbed.Thorough(4, 7)) * time.Second
	for _, c := range []struct {
		threads, clients int
		pause            time.Duration
	}{{2, 1, 0}, {8, 2, 500 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%d threads with pauses of %v, %d clients", c.threads, c.pause, c.clients), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				met := w.NewGuest()
				met.Take()
				end := time.Now().Add(8 * time.Second)
				var crowds []func() int
				for range c.clients {
					p := w.NewClient(func(config *rlock.Config) {
						config.Logger, config.RedissonPolls = testbed.Quiet, rlock.RedissonPollsAlways
					})
					p.Net.SetRoundTrip(roundTrip)
					crowds = append(crowds, p.Crowd(w, end))
				}
				time.Sleep(10 * time.Millisecond)
				met.Free()
				time.Sleep(time.Second)
				all := spinners(w, c.threads, c.pause)
				var threads sync.WaitGroup
				for _, s := range all {
					threads.Go(func() { s.contend(end, roundTrip) })
				}
				threads.Wait()
				var waits []time.Duration
				for _, s := range all {
					assert.NotEmpty(t, s.waits)
					waits = append(waits, s.waits...)
				}
				ours := 0
				for _, crowd := range crowds {
					ours += crowd()
				}
				t.Logf("sections: theirs %d, the longest wait %v, ours %d", len(waits), percentile(waits, 100), ours)
				assert.Less(t, percentile(waits, 100), longest)
				assert.Greater(t, ours, 1000, "of 4000 at most")
			})
		})
	}
}

// Foreign clients of this sort cannot call for a lock that lingers. They get it when Linger
// is over, and each hold of the client begins Linger anew.
func TestAGuestThatOnlyPollsWaitsForTheRestOfLinger(t *testing.T) {
	testbed.ManyCommands(t)
	const linger, poll, used = time.Minute, 150 * time.Millisecond, 50 * time.Second
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewLingerer(linger)
		w.Use(p.NewLock(testbed.Key))
		time.Sleep(used)
		w.Use(p.NewLock(testbed.Key))
		s := spinners(w, 1, 0)[0]
		testbed.Within(t, linger-time.Second, linger+poll, func() { s.contend(time.Now().Add(time.Second), time.Millisecond) })

		t.Log("after that the name lingers no longer")
		f := w.NewGuest()
		f.Take()
		me := w.Caller()
		waits := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(me) })
		w.Eventually(func() bool { return len(w.Queued()) == 1 }, "it meets the guest")
		f.Free()
		require.NoError(t, <-waits)
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
		w.Use(p.NewLock(testbed.Key))
		testbed.Within(t, 0, poll, func() { s.contend(time.Now().Add(time.Millisecond), time.Millisecond) })
	})
}

// A client of Redisson cannot call, and the lock is in use at each renewal. Its first turn
// begins too early for this client.
func TestAGuestGetsALockThatIsUsedAgainAndAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewLingerer(time.Hour)
		lock := p.NewLock(testbed.Key)
		w.Use(lock)
		until := time.Now().Add(15 * time.Second) // one renewal, after a third of 30 s
		lateness := 50 * time.Millisecond
		sometimesLate := func() time.Duration {
			defer func() { lateness = testbed.Punctual() }()
			return lateness
		}
		guest := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		contends := testbed.Start(func() error { guest.Contend(until, sometimesLate); return nil })
		for me := w.Caller(); time.Now().Before(until); {
			require.NoError(t, lock.Lock(me))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, lock.Unlock(me))
		}
		require.NoError(t, <-contends)
		assert.Positive(t, guest.Sections)
	})
}
