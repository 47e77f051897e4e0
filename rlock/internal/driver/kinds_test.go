package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/diag"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
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

// holdPermits takes n permits, each with a handle.
func holdPermits(t *testing.T, l *Lock, n int) (holds []Handle) {
	t.Helper()
	for range n {
		h, err := l.Hold(t.Context(), t.Context(), Request{Owner: terms.NewHandleOwner(), Wait: terms.Forever})
		require.NoError(t, err)
		holds = append(holds, h)
	}
	return holds
}

func TestEachOwnerHasAPermitOfItsOwn(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 3
		c := f.join(nil)
		l := c.lock()
		o := terms.NewOwner()
		require.NoError(t, l.Take(t.Context(), request(o)))
		require.NoError(t, l.Take(t.Context(), request(o)), "it nests")
		holds := holdPermits(t, l, 2)
		require.ErrorIs(t, l.Take(t.Context(), Request{Owner: terms.NewOwner()}), terms.ErrNotAcquired)
		assert.Equal(t, 2, l.Depth(o))
		assert.EqualValues(t, 3, c.Counts().Held)
		assert.Len(t, diag.Uses(c, true), 3)
		for range 2 {
			require.NoError(t, l.Unlock(t.Context(), o))
		}
		require.ErrorIs(t, l.Unlock(t.Context(), o), terms.ErrNotHeld)
		for _, h := range holds {
			assert.True(t, Valid(h))
			require.NoError(t, h.Release(t.Context()))
		}
		f.isClean()
	})
}

// Those that wait for permits of one name share its subscription, and a message is for the lock of one owner.
func TestWaitersOfASemaphoreShareASubscription(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		const waiters = 20
		f.most = 2
		c := f.join(nil)
		holds := holdPermits(t, c.lock(), f.most)
		var waits []<-chan error
		var owners []terms.Owner
		for range waiters {
			o, result := takes(t.Context(), c.lock())
			synctest.Wait()
			owners, waits = append(owners, o), append(waits, result)
		}
		w := c.wire.(*fakeWire)
		assert.Len(t, w.subs[key], 1)
		for _, h := range holds {
			require.NoError(t, h.Release(t.Context()))
		}
		looks := f.count(core.Look)
		for i, result := range waits {
			require.NoError(t, <-result, "in their order")
			require.NoError(t, c.lock().Unlock(t.Context(), owners[i]))
		}
		assert.Equal(t, looks, f.count(core.Look), "each is granted by its message")
		f.isClean()
		assert.Empty(t, w.subs[key])
	})
}

// A message may grant a permit to a ticket that its caller has left, or that this client has never had.
func TestAPermitThatNoCallWantsIsGivenBack(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 1
		here, there := f.join(nil), f.join(nil)
		held := holdPermits(t, there.lock(), 1)[0]
		_, waits := takes(t.Context(), here.lock())
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		_, leaves := takes(ctx, here.lock())
		synctest.Wait()
		f.mu.Lock()
		left := f.sent[len(f.sent)-1].ID
		f.mu.Unlock()
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Leave && cmd.ID == left {
				return lost // so that it is granted the permit in its turn
			}
			return passes
		}
		leave()
		require.ErrorIs(t, <-leaves, context.Canceled)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, <-waits)
		f.mu.Lock()
		f.fate = nil
		f.mu.Unlock()
		here.hear(here.lock().Name, "+"+here.textOf(core.ID{Client: wire.ThisClient, N: 1 << 63}, 77, 0)+"   "+key)
		s := here.shardOfKey(key)
		s.glance(func() { assert.LessOrEqual(t, len(s.pools), 1) })
		time.Sleep(time.Minute)
		assert.Equal(t, []core.OwnerID{77}, f.released(77))
		for l := range s.named(key) {
			require.NoError(t, here.lock().Unlock(t.Context(), terms.Owner{ID: uint64(l.owner)}))
		}
		f.isClean()
	})
}

