package rlock_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// A proxy may send a command again that was answered, as late as a lease later. docs/protocol.md says what each does then.

// again executes each script once more that the client has sent, in its order, and then from the last to the first.
func (w *world) again(p *testClient) {
	w.t.Helper()
	synctest.Wait()
	raw, sent := w.outsider(), p.net.Sent("EVALSHA")
	require.NotEmpty(w.t, sent)
	for range 2 {
		for _, f := range sent {
			_ = raw.Do(w.ctx, raw.B().Arbitrary(f.Args...).Build()).Error()
		}
		slices.Reverse(sent)
	}
}

// stays repeats the commands of a client again and again, and fails if a hold of it is believed for longer than Redis
// shows the lock.
func (w *world) stays(p *testClient, hold *rlock.Hold, d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(700 * time.Millisecond) {
		w.again(p)
		left := w.ttl(key)
		for _, k := range w.Keys() {
			if strings.HasSuffix(k, ":rwlock_timeout:1") {
				left = min(left, w.ttl(k))
			}
		}
		require.True(w.t, hold.Valid())
		require.LessOrEqual(w.t, time.Until(hold.ValidUntil()), left)
	}
}

func TestACommandThatIsRepeatedShortensNoHold(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		p := w.client()
		l, other := lock(p.Client), rival(w.client().Client)
		hold, err := l.Acquire(w.ctx, rlock.WithLease(20*time.Second))
		require.NoError(t, err)
		me := hold.Context() // its owner
		time.Sleep(time.Second)
		for range 2 { // the end of the level shortens the lease, and the next one lengthens it
			require.NoError(t, l.Lock(me))
			w.stays(p, hold, 4*time.Second)
			require.False(t, w.try(other))
			require.NoError(t, l.LockFor(me, time.Minute))
			w.stays(p, hold, time.Second)
			require.NoError(t, l.Unlock(me))
			require.NoError(t, l.Unlock(me))
			time.Sleep(10 * time.Millisecond)
		}
		first := hold
		handed := start(func() (err error) {
			hold, err = l.Acquire(w.ctx)
			return err
		})
		synctest.Wait()
		require.NoError(t, first.Release(w.ctx))
		require.NoError(t, <-handed)
		w.stays(p, hold, 4*time.Second)
		require.False(t, w.try(other))
		require.NoError(t, hold.Release(w.ctx))
	})
}

func TestAResumeThatIsRepeatedShortensNoHold(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there := w.client(), w.client()
		hold, err := lock(here.Client).Acquire(w.ctx)
		require.NoError(t, err)
		text, err := hold.Pass(w.ctx, 5*time.Second)
		require.NoError(t, err)
		w.again(here)
		resumed, err := there.Resume(w.ctx, text, rlock.WithLease(time.Second))
		require.NoError(t, err)
		me := resumed.Context() // its owner
		require.NoError(t, lock(there.Client).Lock(me))
		w.again(here) // the pass is over
		w.stays(there, resumed, 9*time.Second)
		require.False(t, w.try(rival(here.Client)))
		require.NoError(t, lock(there.Client).Unlock(me))
	})
}

// The client that is shown to have the lock is asked by a look, at the latest a claim later, and releases it.
func TestAnAcquireThatIsRepeatedAfterItsReleaseHoldsNoLongerThanAClaim(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, rival func(*rlock.Client) *rlock.Lock) {
		p, me := w.client(), w.caller()
		require.NoError(t, lock(p.Client).Lock(me))
		require.NoError(t, lock(p.Client).Unlock(me))
		acquire := p.net.Sent("EVALSHA")[:1]
		raw := w.outsider()
		for _, other := range []*rlock.Client{w.client().Client, p.Client} {
			time.Sleep(time.Second)
			require.NoError(t, raw.Do(w.ctx, raw.B().Arbitrary(acquire[0].Args...).Build()).NonRedisError())
			require.True(t, w.Exists(key), "the lock is taken for a tenure that its client has forgotten")
			within(t, 0, 3*time.Second, func() { require.NoError(t, rival(other).Lock(me)) })
			require.NoError(t, rival(other).Unlock(me))
			time.Sleep(10 * time.Millisecond)
			require.False(t, w.Exists(key))
		}
	})
}

func TestAHolderThatIsAskedForItsTenureKeepsIt(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *world, lock, _ func(*rlock.Client) *rlock.Lock) {
		hold, err := lock(w.client().Client).Acquire(w.ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		synctest.Wait()
		asks := func() {
			for _, field := range w.fields(key) {
				owner := strings.TrimSuffix(field, ":write")
				for _, sort := range []string{"p", "r", "s", "?", ""} {
					w.Publish(ownChannels+owner[:min(19, len(owner))], "h "+owner+" "+sort+key)
				}
			}
			time.Sleep(time.Second)
		}
		asks()
		require.True(t, hold.Valid())
		require.NoError(t, hold.Detach(w.ctx))
		asks()
		require.NotEmpty(t, w.fields(key), "a detached lock")
	})
}
