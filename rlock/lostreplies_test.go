package rlock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A command or its reply is lost with the connection, and the client cannot know which. In
// either case no lock stays behind without a holder.

func lost(t *testing.T, kind string, run func(t *testing.T, w *world, p *testClient, lose func())) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					p, me := w.client(), w.caller()
					lock := p.NewLock(key)
					require.NoError(t, lock.Lock(me)) // the scripts are known
					require.NoError(t, lock.Lock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, lock.Unlock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, lock.Unlock(me))
					run(t, w, p, func() {
						left := n
						p.net.Rule(func(f network.Frame) network.Fate {
							if left == 0 || f.Stage != stage || !isScript(f, kind) {
								return network.Pass
							}
							left--
							return network.Cut
						})
					})
					time.Sleep(time.Minute)
					assert.Empty(t, w.Keys())
				})
			})
		}
	}
}

func TestAnAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lost(t, "acquired", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me := p.NewLock(key), w.caller()
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, lock.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.True(t, lock.IsHeld(me))
		require.Len(t, w.fields(key), 1)
		assert.Equal(t, "1", w.HGet(key, w.fields(key)[0]))
		require.NoError(t, lock.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestOneAttemptWithoutAReplyHoldsNothing(t *testing.T) {
	lost(t, "acquired", func(t *testing.T, w *world, p *testClient, lose func()) {
		lose()
		ok, err := p.NewLock(key).TryLock(w.caller())
		require.Error(t, err)
		assert.False(t, ok)
		time.Sleep(time.Second)
		assert.Empty(t, w.Keys(), "a possible grant is not released")
	})
}

func TestAMirrorWithoutAReplyIsSentAgain(t *testing.T) {
	lost(t, "mirrored", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me := p.NewLock(key), w.caller()
		require.NoError(t, lock.Lock(me))
		lose()
		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(2 * time.Second)
		require.Len(t, w.fields(key), 1)
		assert.Equal(t, "3", w.HGet(key, w.fields(key)[0]), "the count is set, not incremented")
		time.Sleep(5 * time.Minute)
		for range 3 {
			require.NoError(t, lock.Unlock(me))
		}
	})
}

func TestAHandOffWithoutAReplyIsMirroredAgain(t *testing.T) {
	lost(t, "mirrored", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me, them := p.NewLock(key), rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(w.ctx, me), rlock.WithOwner(w.ctx, them)
		require.NoError(t, lock.Lock(mine))
		result := start(func() error { return lock.Lock(theirs) })
		require.True(t, pending(result))
		lose()
		require.NoError(t, lock.Unlock(mine))
		require.NoError(t, <-result)
		time.Sleep(2 * time.Second)
		require.Len(t, w.fields(key), 1)
		assert.Contains(t, w.fields(key)[0], ":"+fmt.Sprint(them))
		require.NoError(t, lock.Unlock(theirs))
	})
}

func TestAReleaseWithoutAReplyIsReportedAndSentAgain(t *testing.T) {
	lost(t, "released", func(t *testing.T, w *world, p *testClient, lose func()) {
		lock, me, them := p.NewLock(key), w.caller(), w.caller()
		require.NoError(t, lock.Lock(me))
		lose()
		within(t, 0, 0, func() { require.ErrorIs(t, lock.Unlock(me), rlock.ErrUnconfirmed) })
		within(t, 0, time.Second, func() { require.NoError(t, lock.Lock(them)) })
		time.Sleep(5 * time.Minute)
		assert.True(t, lock.IsHeld(them), "the repeated release must not end the next tenure")
		require.NoError(t, lock.Unlock(them))
	})
}

// A mirror arrives from a dead connection long after the end of its tenure, when another
// client has the lock.
func TestAMirrorThatArrivesTooLateTouchesNoOtherLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me, them := w.client(), w.caller(), w.caller()
		lock := p.NewLock(key)
		require.NoError(t, lock.Lock(me))
		time.Sleep(9 * time.Second)
		p.net.Rule(scripts(1, network.Hold, network.Request, "mirrored"))
		time.Sleep(6 * time.Second)
		p.net.Rule(nil)
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, lock.LockFor(them, 10*time.Second))
		before := w.Dump()
		left := w.ttl(key)
		p.net.Deliver()
		require.True(t, lock.IsHeld(them))
		assert.Equal(t, before, w.Dump())
		assert.Equal(t, left, w.ttl(key))
		require.NoError(t, lock.Unlock(them))
		assert.Empty(t, w.Keys())
	})
}

// Nor does a late forced unlock, which frees the lock only from the holder that it found.
func TestAForceUnlockThatArrivesTooLateTouchesNoOtherLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, me, them := w.client(), w.client(), w.caller(), w.caller()
		theirs := other.NewLock(key)
		require.NoError(t, theirs.Lock(me))
		p.net.Rule(scripts(1, network.Hold, network.Request, "released"))
		freed, err := p.NewLock(key).ForceUnlock(w.ctx)
		require.Error(t, err)
		assert.False(t, freed)
		require.NoError(t, theirs.Unlock(me))
		require.NoError(t, theirs.Lock(them))
		p.net.Heal()
		time.Sleep(time.Minute)
		assert.True(t, theirs.IsHeld(them))
		require.NoError(t, theirs.Unlock(them))
	})
}
