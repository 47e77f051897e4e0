package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// tracksKeys lets Redis tell of changed keys. No renewal comes during a test.
func tracksKeys(c *Config) { c.TrackedKeys, c.Lease = 1, 24*time.Hour }

func (f *fake) isTracked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracked != nil
}

// change is what another client does to the key. Redis tells the client that tracks it, once.
func (f *fake) change(do func()) {
	f.mu.Lock()
	told := f.tracked
	f.tracked = nil
	do()
	f.mu.Unlock()
	if told != nil {
		told.changed(key)
	}
	synctest.Wait()
}

// The key of a hold that lasts is tracked by a mirror. That costs short holds nothing, and readers
// and permits have no key that only their holder changes.
func TestAKeyIsTrackedOnceItsHoldLasts(t *testing.T) {
	for name, c := range map[string]struct {
		kind    KindID
		reads   bool
		tracked bool
	}{
		"plain": {PlainKind, false, true}, "fair": {FairKind, false, true}, "fenced": {FencedKind, false, true},
		"write": {ReadWriteKind, false, true}, "read": {ReadWriteKind, true, false}, "permit": {SemaphoreKind, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, c.kind, func(t *testing.T, f *fake) {
				if c.kind == SemaphoreKind {
					f.most = 1
				}
				here := f.join(tracksKeys)
				l := here.lock()
				if c.reads {
					reader := l.ForReaders()
					l = &reader
				}
				for range 10 {
					h := holds(t, l)
					time.Sleep(trackAfter - time.Millisecond)
					require.NoError(t, h.Release(t.Context()))
				}
				require.Zero(t, f.count(core.Mirror))
				h := holds(t, l)
				time.Sleep(trackAfter + 10*time.Millisecond)
				assert.Equal(t, c.tracked, f.isTracked())
				time.Sleep(time.Hour)
				assert.Equal(t, map[bool]int{true: 1}[c.tracked], f.count(core.Mirror), "one mirror, if any")
				require.NoError(t, h.Release(t.Context()))
				assert.Zero(t, here.Tracked())
			})
		})
	}
}

// Each mirror changes the key, which ends its tracking: so each tracks it again.
func TestAKeyIsTrackedAgainByEachMirror(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(tracksKeys).lock()
		o := terms.NewOwner()
		require.NoError(t, l.Take(t.Context(), request(o)))
		time.Sleep(time.Second)
		for range 5 {
			require.NoError(t, l.Take(t.Context(), request(o)))
			time.Sleep(time.Second)
			require.True(t, f.isTracked(), "it is nested")
			require.NoError(t, l.Unlock(t.Context(), o))
			time.Sleep(time.Second)
			require.True(t, f.isTracked())
		}
		assert.Equal(t, 1+2*5, f.count(core.Mirror))
		require.NoError(t, l.Unlock(t.Context(), o))
	})
}

// A change of the key is a reason to ask. The mirror that asks does not track, so that one who
// changes the key all the time costs two mirrors a second.
func TestAChangeThatLeavesTheLockCostsTwoMirrorsASecond(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(tracksKeys).lock()
		h := holds(t, l)
		time.Sleep(time.Minute)
		require.Equal(t, 1, f.count(core.Mirror))
		for range 1_000 { // ten seconds
			f.change(func() {})
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 1+2*10, f.count(core.Mirror), 2)
		time.Sleep(time.Minute)
		assert.True(t, f.isTracked(), "the next change is told as well")
		require.True(t, Valid(h))
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestALostKeyThatIsTrackedIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(tracksKeys)
		h := holds(t, c.lock())
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.Tracked())
		begin := time.Now()
		f.change(func() { f.server.Holders = nil })
		<-h.Context().Done()
		assert.Zero(t, time.Since(begin), "by virtual time")
		require.ErrorIs(t, context.Cause(h.Context()), terms.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), terms.ErrLost)
		time.Sleep(time.Second)
		assert.Zero(t, c.Tracked(), "another key may be tracked")
	})
}

func TestNoMoreKeysAreTrackedThanTheConfigSays(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(tracksKeys)
		for _, l := range f.many(c, 2) {
			h := holds(t, l)
			time.Sleep(time.Minute)
			assert.EqualValues(t, 1, c.Tracked())
			defer func() { require.NoError(t, h.Release(t.Context())) }()
		}
	})
}
