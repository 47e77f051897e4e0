package insight_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldThatLastsTooLongIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		const said = "rlock: a lock is held for a long time"
		lock, me, them := p.NewLock(testbed.Key), w.Caller(), w.Caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(3900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.Logged(said))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.Logged(said), "the hold is logged in time, and not only at the next renewal")
		assert.Equal(t, 1, p.Logged("lock=orders:42 kind=plain owner="))
		assert.Equal(t, 1, p.Logged("longwaits_test.go"))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged(said))

		// The next holder, by a hand-off in the same tenure, has its own time.
		theirs := testbed.Start(func() error { return lock.Lock(them) })
		synctest.Wait()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.Logged(said))

		// So has a reader that joins others.
		read := p.NewReadWriteLock("pair").Read()
		require.NoError(t, read.Lock(me))
		time.Sleep(4100 * time.Millisecond)
		require.NoError(t, read.Lock(them))
		require.NoError(t, read.Unlock(me))
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 4, p.Logged(said))
	})
}

func TestALongHoldOfALockOverSeveralIsLoggedOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		hold, err := takenHere(w.Ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.Logged("held for a long time"))
		assert.Equal(t, 1, p.Logged("lock=a,b kind=multi"))
		assert.Equal(t, 1, p.Logged("takenHere"))
		runtime.KeepAlive(hold) // one that is dropped would be logged as well
	})
}

func TestAWaitForALockThatTheSameGoroutineHoldsIsLoggedOnce(t *testing.T) {
	const said = "rlock: a call waits for a lock that its own goroutine holds"
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(withSites)
		lock := p.NewLock(testbed.Key)
		hold, err := takenHere(w.Ctx, lock)
		require.NoError(t, err)
		for _, wait := range []struct {
			call func() (bool, error)
			said int
		}{
			{func() (bool, error) { return lock.TryLockFor(w.Ctx, 900*time.Millisecond, 0) }, 0},
			{func() (bool, error) { return lock.TryLockFor(w.Ctx, time.Minute, 0) }, 1},
			{func() (bool, error) {
				_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Minute))
				return false, err
			}, 2},
			{func() (bool, error) { return lock.TryLockFor(hold.Context(), time.Minute, 0) }, 2}, // a nested level
		} {
			_, _ = wait.call()
			synctest.Wait()
			assert.Equal(t, wait.said, p.Logged(said))
		}
		assert.GreaterOrEqual(t, p.Logged("takenHere"), 2)
		elsewhere := testbed.Start(func() error { _, err := lock.TryLockFor(w.Ctx, time.Minute, 0); return err })
		require.NoError(t, <-elsewhere)
		assert.Equal(t, 2, p.Logged(said), "another goroutine's wait is no deadlock")
	})
}

func TestAWaitThatLastsTooLongIsLoggedOnceWithTheHolder(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const said = "rlock: a call waits for a lock for a long time"
		long := func(c *rlock.Config) { c.LongWait = 7 * time.Second }
		p, other := w.NewClient(withSites, long), w.NewClient()
		lock, owner := p.NewLock(testbed.Key), rlock.NewOwner()
		them := rlock.WithOwner(w.Ctx, owner)

		require.NoError(t, other.NewLock(testbed.Key).Lock(them))
		mine := testbed.Start(func() error { _, err := takenHere(w.Ctx, lock); return err })
		synctest.Wait()
		time.Sleep(6900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.Logged(said))
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.Logged(said))
		assert.Equal(t, 1, p.Logged("holder="+other.ID()))
		assert.Equal(t, 1, p.Logged(":"+fmt.Sprint(owner)+" "))
		assert.Equal(t, 1, p.Logged("takenHere"))
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(them))
		require.NoError(t, <-mine)
		synctest.Wait()
		assert.Equal(t, 1, p.Logged(said))

		// The site of a holder of the same client is known.
		ok, err := lock.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 2, p.Logged(said))
		assert.Equal(t, 1, p.Logged("holder="+p.ID()))
		assert.Equal(t, 2, p.Logged("takenHere"))

		whole := rlock.NewMultiLock(p.NewLock("another"), lock)
		ok, err = whole.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 3, p.Logged(said), "the whole is logged, and not its part")
		assert.Equal(t, 1, p.Logged("lock=another,orders:42 kind=multi"))
	})
}

func TestBy30SecondsAWaitIsLoggedWithItsSiteUnlessTheConfigSaysOtherwise(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const said = "rlock: a call waits for a lock for a long time"
		never := func(c *rlock.Config) { c.LongWait = -1 }
		p, silent, other := w.NewClient(), w.NewClient(never), w.NewClient()
		lock := p.NewLock(testbed.Key)

		// One goroutine has the lock and waits for another, which waits for the lock.
		require.NoError(t, lock.Lock(w.Ctx))
		ctx, cancel := context.WithCancel(w.Ctx)
		here := testbed.Start(func() error { _, err := takenHere(ctx, lock); return err })
		there := testbed.Start(func() error { _, err := takenHere(ctx, other.NewLock(testbed.Key)); return err })
		mute := testbed.Start(func() error { _, err := takenHere(ctx, silent.NewLock(testbed.Key)); return err })
		time.Sleep(29 * time.Second)
		synctest.Wait()
		assert.Zero(t, p.Logged(said)+other.Logged(said))
		time.Sleep(2100 * time.Millisecond) // waits for a lock of the same client are looked at once a second
		synctest.Wait()
		for _, c := range []*testbed.Client{p, other} {
			assert.Equal(t, 1, c.Logged(said))
			assert.Equal(t, 1, c.Logged("holder="+p.ID()))
			assert.Equal(t, 1, c.Logged("takenHere"), "the site is known without RecordSites")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.Logged(said), "each wait is logged once")
		assert.Equal(t, 1, other.Logged(said))
		assert.Zero(t, silent.Logged(said))
		cancel()
		for _, result := range []<-chan error{here, there, mute} {
			require.ErrorIs(t, <-result, context.Canceled)
		}
		require.NoError(t, lock.Unlock(w.Ctx))
	})
}

// A wait that begins while the lock is free is looked at, too, when the lock has a holder.
func TestAWaitIsLoggedWhicheverClientHoldsTheLockMeanwhile(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const said = "rlock: a call waits for a lock for a long time"
		p, other := w.NewClient(), w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, other.NewLock(testbed.Key).Lock(w.Ctx))
		ctx, cancel := context.WithCancel(w.Ctx)
		var waits []<-chan error
		for range 3 {
			waits = append(waits, testbed.Start(func() error { return lock.Lock(ctx) }))
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(w.Ctx)) // one of the three has the lock, and keeps it
		time.Sleep(11100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.Logged(said))
		assert.Equal(t, 2, p.Logged("holder="+p.ID()))
		cancel()
		for _, result := range waits {
			<-result
		}
	})
}

func TestTheLogSaysThatALockNeverExpires(t *testing.T) {
	for ttl, lines := range map[time.Duration]int{0: 1, time.Hour: 0} {
		t.Run(ttl.String(), func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				w.HSet(testbed.Key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
				if ttl > 0 {
					w.SetTTL(testbed.Key, ttl)
				}
				mine := testbed.Start(func() error { return p.NewLock(testbed.Key).Lock(w.Caller()) })
				time.Sleep(time.Minute)
				assert.Equal(t, 1, p.Logged("rlock: a call waits for a lock for a long time"))
				assert.Equal(t, lines, p.Logged(`expires="never: `))
				w.Del(testbed.Key)
				require.NoError(t, <-mine)
			})
		})
	}
}
