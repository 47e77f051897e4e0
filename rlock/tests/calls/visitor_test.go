package calls_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A visitor is a thread of Redisson that comes now and then: it listens only while it waits, and then sleeps until a message
// or for as long as the lease that it has read goes on.
type visitor struct{ *testbed.Foreigner }

func newVisitor(w *testbed.World, channel string, holds ...string) visitor {
	return visitor{&testbed.Foreigner{World: w, Channel: channel, Holds: holds, Redis: w.Outsider()}}
}

// lock is RLock.lock: it returns how long that took.
func (v visitor) lock() time.Duration {
	asked := time.Now()
	if v.tries() < 0 {
		return time.Since(asked)
	}
	subscriber, messages := v.Outsider(), make(chan struct{}, 64)
	left := testbed.Start(func() error {
		return subscriber.Receive(v.Ctx, subscriber.B().Subscribe().Channel(v.Channel).Build(), func(rueidis.PubSubMessage) { messages <- struct{}{} })
	})
	synctest.Wait()
	for left := v.tries(); left >= 0; left = v.tries() {
		select {
		case <-messages:
			time.Sleep(time.Millisecond)
		case <-time.After(left):
		}
	}
	took := time.Since(asked)
	subscriber.Close()
	<-left
	synctest.Wait() // until the server knows
	return took
}

// tries returns the rest of the lease of another holder, less than 0 if it has the lock now.
func (v visitor) tries() time.Duration {
	left, err := v.Eval(`
		if redis.call('exists', KEYS[1]) == 1 then
			return redis.call('pttl', KEYS[1])
		end
		redis.call('hset', KEYS[1], unpack(ARGV))
		redis.call('pexpire', KEYS[1], 30000)
		return -1`, v.Holds...).AsInt64()
	require.NoError(v.T, err)
	return time.Duration(left) * time.Millisecond
}

// Turns of pollers are in vain before it comes, since none polls.
func TestAVisitorHasTheNextTurnWhereverPollersMayBe(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		end := time.Now().Add(16 * time.Second)
		ours := w.NewClient(func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }).Crowd(w, end)
		v := newVisitor(w, testbed.Channel, testbed.ForeignOwner, "1")
		random := rand.New(rand.NewPCG(1, 2))
		time.Sleep(3 * time.Second)
		var waits []time.Duration
		for time.Now().Before(end.Add(-2 * time.Second)) {
			time.Sleep(300*time.Millisecond + time.Duration(random.Int64N(int64(900*time.Millisecond))))
			waits = append(waits, v.lock())
			time.Sleep(testbed.Section)
			v.Free()
		}
		slices.Sort(waits)
		t.Logf("waits: median %v, longest %v, %d sections of ours", waits[len(waits)/2], waits[len(waits)-1], ours())
		assert.Less(t, waits[len(waits)/2], 50*time.Millisecond)
		assert.Less(t, waits[len(waits)-1], 500*time.Millisecond)
	})
}
