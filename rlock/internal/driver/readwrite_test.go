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

// readWrite returns the two locks of the client.
func (c *Client) readWrite() (read, write *Lock) {
	write = c.lock()
	reader := write.ForReaders()
	return &reader, write
}

// later returns what becomes of a call, which goes on.
func later(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	synctest.Wait()
	return result
}

func TestReadersOfAClientShareATenure(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		read, write := f.join(nil).readWrite()
		_, there := f.join(nil).readWrite()
		var readers []terms.Owner
		for range 5 {
			o := terms.NewOwner()
			readers = append(readers, o)
			require.NoError(t, read.Take(t.Context(), request(o)))
			require.NoError(t, read.Take(t.Context(), request(o)), "it nests")
		}
		require.ErrorIs(t, write.Take(t.Context(), request(readers[0])), terms.ErrUpgrade)
		require.ErrorIs(t, there.Take(t.Context(), Request{Owner: terms.NewOwner()}), terms.ErrNotAcquired)
		assert.Equal(t, 2, read.Depth(readers[0]))
		assert.Zero(t, write.Depth(readers[0]))
		for _, o := range readers {
			require.NoError(t, read.Unlock(t.Context(), o))
			require.NoError(t, read.Unlock(t.Context(), o))
			require.ErrorIs(t, read.Unlock(t.Context(), o), terms.ErrNotHeld)
			require.ErrorIs(t, write.Unlock(t.Context(), o), terms.ErrNotHeld)
		}
		assert.Equal(t, []core.Op{core.Acquire, core.Acquire, core.Leave}, f.ops(core.Acquire, core.Leave))
		f.isClean()
	})
}

// The fixed lease of a reader ends for that one alone, also while no command has an answer.
func TestAReadersFixedLeaseEndsByTheClock(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		read, _ := f.join(nil).readWrite()
		long := terms.NewOwner()
		require.NoError(t, read.Take(t.Context(), request(long)))
		short, err := read.Hold(t.Context(), t.Context(), Request{Owner: terms.NewHandleOwner(), Wait: terms.Forever, Lease: 3 * time.Second})
		require.NoError(t, err)
		f.fate = func(uint32, *core.Command) fate { return lost }
		began := time.Now()
		<-short.Context().Done()
		assert.InDelta(t, 3*time.Second, time.Since(began), float64(50*time.Millisecond))
		require.ErrorIs(t, short.Err(), terms.ErrLost)
		assert.Equal(t, 1, read.Depth(long))
		f.mu.Lock()
		f.fate = nil
		f.mu.Unlock()
		time.Sleep(time.Minute)
		assert.Equal(t, 1, read.Depth(long))
		require.NoError(t, read.Unlock(t.Context(), long))
		f.isClean()
	})
}

// A writer that reads as well, and unlocks the write lock first, goes on as a reader. Others may read when Redis was
// told, whatever becomes of the first commands that tell it.
func TestADowngradeLetsReadersOfOthersIn(t *testing.T) {
	for name, fate := range map[string]fate{"told": passes, "the mirror is lost": lost, "its answer is lost": unheard, "its answer is late": late} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
				read, write := f.join(nil).readWrite()
				there, _ := f.join(nil).readWrite()
				o, other := terms.NewOwner(), terms.NewOwner()
				require.NoError(t, write.Take(t.Context(), request(o)))
				beside := later(func() error { return read.Take(t.Context(), request(terms.NewOwner())) })
				reads := later(func() error { return there.Take(t.Context(), request(other)) })
				require.NoError(t, read.Take(t.Context(), request(o)))
				time.Sleep(time.Second)
				f.onMirror(fate)
				require.NoError(t, write.Unlock(t.Context(), o))
				require.NoError(t, <-beside, "a reader of this client waits for no command")
				if fate == late {
					time.Sleep(100 * time.Millisecond)
					f.deliver(-1)
				}
				began := time.Now()
				require.NoError(t, <-reads)
				assert.Less(t, time.Since(began), claimLease+time.Second)
				if fate == passes {
					assert.Zero(t, time.Since(began))
				}
				assert.Equal(t, 1, read.Depth(o))
				require.NoError(t, there.Unlock(t.Context(), other))
			})
		})
	}
}

// onMirror gives the next mirror that fate.
func (f *fake) onMirror(next fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = func(_ uint32, cmd *core.Command) fate {
		if cmd.Op != core.Mirror {
			return passes
		}
		f.fate = nil
		return next
	}
}

// The client knows better than Redis in which way it holds the lock, until Redis has confirmed that it was told.
func TestWhetherALockIsReadIsKnownBeforeRedisIsTold(t *testing.T) {
	for name, fate := range map[string]fate{"on its way": held, "the answer is late": late, "lost": lost} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
				read, write := f.join(nil).readWrite()
				o := terms.NewOwner()
				is := func(l *Lock) bool {
					locked, err := l.IsLocked(t.Context())
					require.NoError(t, err)
					return locked
				}
				require.NoError(t, write.Take(t.Context(), request(o)))
				f.onMirror(fate)
				require.NoError(t, read.Take(t.Context(), request(o)))
				assert.True(t, is(read))
				assert.True(t, is(write))
				synctest.Wait()
				assert.True(t, is(read))
				require.NoError(t, write.Unlock(t.Context(), o))
				assert.True(t, is(read))
				assert.False(t, is(write))
			})
		})
	}
}

// A writer waits until the last reader of its client has left, and a reader that comes later waits behind it.
func TestAReaderWaitsBehindAWriter(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		read, write := f.join(nil).readWrite()
		first, writer, late := terms.NewOwner(), terms.NewOwner(), terms.NewOwner()
		require.NoError(t, read.Take(t.Context(), request(first)))
		ctx, leave := context.WithCancel(t.Context())
		leaves := later(func() error { return write.Take(ctx, request(terms.NewOwner())) })
		writes := later(func() error { return write.Take(t.Context(), request(writer)) })
		reads := later(func() error { return read.Take(t.Context(), request(late)) })
		assert.Empty(t, reads)
		leave()
		require.ErrorIs(t, <-leaves, context.Canceled)
		require.NoError(t, read.Unlock(t.Context(), first))
		require.NoError(t, <-writes)
		assert.Empty(t, reads)
		require.NoError(t, write.Unlock(t.Context(), writer))
		require.NoError(t, <-reads)
		require.NoError(t, read.Unlock(t.Context(), late))
		f.isClean()
	})
}
