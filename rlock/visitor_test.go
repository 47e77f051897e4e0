package rlock_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A visitor is a thread of Redisson that comes now and then: it listens only while it waits, and then sleeps until a message
// or for as long as the lease that it has read goes on.
type visitor struct{ *foreigner }

func (w *world) visitor(channel string, holds ...string) visitor {
	return visitor{&foreigner{world: w, channel: channel, holds: holds, redis: w.outsider()}}
}

// lock is RLock.lock: it returns how long that took.
func (v visitor) lock() time.Duration {
	asked := time.Now()
	if v.tries() < 0 {
		return time.Since(asked)
	}
	subscriber, messages := v.outsider(), make(chan struct{}, 64)
	left := start(func() error {
		return subscriber.Receive(v.ctx, subscriber.B().Subscribe().Channel(v.channel).Build(), func(rueidis.PubSubMessage) { messages <- struct{}{} })
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
	left, err := v.eval(`
		if redis.call('exists', KEYS[1]) == 1 then
			return redis.call('pttl', KEYS[1])
		end
		redis.call('hset', KEYS[1], unpack(ARGV))
		redis.call('pexpire', KEYS[1], 30000)
		return -1`, v.holds...).AsInt64()
	require.NoError(v.t, err)
	return time.Duration(left) * time.Millisecond
}

// Turns of pollers are in vain before it comes, since none polls.
func TestAVisitorHasTheNextTurnWhereverPollersMayBe(t *testing.T) {
	redistest.Slow(t)
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		end := time.Now().Add(16 * time.Second)
		ours := w.client(func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }).crowd(w, end)
		v := w.visitor(channel, foreignOwner, "1")
		random := rand.New(rand.NewPCG(1, 2))
		time.Sleep(3 * time.Second)
		var waits []time.Duration
		for time.Now().Before(end.Add(-2 * time.Second)) {
			time.Sleep(300*time.Millisecond + time.Duration(random.Int64N(int64(900*time.Millisecond))))
			waits = append(waits, v.lock())
			time.Sleep(section)
			v.free()
		}
		slices.Sort(waits)
		t.Logf("waits: median %v, longest %v, %d sections of ours", waits[len(waits)/2], waits[len(waits)-1], ours())
		assert.Less(t, waits[len(waits)/2], 50*time.Millisecond)
		assert.Less(t, waits[len(waits)-1], 500*time.Millisecond)
	})
}
