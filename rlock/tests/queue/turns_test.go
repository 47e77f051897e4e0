package queue_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Turns with a client that is not ours. internal/redisson has the real one.

func TestAClientThatPassesNothingOnHasItsShare(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(4 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		ours := w.NewClient().Crowd(w, end)
		f.Contend(end, testbed.Punctual)
		t.Logf("sections: theirs %d, ours %d", f.Sections, ours())
		assert.Greater(t, 4*f.Sections, f.Sections+ours())
		assert.Greater(t, 4*ours(), f.Sections+ours())
	})
}

func TestAClientThatIsLateNowAndThenIsLetPassAgain(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(4 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		ours := w.NewClient().Crowd(w, end)
		turn := 0
		f.Contend(end, func() time.Duration {
			if turn++; turn%51 == 0 {
				return 3 * time.Millisecond // longer than the head waits for those that it lets pass
			}
			return time.Millisecond // behind the head, if that lets no other pass
		})
		t.Logf("sections: theirs %d, ours %d", f.Sections, ours())
		assert.Greater(t, 4*f.Sections, f.Sections+ours())
	})
}

func TestOthersThatNeverComeCostLittle(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1") // listens, and does not contend
		began := time.Now()
		end := began.Add(4 * time.Second)
		ours := w.NewClient().Crowd(w, end)()
		lost := time.Since(began) - time.Duration(ours)*testbed.Section
		t.Logf("%d sections, %v lost", ours, lost)
		assert.Less(t, lost, 350*time.Millisecond, "turns of 10, 20, 40, 80 and 140 ms, then a seventeenth of the time")
		require.Positive(t, ours)
	})
}

// The release of each client finds one ticket, that of the other: a turn behind it would stand alone
// when that is granted the lock.
func TestASubscriberHasItsShareBesideTwoClientsThatPassTheLockToOneAnother(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(4 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		here, there := w.NewClient().Callers(1, w, end), w.NewClient().Callers(1, w, end)
		time.Sleep(20 * time.Millisecond)
		f.Contend(end, testbed.Punctual)
		ours := here() + there()
		t.Logf("sections: theirs %d, ours %d", f.Sections, ours)
		assert.Greater(t, 4*f.Sections, f.Sections+ours)
		assert.Greater(t, 4*ours, f.Sections+ours)
	})
}

// A section here takes each of the clients as long as one there, so each has one in turn.
func TestASubscriberHasNoMoreThanItsShareBesideManyClients(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(2 * time.Second)
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		var crowd []func() int
		for range 8 {
			crowd = append(crowd, w.NewClient().Callers(1, w, end))
		}
		time.Sleep(20 * time.Millisecond)
		f.Contend(end, testbed.Punctual)
		ours := 0
		for _, sections := range crowd {
			ours += sections()
		}
		t.Logf("sections: theirs %d, ours %d", f.Sections, ours)
		assert.Less(t, 8*f.Sections, 2*ours, "less than two fair parts")
		assert.Greater(t, 16*f.Sections, ours, "more than half a fair part")
	})
}

// The queue is not kept for as long as such a section.
func TestASubscriberHasItsTurnBetweenSectionsOfMinutes(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		f := w.NewForeigner(testbed.Channel, testbed.ForeignOwner, "1")
		here, there, me := w.NewClient().NewLock(testbed.Key), w.NewClient().NewLock(testbed.Key), w.Caller()
		require.NoError(t, here.Lock(me))
		for range 3 {
			time.Sleep(90 * time.Second)
			waiter := testbed.Start(func() error { return there.Lock(me) })
			w.Eventually(func() bool { return len(w.Queued()) > 0 }, "it queues")
			for len(f.Messages) > 0 {
				<-f.Messages
			}
			require.NoError(t, here.Unlock(me))
			select {
			case <-f.Messages:
			case <-time.After(time.Second):
				require.Fail(t, "the subscriber is not told that the lock is free")
			}
			f.Take()
			f.Free()
			require.NoError(t, <-waiter)
			here, there = there, here
		}
		require.NoError(t, here.Unlock(me))
	})
}