// Several permits are one hold: one command takes them, one gives them back, and both name their number.
func TestSeveralPermitsAreTakenAndGivenBackByOneCommand(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 4
		c := f.join(nil)
		c.lock().Name.Permits = f.most
		h, err := c.lock().Hold(t.Context(), t.Context(), Request{Owner: terms.NewHandleOwner(), More: 2})
		require.NoError(t, err)
		one := holdPermits(t, c.lock(), 1)[0]
		_, err = c.lock().Hold(t.Context(), t.Context(), Request{Owner: terms.NewHandleOwner()})
		require.ErrorIs(t, err, terms.ErrNotAcquired)
		time.Sleep(time.Minute)
		assert.True(t, Valid(h), "it is renewed")
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, one.Release(t.Context()))
		f.mu.Lock()
		wide := f.sent[0].ID
		for _, cmd := range f.sent {
			assert.Equal(t, cmd.ID == wide, cmd.More == 2, cmd.Op)
		}
		require.Len(t, f.texts, 2)
		assert.True(t, strings.HasSuffix(f.texts[0], "*3"), f.texts[0])
		assert.NotContains(t, f.texts[1], "*")
		f.mu.Unlock()
		assert.Equal(t, 2, f.count(core.Leave))
		f.isClean()
	})
}

// A grant that no caller waits for is given back with all its permits, also after another client's look has asked for it.
func TestPermitsThatNoCallWantsAreGivenBackTogether(t *testing.T) {
	for verb, tell := range map[string]func(*Client, string){
		"granted": func(c *Client, text string) { c.hear(c.NewName(SemaphoreKind, key), "+"+text+"   "+key) },
		"shown": func(c *Client, text string) {
			c.heard(wire.ClientMessage{Verb: wire.Shown, Owner: text, Text: "s" + key}.String())
		},
	} {
		t.Run(verb, func(t *testing.T) {
			bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
				f.most = 4
				c := f.join(nil)
				text := c.textOf(core.ID{Client: wire.ThisClient, N: 1 << 63}, 77, 2)
				require.True(t, strings.HasSuffix(text, ":77*3"))
				tell(c, text)
				time.Sleep(time.Minute)
				assert.Equal(t, []core.OwnerID{77}, f.released(77))
				f.mu.Lock()
				assert.Equal(t, text, f.texts[len(f.texts)-1])
				f.mu.Unlock()
				f.isClean()
			})
		})
	}
}

// released returns the owner of each release that names that one.
func (f *fake) released(o core.OwnerID) (owners []core.OwnerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.texts {
		if ownerIn(f.texts[i]) == o {
			owners = append(owners, o)
		}
	}
	return owners
}

// A permit that is lost is lost for one owner.
func TestALostPermitIsItsOwnersAlone(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 2
		l := f.join(nil).lock()
		holds := holdPermits(t, l, 2)
		f.mu.Lock()
		f.server.Holders = f.server.Holders[:1]
		kept := f.owners[f.server.Holders[0].ID]
		f.mu.Unlock()
		time.Sleep(time.Minute)
		for _, h := range holds {
			if core.OwnerID(h.(*hold).owner.ID) == kept {
				require.NoError(t, h.Err())
				require.NoError(t, h.Release(t.Context()))
			} else {
				require.ErrorIs(t, h.Err(), terms.ErrLost)
				require.ErrorIs(t, h.Release(t.Context()), terms.ErrLost)
			}
		}
		f.isClean()
	})
}

// Clients may know of different numbers of permits. One that knows of fewer than are held frees one, and grants it to none.
func TestAWaiterThatKnowsOfMorePermitsIsGrantedAFreeOneAtOnce(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		here, there, other := f.join(nil), f.join(nil), f.join(nil)
		few, many := NewSemaphore(here, key, 2), NewSemaphore(there, key, 4)
		fewToo := NewSemaphore(other, key, 2)
		holds := append(holdPermits(t, &few, 2), holdPermits(t, &many, 2)...)
		first, firstWaits := takes(t.Context(), &fewToo)
		synctest.Wait()
		second, waits := takes(t.Context(), &many)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, holds[0].Release(t.Context()))
		require.NoError(t, <-firstWaits, "it came first")
		require.NoError(t, holds[1].Release(t.Context()))
		require.NoError(t, <-waits)
		assert.Zero(t, time.Since(began))
		require.NoError(t, fewToo.Unlock(t.Context(), first))
		require.NoError(t, many.Unlock(t.Context(), second))
		for _, h := range holds[2:] {
			require.NoError(t, h.Release(t.Context()))
		}
		f.isClean()
	})
}
