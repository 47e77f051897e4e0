package calls_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/require"
)

// A proxy may send a command again that was answered, as late as a lease later. docs/protocol.md says what each does then.

// again executes each script once more that the client has sent, in its order, and then from the last to the first.
func again(w *testbed.World, p *testbed.Client) {
	w.T.Helper()
	synctest.Wait()
	raw, sent := w.Outsider(), p.Net.Sent("EVALSHA")
	require.NotEmpty(w.T, sent)
	for range 2 {
		for _, f := range sent {
			_ = raw.Do(w.Ctx, raw.B().Arbitrary(f.Args...).Build()).Error()
		}
		slices.Reverse(sent)
	}
}

// stays repeats the commands of a client again and again, and fails if a hold of it is believed for longer than Redis
// shows the lock.
func stays(w *testbed.World, p *testbed.Client, hold *rlock.Hold, d time.Duration) {
	w.T.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(700 * time.Millisecond) {
		again(w, p)
		left := w.Remaining(testbed.Key)
		for _, k := range w.Keys() {
			if strings.HasSuffix(k, ":rwlock_timeout:1") {
				left = min(left, w.Remaining(k))
			}
		}
		require.True(w.T, hold.Valid())
		require.LessOrEqual(w.T, time.Until(hold.ValidUntil()), left)
	}
}

func TestACommandThatIsRepeatedShortensNoHold(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		p := w.NewClient()
		l, other := lock(p.Client), rival(w.NewClient().Client)
		hold, err := l.Acquire(w.Ctx, rlock.WithLease(20*time.Second))
		require.NoError(t, err)
		me := hold.Context() // its owner
		time.Sleep(time.Second)
		for range 2 { // the end of the level shortens the lease, and the next one lengthens it
			require.NoError(t, l.Lock(me))
			stays(w, p, hold, 4*time.Second)
			require.False(t, w.IsFree(other))
			require.NoError(t, l.LockFor(me, time.Minute))
			stays(w, p, hold, time.Second)
			require.NoError(t, l.Unlock(me))
			require.NoError(t, l.Unlock(me))
			time.Sleep(10 * time.Millisecond)
		}
		first := hold
		handed := testbed.Start(func() (err error) {
			hold, err = l.Acquire(w.Ctx)
			return err
		})
		synctest.Wait()
		require.NoError(t, first.Release(w.Ctx))
		require.NoError(t, <-handed)
		stays(w, p, hold, 4*time.Second)
		require.False(t, w.IsFree(other))
		require.NoError(t, hold.Release(w.Ctx))
	})
}

func TestAResumeThatIsRepeatedShortensNoHold(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		here, there := w.NewClient(), w.NewClient()
		hold, err := lock(here.Client).Acquire(w.Ctx)
		require.NoError(t, err)
		text, err := hold.Pass(w.Ctx, 5*time.Second)
		require.NoError(t, err)
		again(w, here)
		resumed, err := there.Resume(w.Ctx, text, rlock.WithLease(time.Second))
		require.NoError(t, err)
		me := resumed.Context() // its owner
		require.NoError(t, lock(there.Client).Lock(me))
		again(w, here) // the pass is over
		stays(w, there, resumed, 9*time.Second)
		require.False(t, w.IsFree(rival(here.Client)))
		require.NoError(t, lock(there.Client).Unlock(me))
	})
}

// The client that is shown to have the lock is asked by a look, at the latest a claim later, and releases it.
func TestAnAcquireThatIsRepeatedAfterItsReleaseHoldsNoLongerThanAClaim(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, rival func(*rlock.Client) *rlock.Lock) {
		p, me := w.NewClient(), w.Caller()
		require.NoError(t, lock(p.Client).Lock(me))
		require.NoError(t, lock(p.Client).Unlock(me))
		acquire := p.Net.Sent("EVALSHA")[:1]
		raw := w.Outsider()
		for _, other := range []*rlock.Client{w.NewClient().Client, p.Client} {
			time.Sleep(time.Second)
			require.NoError(t, raw.Do(w.Ctx, raw.B().Arbitrary(acquire[0].Args...).Build()).NonRedisError())
			require.True(t, w.Exists(testbed.Key), "the lock is taken for a tenure that its client has forgotten")
			testbed.Within(t, 0, 3*time.Second, func() { require.NoError(t, rival(other).Lock(me)) })
			require.NoError(t, rival(other).Unlock(me))
			time.Sleep(10 * time.Millisecond)
			require.False(t, w.Exists(testbed.Key))
		}
	})
}

func TestAHolderThatIsAskedForItsTenureKeepsIt(t *testing.T) {
	eachPassable(t, func(t *testing.T, w *testbed.World, lock, _ func(*rlock.Client) *rlock.Lock) {
		hold, err := lock(w.NewClient().Client).Acquire(w.Ctx, rlock.WithLease(time.Minute))
		require.NoError(t, err)
		synctest.Wait()
		asks := func() {
			for _, field := range w.Fields(testbed.Key) {
				owner := strings.TrimSuffix(field, ":write")
				for _, sort := range []string{"p", "r", "s", "?", ""} {
					w.Publish(testbed.OwnChannels+owner[:min(19, len(owner))], "h "+owner+" "+sort+testbed.Key)
				}
			}
			time.Sleep(time.Second)
		}
		asks()
		require.True(t, hold.Valid())
		require.NoError(t, hold.Detach(w.Ctx))
		asks()
		require.NotEmpty(t, w.Fields(testbed.Key), "a detached lock")
	})
}
