package rlock_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Guests: foreign clients that only poll, and cannot be counted.

// guest is a foreigner that Redis cannot count, since it does not listen.
func (w *world) guest() *foreigner {
	return &foreigner{world: w, channel: channel, holds: []string{foreignOwner, "1"}, redis: w.outsider()}
}

func (f *foreigner) free() {
	require.NoError(f.t, f.eval(`redis.call('del', KEYS[1]); return redis.call('publish', ARGV[1], '0')`, f.channel).Error())
}

func TestAGuestThatOnlyPollsHasATurnEveryFewSeconds(t *testing.T) {
	manyCommands(t)
	for _, c := range []struct {
		clients int
		met     bool
	}{{1, true}, {3, false}} {
		t.Run(fmt.Sprintf("%d clients, met before %v", c.clients, c.met), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				f := w.guest()
				if c.met {
					f.take()
				}
				end := time.Now().Add(5 * time.Second)
				var crowds []func() int
				for range c.clients {
					crowds = append(crowds, w.client(func(config *rlock.Config) { config.RedissonPolls = rlock.RedissonPollsAlways }).crowd(w, end))
				}
				time.Sleep(10 * time.Millisecond)
				if c.met {
					f.free()
				}
				for time.Now().Before(end) {
					assert.Less(t, f.take(), 3*time.Second)
					f.sections++
					time.Sleep(section)
					f.free()
				}
				for _, ours := range crowds {
					assert.Positive(t, ours())
				}
				assert.Greater(t, f.sections, 1)
			})
		})
	}
}

// Redisson's spin lock publishes nothing when it is released, and is taken again at once.
func TestAGuestThatPublishesNothingDoesNotKeepTheLock(t *testing.T) {
	redistest.Slow(t)
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		f := w.guest()
		f.take()
		end := time.Now().Add(6 * time.Second)
		ours := w.client().crowd(w, end)
		for time.Now().Before(end) {
			time.Sleep(section)
			w.Del(key)
			time.Sleep(section / 4)
			f.take()
			f.sections++
		}
		f.free()
		t.Logf("sections: theirs %d, ours %d", f.sections, ours())
		assert.Greater(t, ours(), 300)
		assert.Greater(t, f.sections, 10)
	})
}

// Threads of Redisson's spin lock, which cannot be counted, beside clients of ours that
// leave no pause. internal/redisson has the real ones.

// A spinner is one thread.
type spinner struct {
	*foreigner
	random *rand.Rand
	pause  time.Duration // before it wants the lock, at most
	waits  []time.Duration
}

// spinners returns so many of them.
func (w *world) spinners(n int, pause time.Duration) (all []*spinner) {
	redis := w.outsider()
	for i := range n {
		owner := fmt.Sprintf("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:%d", i+1)
		f := &foreigner{world: w, channel: channel, holds: []string{owner, "1"}, redis: redis}
		all = append(all, &spinner{foreigner: f, random: rand.New(rand.NewPCG(uint64(i), 0)), pause: pause})
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
		time.Sleep(section)
		time.Sleep(roundTrip / 2)
		s.Del(key)
		time.Sleep(roundTrip / 2)
	}
}

func (s *spinner) try(roundTrip time.Duration) bool {
	time.Sleep(roundTrip / 2)
	got, err := s.eval(`
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], unpack(ARGV))
		return redis.call('pexpire', KEYS[1], 30000)`, s.holds...).AsInt64()
	assert.NoError(s.t, err)
	time.Sleep(roundTrip/2 + time.Duration(s.random.Int64N(int64(300*time.Microsecond))))
	return got == 1
}

// Two threads leave no pause either. Eight do, since Redisson alone keeps the unluckiest of
// eight that leave none waiting for longer. Chance decides which thread tries first: within
// three seconds most runs have served all, and the gate allows seven.
func TestThreadsThatSpinHaveTheLockWithinSeconds(t *testing.T) {
	manyCommands(t)
	const roundTrip = 200 * time.Microsecond
	longest := time.Duration(thorough(4, 7)) * time.Second
	for _, c := range []struct {
		threads, clients int
		pause            time.Duration
	}{{2, 1, 0}, {8, 2, 500 * time.Millisecond}} {
		t.Run(fmt.Sprintf("%d threads with pauses of %v, %d clients", c.threads, c.pause, c.clients), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				met := w.guest()
				met.take()
				end := time.Now().Add(8 * time.Second)
				var crowds []func() int
				for range c.clients {
					p := w.client(func(config *rlock.Config) { config.Logger, config.RedissonPolls = quiet, rlock.RedissonPollsAlways })
					p.net.SetRoundTrip(roundTrip)
					crowds = append(crowds, p.crowd(w, end))
				}
				time.Sleep(10 * time.Millisecond)
				met.free()
				time.Sleep(time.Second)
				all := w.spinners(c.threads, c.pause)
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
	manyCommands(t)
	const linger, poll, used = time.Minute, 150 * time.Millisecond, 50 * time.Second
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(linger)
		w.use(p.NewLock(key))
		time.Sleep(used)
		w.use(p.NewLock(key))
		s := w.spinners(1, 0)[0]
		within(t, linger-time.Second, linger+poll, func() { s.contend(time.Now().Add(time.Second), time.Millisecond) })

		t.Log("after that the name lingers no longer")
		f := w.guest()
		f.take()
		me := w.caller()
		waits := start(func() error { return p.NewLock(key).Lock(me) })
		w.eventually(func() bool { return len(w.queued()) == 1 }, "it meets the guest")
		f.free()
		require.NoError(t, <-waits)
		require.NoError(t, p.NewLock(key).Unlock(me))
		w.use(p.NewLock(key))
		within(t, 0, poll, func() { s.contend(time.Now().Add(time.Millisecond), time.Millisecond) })
	})
}

// A client of Redisson cannot call, and the lock is in use at each renewal. Its first turn
// begins too early for this client.
func TestAGuestGetsALockThatIsUsedAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.lingerer(time.Hour)
		lock := p.NewLock(key)
		w.use(lock)
		until := time.Now().Add(15 * time.Second) // one renewal, after a third of 30 s
		lateness := 50 * time.Millisecond
		sometimesLate := func() time.Duration {
			defer func() { lateness = punctual() }()
			return lateness
		}
		guest := w.foreigner(channel, foreignOwner, "1")
		contends := start(func() error { guest.contend(until, sometimesLate); return nil })
		for me := w.caller(); time.Now().Before(until); {
			require.NoError(t, lock.Lock(me))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, lock.Unlock(me))
		}
		require.NoError(t, <-contends)
		assert.Positive(t, guest.sections)
	})
}
