package insight_test

import (
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOfLevelsThatAreReleasedOutOfOrderTheLastIsTheHold(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()))
		me := w.Caller()
		outer := testbed.Take(t, me, p.NewLock(testbed.Key))
		time.Sleep(time.Second)
		inner := testbed.Take(t, me, p.NewLock(testbed.Key))
		time.Sleep(time.Second)
		v.told()
		require.NoError(t, outer.Release(me))
		require.NoError(t, inner.Release(me))
		assert.Equal(t, []string{
			"released plain orders:42 by nesting after 2s: <nil>",
			"released plain orders:42 by redis after 2s: <nil>",
		}, v.told())
	})
}

func TestALockMadeOfOthersIsObservedAsOne(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()), testbed.WithLease(3*time.Second))
		a, b := p.NewLock("a"), p.NewLock("b")
		both := rlock.NewMultiLock(a, b)
		me, them := as(w.Caller(), "me"), as(w.Caller(), "them")
		v.told()

		require.NoError(t, both.Lock(me))
		require.NoError(t, both.Lock(me))
		ok, err := both.TryLock(them)
		require.NoError(t, err)
		require.False(t, ok)
		time.Sleep(time.Second)
		require.NoError(t, both.Unlock(me))
		require.NoError(t, both.Unlock(me))
		assert.Equal(t, []string{
			"me: waiting multi a,b",
			"me: acquired multi a,b by parts in 0s, contended true",
			"me: acquired multi a,b by nesting in 0s, contended false",
			"them: gave up multi a,b after 0s, contended false: lock is held by another owner",
			"me: released multi a,b by nesting after 1s: <nil>",
			"me: released multi a,b by parts after 1s: <nil>",
		}, v.told())

		h := testbed.Take(t, me, both)
		v.told()
		w.Del("b")
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, h.Release(me), rlock.ErrLost)
		assert.Equal(t, []string{"me: lost multi a,b by parts after 1s, parts: lock was lost"}, v.told())

		testbed.Take(t, me, both, rlock.WithLease(2*time.Second))
		v.told()
		time.Sleep(3 * time.Second)
		assert.Equal(t, []string{"me: lost multi a,b by parts after 2s, lease_ended: lock was lost"}, v.told())

		testbed.Take(t, me, both, rlock.WithWait(0))
		v.told()
		require.NoError(t, p.Close())
		assert.Equal(t, []string{"me: released multi a,b by parts after 0s: client is closed", "closed"}, v.told())
	})
}
