package driver

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/monitor"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readWrite returns the two locks of the client.
func (c *Client) readWrite() (read, write *NamedLock) {
	write = c.lock()
	reader := write.ForReaders()
	return &reader, write
}

// The client knows better than Redis in which way it holds the lock, until Redis has confirmed that
// it was told.
func TestWhetherALockIsReadIsKnownBeforeRedisIsTold(t *testing.T) {
	for name, fate := range map[string]fate{"on its way": held, "the answer is late": late, "lost": lost} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
				read, write := f.join(nil).readWrite()
				o := contract.NewOwner()
				is := func(l *NamedLock) bool {
					locked, err := l.IsLocked(t.Context())
					require.NoError(t, err)
					return locked
				}
				require.NoError(t, write.Take(t.Context(), request(o)))
				f.givesNext(fate, func(cmd *core.Command) bool { return cmd.Op == core.Mirror })
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

// A red lock asks its parts for their state: a call that makes one attempt does not count as a
// waiter, and neither does a call that waits for a silent server.
func TestTheStateOfALockWhileACallAsksForIt(t *testing.T) {
	for _, wait := range []time.Duration{0, contract.Forever} {
		bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
			l, o := f.join(nil).lock(), contract.NewOwner()
			f.gives(held)
			asks := request(contract.NewOwner())
			asks.Wait = wait
			result := later(func() error { return l.Take(t.Context(), asks) })
			assert.Equal(t, wait > 0, l.State(o).Taken)
			time.Sleep(contract.Silence)
			silent := l.State(o)
			assert.True(t, silent.IsSilent())
			assert.False(t, silent.Taken)
			f.gives(passes)
			f.deliver(-1)
			require.NoError(t, <-result)
			assert.True(t, l.State(o).Taken)
			assert.False(t, l.State(asks.Owner).Taken)
		})
	}
}

// A grant that no caller waits for is given back with all its permits, by its whole text, also
// after another client's look has asked for it.
func TestPermitsThatNoCallWantsAreGivenBackTogether(t *testing.T) {
	for verb, tell := range map[string]func(*Client, string){
		"granted": func(c *Client, text string) { c.hearTicketMessage(c.NewName(SemaphoreKind, key), "+"+text+"   "+key) },
		"shown": func(c *Client, text string) {
			c.hearClientMessage(wire.ClientMessage{Verb: wire.Shown, Owner: wire.OwnerText(text), Text: "s" + key}.String())
		},
	} {
		t.Run(verb, func(t *testing.T) {
			bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
				f.most = 4
				c := f.join(nil)
				plain := c.textOf(core.ID{Client: wire.ThisClient, N: 1 << 63}, 77, 0)
				noted := c.textOf(core.ID{Client: wire.ThisClient, N: 1<<63 + 1}, 77, 0).WithNote(wire.Note{Text: "job 7", At: time.Now(), Waits: true})
				for _, owner := range []wire.OwnerText{plain, noted} {
					text := string(owner.WithMore(2))
					require.True(t, strings.HasSuffix(text, "*3"))
					tell(c, text)
					time.Sleep(time.Minute)
					f.mu.Lock()
					assert.Equal(t, text, f.texts[len(f.texts)-1])
					f.mu.Unlock()
				}
				assert.Equal(t, []core.OwnerID{77, 77}, f.released(77))
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
		if wire.OwnerText(f.texts[i]).OwnerID() == uint64(o) {
			owners = append(owners, o)
		}
	}
	return owners
}

// More calls than are read while the mutex is held once, some of which go while they are read.
func TestALookReadsAllThatStaysInPieces(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)

		held := c.lock()
		o, got := takes(t.Context(), held)
		require.NoError(t, <-got)
		const calls = 2*atOnce + 100
		first, leave := context.WithCancel(t.Context())
		rest, end := context.WithCancel(t.Context())
		var results []<-chan error
		stay := make(map[contract.Owner]bool)
		for i := range calls {
			ctx := first
			if i >= 50 {
				ctx = rest
			}
			if i%10 == 0 {
				time.Sleep(time.Millisecond) // the others begin at the same time
			}
			w, result := takes(ctx, held)
			stay[w] = i >= 50
			results = append(results, result)
		}
		synctest.Wait()
		assert.Len(t, monitor.Uses(c, true), 1+calls)
		assert.Len(t, monitor.Uses(c, false), 1)

		pieces, seen := 0, make(map[contract.Owner]int)
		c.ReadLocks(contract.Look{Holds: true, Waits: true}, func(v *contract.View) {
			assert.LessOrEqual(t, len(v.Waits), atOnce)
			assert.Equal(t, 1, held.Depth(o), "no mutex is held")
			for _, w := range v.Waits {
				seen[w.Owner]++
			}
			if len(v.Waits) > 0 {
				if pieces++; pieces == 1 {
					leave()
					synctest.Wait()
				}
			}
		})
		assert.Equal(t, 3, pieces)
		for w, stays := range stay {
			if stays {
				assert.Equal(t, 1, seen[w])
			}
		}
		end()
		for _, result := range results {
			require.Error(t, <-result)
		}
		require.NoError(t, held.Unlock(t.Context(), o))
	})
}

// Each owner of a permit has a lock of its own, and a call that waits for it.
func TestALookReadsTheCallsOfEachLock(t *testing.T) {
	bubbleOf(t, SemaphoreKind, func(t *testing.T, f *fake) {
		f.most = 1
		c := f.join(nil)
		h := holds(t, c.lock())
		for range 3 {
			o, got := takes(t.Context(), c.lock())
			synctest.Wait()
			assert.Len(t, monitor.Uses(c, true), 2)
			require.NoError(t, h.Release(t.Context()))
			require.NoError(t, <-got)
			require.NoError(t, c.lock().Unlock(t.Context(), o))
			h = holds(t, c.lock())
		}
	})
}
