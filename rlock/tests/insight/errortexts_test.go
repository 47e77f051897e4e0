package insight_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What errors tell a person.

func newPlain(c *rlock.Client) *rlock.Lock { return c.NewLock(testbed.Key) }

func newRead(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Read() }

func newWrite(c *rlock.Client) *rlock.Lock { return c.NewReadWriteLock(testbed.Key).Write() }

func TestARefusalNamesAReaderAndTheCallingGoroutine(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		c := w.NewClient().Client
		refused := func(lock *rlock.Lock) error {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Second))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
			return err
		}
		require.NoError(t, c.NewLock("ours").Do(w.Ctx, func(context.Context) error {
			assert.ErrorContains(t, refused(c.NewLock("ours")), "held by the calling goroutine: use the context of Do or of the Hold")
			return nil
		}))
		hold := testbed.Take(t, w.Ctx, newPlain(c))
		assert.ErrorContains(t, refused(newPlain(c)), "held by the calling goroutine: use the context of Do or of the Hold")
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newPlain(c)), "held by a Hold of this process") })
		require.NoError(t, hold.Release(w.Ctx))

		reader := testbed.Take(t, w.Ctx, newRead(c))
		testbed.Elsewhere(func() { assert.ErrorContains(t, refused(newWrite(c)), "held by a reader, a Hold of this process") })
		require.NoError(t, reader.Release(w.Ctx))
	})
}

func TestARefusalNamesTheProcessOfAnotherClientThatIsKnown(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	here, there := s.NewClient(), s.NewClient()
	hold := testbed.Take(t, s.Ctx, newPlain(there))
	refused := func() error {
		_, err := newPlain(here).Acquire(s.Ctx, rlock.WithWait(0))
		return err
	}
	require.ErrorContains(t, refused(), "held by "+inspect.Of(there).ID())
	state := testbed.Inspected(t, s.Ctx, here)
	require.ErrorContains(t, refused(), "held by "+state.Holders[0].Process.String()+", owner "+inspect.Of(there).ID())
	require.NoError(t, hold.Release(s.Ctx))
}

func TestAnOwnerThatIsAGoroutineIsNamedAsOne(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		err := w.NewClient().NewLock(testbed.Key).Unlock(t.Context())
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		assert.Regexp(t, `: goroutine \d+: `, err.Error())
	})
}
