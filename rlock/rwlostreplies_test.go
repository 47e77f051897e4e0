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

// A script of a ReadWriteLock, or its reply, is lost with the connection, once or twice.

func lostRW(t *testing.T, kind string, run func(t *testing.T, w *world, l, there rwClient, lose func())) {
	for stage, name := range map[network.Stage]string{network.Request: "never arrived", network.Reply: "was executed"} {
		for n := 1; n <= 2; n++ {
			t.Run(fmt.Sprintf("%s, %d times", name, n), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					l, there, me := w.rwClient(), w.rwClient(), w.caller()
					require.NoError(t, l.write.Lock(me)) // the scripts are known
					require.NoError(t, l.write.Lock(me))
					time.Sleep(time.Millisecond)
					require.NoError(t, l.write.Unlock(me))
					require.NoError(t, l.write.Unlock(me))
					run(t, w, l, there, func() {
						left := n
						l.net.Rule(func(f network.Frame) network.Fate {
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

// counts returns the hash without the UUIDs.
func (w *world) counts() map[string]string {
	counts := map[string]string{}
	for _, field := range w.fields(key) {
		id := field
		if len(field) > 37 {
			id = field[37:]
		}
		counts[id] = w.HGet(key, field)
	}
	return counts
}

func TestAReadersAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lostRW(t, "acquired", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		other, owner := w.caller(), rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		require.NoError(t, there.read.Lock(other))
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, l.read.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.Len(t, w.fields(key), 3, "mode, and two readers")
		assert.Len(t, w.Keys(), 3)
		assert.Equal(t, "1", w.counts()[fmt.Sprint(owner)])
		require.NoError(t, there.read.Unlock(other))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAWritersAcquireWithoutAReplyIsAskedAgainAndHeldOnce(t *testing.T) {
	lostRW(t, "acquired", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		owner := rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		lose()
		within(t, 0, 2*time.Second, func() { require.NoError(t, l.write.Lock(me)) })
		time.Sleep(5 * time.Minute)
		assert.Equal(t, map[string]string{"mode": "write", fmt.Sprint(owner) + ":write": "1"}, w.counts())
		require.NoError(t, l.write.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestADowngradeWithoutAReplyIsMirroredAgainAndDoneOnce(t *testing.T) {
	lostRW(t, "mirrored", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		owner := rlock.NewOwner()
		me := rlock.WithOwner(w.ctx, owner)
		require.NoError(t, l.write.Lock(me))
		lose()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.write.Lock(me))
		time.Sleep(3 * time.Second)
		id := fmt.Sprint(owner)
		assert.Equal(t, map[string]string{"mode": "write", id + ":write": "2", id: "1"}, w.counts())
		require.NoError(t, l.write.Unlock(me))
		time.Sleep(time.Second)
		reader := start(func() error { return there.read.Do(w.caller(), nothing) })
		require.True(t, pending(reader))
		lose()
		require.NoError(t, l.write.Unlock(me))
		within(t, 0, 3*time.Second, func() { require.NoError(t, <-reader) })
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]string{"mode": "read", id: "1"}, w.counts())
		assert.True(t, l.read.IsHeld(me))
		require.NoError(t, l.read.Unlock(me))
	})
}

func TestAReadersReleaseWithoutAReplyIsReportedAndSentAgain(t *testing.T) {
	lostRW(t, "released", func(t *testing.T, w *world, l, there rwClient, lose func()) {
		me, other := w.caller(), w.caller()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, there.read.Lock(other))
		writer := w.caller()
		waiting := start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(waiting))
		lose()
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrUnconfirmed)
		time.Sleep(5 * time.Minute)
		assert.True(t, there.read.IsHeld(other), "the repeated release must not end the next tenure")
		assert.True(t, pending(waiting))
		assert.Len(t, w.fields(key), 2)
		require.NoError(t, there.read.Unlock(other))
		within(t, 0, 5*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, l.write.Unlock(writer))
	})
}

// A mirror of a writer arrives from a dead connection when the tenure belongs to a reader,
// and another owner reads: no reader may overlap a writer.
func TestAWritersMirrorThatArrivesTooLateChangesNoReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me, other := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		time.Sleep(9 * time.Second)
		l.net.Rule(scripts(1, network.Hold, network.Request, "mirrored"))
		time.Sleep(6 * time.Second)
		l.net.Rule(nil)
		require.NoError(t, l.write.Unlock(me))
		time.Sleep(time.Second)
		require.NoError(t, there.read.Lock(other))
		before := w.Dump()
		l.net.Deliver()
		time.Sleep(time.Second)
		assert.Equal(t, before, w.Dump())
		assert.True(t, l.read.IsHeld(me))
		require.NoError(t, there.read.Unlock(other))
		require.NoError(t, l.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}
