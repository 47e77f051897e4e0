package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients that are not ours: guests, which only poll and cannot be counted, and subscribers. Package internal/redisson has
// the real ones.

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
					crowds = append(crowds, w.NewClient(func(config *rlock.Config) { config.Advanced.RedissonPolls = rlock.RedissonPollsAlways }).Crowd(4, w, end))
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

// The parts that a subscriber has of the sections, beside clients with so many callers each that always want the lock.
func TestASubscriberHasItsShare(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	type contest struct {
		clients, callers int
		least, most      float64 // of all sections
		lateness         func() time.Duration
	}
	testbed.EachBubble(t, map[string]contest{
		"beside a crowd":            {1, 4, 1. / 4, 3. / 4, testbed.Punctual},
		"late now and then":         {1, 4, 1. / 4, 1, lateEvery51()},
		"beside two that alternate": {2, 1, 1. / 4, 3. / 4, testbed.Punctual},
		"beside many":               {8, 1, 1. / 17, 1. / 5, testbed.Punctual},
	}, func(t *testing.T, w *testbed.World, c contest) {
		end := time.Now().Add(2 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		var crowds []func() int
		for range c.clients {
			crowds = append(crowds, w.NewClient().Crowd(c.callers, w, end))
		}
		time.Sleep(20 * time.Millisecond)
		f.Contend(end, c.lateness)
		all := f.Sections
		for _, sections := range crowds {
			all += sections()
		}
		t.Logf("%d of %d sections", f.Sections, all)
		assert.Greater(t, float64(f.Sections), c.least*float64(all))
		assert.Less(t, float64(f.Sections), c.most*float64(all))
	})
}

// lateEvery51 is longer than the head waits for those that it lets pass, once in 51 times; else it comes behind the head,
// if that lets no other pass.
func lateEvery51() func() time.Duration {
	turn := 0
	return func() time.Duration {
		if turn++; turn%51 == 0 {
			return 3 * time.Millisecond
		}
		return time.Millisecond
	}
}

func TestOthersThatNeverComeCostLittle(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1") // listens, and does not contend
		began := time.Now()
		end := began.Add(4 * time.Second)
		ours := w.NewClient().Crowd(4, w, end)()
		lost := time.Since(began) - time.Duration(ours)*testbed.Section
		t.Logf("%d sections, %v lost", ours, lost)
		assert.Less(t, lost, 350*time.Millisecond, "turns of 10, 20, 40, 80 and 140 ms, then a seventeenth of the time")
		require.Positive(t, ours)
	})
}
