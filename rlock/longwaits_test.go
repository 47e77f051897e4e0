package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHoldThatLastsTooLongIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		const said = "rlock: a lock is held for a long time"
		lock, me, them := p.NewLock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(3900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.logged(said))
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said), "the hold is logged in time, and not only at the next renewal")
		assert.Equal(t, 1, p.logged("lock=orders:42 kind=plain owner="))
		assert.Equal(t, 1, p.logged("longwaits_test.go"))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.logged(said))

		// The next holder, by a hand-off in the same tenure, has its own time.
		theirs := start(func() error { return lock.Lock(them) })
		synctest.Wait()
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))

		// So has a reader that joins others.
		read := p.NewReadWriteLock("pair").Read()
		require.NoError(t, read.Lock(me))
		time.Sleep(4100 * time.Millisecond)
		require.NoError(t, read.Lock(them))
		require.NoError(t, read.Unlock(me))
		time.Sleep(4100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 4, p.logged(said))
	})
}

func TestALongHoldOfALockOverSeveralIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites, func(c *rlock.Config) { c.LongHold = 4 * time.Second })
		_, err := takenHere(w.ctx, rlock.NewMultiLock(p.NewLock("a"), p.NewLock("b")))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.logged("held for a long time"))
		assert.Equal(t, 1, p.logged("lock=a,b kind=multi"))
		assert.Equal(t, 1, p.logged("takenHere"))
	})
}

func TestAWaitForALockThatTheSameGoroutineHoldsIsLoggedOnce(t *testing.T) {
	const said = "rlock: a call waits for a lock that its own goroutine holds"
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(withSites)
		lock := p.NewLock(key)
		hold, err := takenHere(w.ctx, lock)
		require.NoError(t, err)
		for _, wait := range []struct {
			call func() (bool, error)
			said int
		}{
			{func() (bool, error) { return lock.TryLockFor(w.ctx, 900*time.Millisecond, 0) }, 0},
			{func() (bool, error) { return lock.TryLockFor(w.ctx, time.Minute, 0) }, 1},
			{func() (bool, error) {
				_, err := lock.Acquire(w.ctx, rlock.WithWait(time.Minute))
				return false, err
			}, 2},
			{func() (bool, error) { return lock.TryLockFor(hold.Context(), time.Minute, 0) }, 2}, // a nested level
		} {
			_, _ = wait.call()
			synctest.Wait()
			assert.Equal(t, wait.said, p.logged(said))
		}
		assert.GreaterOrEqual(t, p.logged("takenHere"), 2)
		elsewhere := start(func() error { _, err := lock.TryLockFor(w.ctx, time.Minute, 0); return err })
		require.NoError(t, <-elsewhere)
		assert.Equal(t, 2, p.logged(said), "another goroutine's wait is no deadlock")
	})
}

func TestAWaitThatLastsTooLongIsLoggedOnceWithTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		long := func(c *rlock.Config) { c.LongWait = 7 * time.Second }
		p, other := w.client(withSites, long), w.client()
		lock, owner := p.NewLock(key), rlock.NewOwner()
		them := rlock.WithOwner(w.ctx, owner)

		require.NoError(t, other.NewLock(key).Lock(them))
		mine := start(func() error { _, err := takenHere(w.ctx, lock); return err })
		synctest.Wait()
		time.Sleep(6900 * time.Millisecond)
		synctest.Wait()
		assert.Zero(t, p.logged(said))
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said))
		assert.Equal(t, 1, p.logged("holder="+other.ID()))
		assert.Equal(t, 1, p.logged(":"+fmt.Sprint(owner)+" "))
		assert.Equal(t, 1, p.logged("takenHere"))
		time.Sleep(time.Minute)
		require.NoError(t, other.NewLock(key).Unlock(them))
		require.NoError(t, <-mine)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said))

		// The site of a holder of the same client is known.
		ok, err := lock.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))
		assert.Equal(t, 1, p.logged("holder="+p.ID()))
		assert.Equal(t, 2, p.logged("takenHere"))

		whole := rlock.NewMultiLock(p.NewLock("another"), lock)
		ok, err = whole.TryLockFor(them, 8*time.Second, 0)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait()
		assert.Equal(t, 3, p.logged(said), "the whole is logged, and not its part")
		assert.Equal(t, 1, p.logged("lock=another,orders:42 kind=multi"))
	})
}

func TestBy30SecondsAWaitIsLoggedWithItsSiteUnlessTheConfigSaysOtherwise(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		never := func(c *rlock.Config) { c.LongWait = -1 }
		p, silent, other := w.client(), w.client(never), w.client()
		lock := p.NewLock(key)

		// One goroutine has the lock and waits for another, which waits for the lock.
		require.NoError(t, lock.Lock(w.ctx))
		ctx, cancel := context.WithCancel(w.ctx)
		here := start(func() error { _, err := takenHere(ctx, lock); return err })
		there := start(func() error { _, err := takenHere(ctx, other.NewLock(key)); return err })
		mute := start(func() error { _, err := takenHere(ctx, silent.NewLock(key)); return err })
		time.Sleep(29 * time.Second)
		synctest.Wait()
		assert.Zero(t, p.logged(said)+other.logged(said))
		time.Sleep(2100 * time.Millisecond) // waits for a lock of the same client are looked at once a second
		synctest.Wait()
		for _, c := range []*testClient{p, other} {
			assert.Equal(t, 1, c.logged(said))
			assert.Equal(t, 1, c.logged("holder="+p.ID()))
			assert.Equal(t, 1, c.logged("takenHere"), "the site is known without RecordSites")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, p.logged(said), "each wait is logged once")
		assert.Equal(t, 1, other.logged(said))
		assert.Zero(t, silent.logged(said))
		cancel()
		for _, result := range []<-chan error{here, there, mute} {
			require.ErrorIs(t, <-result, context.Canceled)
		}
		require.NoError(t, lock.Unlock(w.ctx))
	})
}

// A wait that begins while the lock is free is looked at, too, when the lock has a holder.
func TestAWaitIsLoggedWhicheverClientHoldsTheLockMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const said = "rlock: a call waits for a lock for a long time"
		p, other := w.client(), w.client()
		lock := p.NewLock(key)
		require.NoError(t, other.NewLock(key).Lock(w.ctx))
		ctx, cancel := context.WithCancel(w.ctx)
		var waits []<-chan error
		for range 3 {
			waits = append(waits, start(func() error { return lock.Lock(ctx) }))
		}
		synctest.Wait()
		time.Sleep(20 * time.Second)
		require.NoError(t, other.NewLock(key).Unlock(w.ctx)) // one of the three has the lock, and keeps it
		time.Sleep(11100 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, p.logged(said))
		assert.Equal(t, 2, p.logged("holder="+p.ID()))
		cancel()
		for _, result := range waits {
			<-result
		}
	})
}

func TestTheLogSaysThatALockNeverExpires(t *testing.T) {
	for ttl, lines := range map[time.Duration]int{0: 1, time.Hour: 0} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				w.HSet(key, "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:1", "1")
				if ttl > 0 {
					w.SetTTL(key, ttl)
				}
				mine := start(func() error { return p.NewLock(key).Lock(w.caller()) })
				time.Sleep(time.Minute)
				assert.Equal(t, 1, p.logged("rlock: a call waits for a lock for a long time"))
				assert.Equal(t, lines, p.logged(`expires="never: `))
				w.Del(key)
				require.NoError(t, <-mine)
			})
		})
	}
}
