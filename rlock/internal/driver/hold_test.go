package driver

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// holds takes the lock with a handle.
func holds(t *testing.T, l *NamedLock) Handle {
	t.Helper()
	h, err := l.Hold(t.Context(), t.Context(), request(contract.NewHandleOwner()))
	require.NoError(t, err)
	return h
}

// A guest has the lock while a level of the hold that it is a guest of is open, whatever other
// levels its owner has.
func TestAGuestNestsInTheHoldThatItIsAGuestOf(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		o, life := contract.NewOwner(), new(contract.Life)
		guest := contract.Owner{ID: o.ID, Guest: true}
		nests := func(within *contract.Life) error { return l.Take(t.Context(), Request{Owner: guest, Within: within}) }
		require.ErrorAs(t, nests(life), new(*contract.Outlived))
		h, err := l.Hold(t.Context(), t.Context(), Request{Owner: o, Life: life})
		require.NoError(t, err)
		require.NoError(t, l.Take(t.Context(), Request{Owner: o}))
		require.NoError(t, nests(life))
		require.ErrorAs(t, nests(new(contract.Life)), new(*contract.Outlived))
		require.NoError(t, h.Release(t.Context()))
		require.ErrorAs(t, nests(life), new(*contract.Outlived))
		require.NoError(t, l.Unlock(t.Context(), o))
		require.ErrorIs(t, l.Take(t.Context(), Request{Owner: o}), contract.ErrNotAcquired, "it does not nest beside a guest")
		require.NoError(t, l.Unlock(t.Context(), guest))
		f.isClean()
	})
}

// writes makes a guarded write.
func writes(t *testing.T, h Handle) <-chan error {
	return later(func() error {
		_, err := h.GuardedWrite(t.Context(), "return 1", nil, nil)
		return err
	})
}

// A write that is executed after its hold finds another tenure, also where the caller has left and
// the lock was released.
func TestALateGuardedWriteFindsAnotherTenure(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		f.gives(held, core.Write)
		l := f.join(nil).lock()
		h := holds(t, l)
		result := writes(t, h)
		require.NoError(t, h.Release(t.Context()))
		later := holds(t, l)
		f.deliver(-1)
		err := <-result
		require.ErrorIs(t, err, contract.ErrFenced)
		require.ErrorIs(t, err, contract.ErrNotHeld, "it was released")
		require.NoError(t, later.Err())
		require.NoError(t, later.Release(t.Context()))
		f.isClean()
	})
}

// Where a command must not be left behind it is carried on, and keeps its slot, when its caller has
// left.
func TestAGuardedWriteHasItsSlotUntilItsAnswer(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		w := f.clients[0]
		w.keeps = true
		h := holds(t, l)
		f.gives(held, core.Write)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := h.GuardedWrite(ctx, "return 1", nil, nil)
		require.ErrorIs(t, err, contract.ErrUnconfirmed)
		synctest.Wait()
		assert.EqualValues(t, 1, w.all.Asks.Count())
		f.deliver(-1)
		synctest.Wait()
		assert.Zero(t, w.all.Asks.Count())
		require.NoError(t, h.Release(t.Context()))
		f.isClean()
	})
}

// While readers go on another tenure may come below them: the write is sent again with that.
func TestAGuardedWriteOfAReaderFollowsItsTenure(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		f.givesNext(held, func(cmd *core.Command) bool { return cmd.Op == core.Write })
		c := f.join(nil)
		readers := c.lock().ForReaders()
		l := &readers
		left, stays := holds(t, l), holds(t, l)
		result := writes(t, stays)
		f.gives(lost, core.Write)
		_, err := left.GuardedWrite(t.Context(), "return 1", nil, nil)
		require.ErrorIs(t, err, contract.ErrUnconfirmed)
		f.gives(passes)
		require.NoError(t, left.Release(t.Context()))
		joins := holds(t, l) // by a ticket, whose tenure takes the levels over
		time.Sleep(time.Second)
		f.deliver(-1)
		require.NoError(t, <-result)
		assert.Equal(t, 3, f.count(core.Write))
		require.NoError(t, joins.Release(t.Context()))
		require.NoError(t, stays.Release(t.Context()))
		f.isClean()
	})
}

// A release that carries a guarded write, in each fate: what the caller learns, that the write is
// sent once, and that the lock is released. The next caller of the process never has it by a
// hand-off, which would leave the write out.
func TestTheFateOfAReleaseWithAGuardedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fate fate
		err  error
		ran  int
	}{
		"executed":           {passes, nil, 1},
		"not executed":       {lost, contract.ErrUnconfirmed, 0},
		"no answer":          {unheard, contract.ErrUnconfirmed, 1},
		"refused":            {refused, contract.ErrUnconfirmed, 0},
		"the carrier panics": {panicking, contract.ErrUnconfirmed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				f.givesNext(c.fate, func(cmd *core.Command) bool { return cmd.Carries })
				l := f.join(nil).lock()
				h := holds(t, l)
				o, next := takes(t.Context(), l)
				synctest.Wait()
				_, err := h.ReleaseWith(t.Context(), "return 1", nil, nil)
				require.ErrorIs(t, err, c.err)
				require.ErrorIs(t, h.Err(), contract.ErrNotHeld)
				require.NoError(t, <-next)
				f.mu.Lock()
				ran, carried := 0, 0
				for _, n := range f.wrote {
					ran += n
				}
				for i := range f.sent {
					if f.sent[i].Carries {
						carried++
					}
				}
				f.mu.Unlock()
				assert.Equal(t, c.ran, ran)
				assert.Equal(t, 1, carried, "one that has no answer is not sent again")
				require.NoError(t, l.Unlock(t.Context(), o))
				require.ErrorIs(t, h.Release(t.Context()), contract.ErrNotHeld)
				time.Sleep(time.Minute) // a release without an answer was repeated by then
				f.isClean()
			})
		})
	}
}

func TestAPassIsReadAsItWasWritten(t *testing.T) {
	owner := wire.OwnerText("01234567-89ab-8def-8123-456789abcdef:0")
	for _, p := range []Pass{
		{Kind: PlainKind, Owner: owner, Key: "lock:orders:42"},
		{Kind: FencedKind, Owner: owner, Token: 1<<64 - 1, Key: "a name with spaces"},
		{Kind: ReadWriteKind, Shared: true, Owner: owner, Key: " \n\xff"},
		{Kind: SemaphoreKind, Permits: 3, Owner: owner, Key: strings.Repeat("x", 64<<10)},
	} {
		text := p.String()
		assert.Regexp(t, "^[A-Za-z0-9_-]+$", text)
		got, err := ParsePass(text)
		require.NoError(t, err)
		assert.Equal(t, p, got)
	}
	for _, p := range []Pass{
		{Kind: kindCount, Owner: owner, Key: "x"}, {Kind: PlainKind, Shared: true, Owner: owner, Key: "x"},
		{Owner: wire.OwnerText(owner.Tenure() + "5"), Key: "x"}, {Owner: "unknown", Key: "x"},
	} {
		_, err := ParsePass(p.String())
		assert.ErrorIs(t, err, contract.ErrInvalidPass)
	}
	text := (&Pass{Kind: PlainKind, Owner: owner, Key: "lock:orders:42"}).String()
	for _, bad := range []string{
		"", strings.Replace(text, "1", "2", 1), text[:len(text)-1], text + "A", text[:20] + string(rune(text[20]^1)) + text[21:], text + strings.Repeat("A", 1<<20),
	} {
		_, err := ParsePass(bad)
		assert.ErrorIs(t, err, contract.ErrInvalidPass)
	}
}

// onOp gives the next command of that sort a fate.
func (f *fake) onOp(op core.Op, next fate) {
	f.givesNext(next, func(cmd *core.Command) bool { return cmd.Op == op })
}

// A pass takes one command, and a resume one: after a lost answer it finds its own tenure, and what
// a server refused that loads its data is sent again.
func TestAResumeIsSentAgainAfterALostAnswer(t *testing.T) {
	for kind := range KindID(kindCount) {
		for _, lose := range []fate{passes, unheard, lost, refused} {
			bubbleOf(t, kind, func(t *testing.T, f *fake) {
				if kind == SemaphoreKind {
					f.most = 2
				}
				here, there := f.join(nil), f.join(nil)
				h := holds(t, here.lock())
				text, err := h.Pass(t.Context(), time.Minute)
				require.NoError(t, err)
				require.ErrorIs(t, context.Cause(h.Context()), contract.ErrPassed)
				pass, err := ParsePass(text)
				require.NoError(t, err)
				assert.Equal(t, f.most, pass.Permits)
				assert.Equal(t, []core.Op{core.Acquire, core.Mirror}, f.ops(core.Acquire, core.Mirror, core.Leave, core.Unmark, core.Resume))
				f.onOp(core.Resume, lose)
				h, err = there.lock().Resume(t.Context(), t.Context(), request(contract.NewHandleOwner()), &pass)
				require.NoError(t, err)
				if lose == passes {
					assert.Equal(t, 1, f.count(core.Resume))
				}
				_, err = here.lock().Resume(t.Context(), t.Context(), request(contract.NewHandleOwner()), &pass)
				require.ErrorIs(t, err, contract.ErrNotPassed)
				time.Sleep(2 * time.Minute)
				require.True(t, Valid(h))
				require.NoError(t, h.Release(t.Context()))
			})
		}
	}
}

// A lock that was passed on stays in Redis: Close does not count it if Redis does not say that its
// mark was taken out.
func TestCloseDoesNotCountALockThatWasPassedOn(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		first, second := f.join(nil), f.join(nil)
		h := holds(t, first.lock())
		granted := later(func() error {
			h, err := second.lock().Hold(t.Context(), t.Context(), request(contract.NewHandleOwner()))
			if err == nil {
				f.gives(lost, core.Unmark)
				_, err = h.Pass(t.Context(), time.Minute)
			}
			return err
		})
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-granted)
		require.NoError(t, second.Close())
		assert.NotZero(t, f.count(core.Unmark))
		assert.Equal(t, 1, f.holders())
	})
}

// A lock that is left to its least hold is nothing to wait for, but the mark that the queue has of
// it is.
func TestCloseWaitsForTheMarkOfALeastHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		next := request(contract.NewHandleOwner())
		next.MinHold = time.Hour
		granted := make(chan Handle, 1)
		go func() {
			h, err := here.lock().Hold(t.Context(), t.Context(), next)
			assert.NoError(t, err)
			granted <- h
		}()
		time.Sleep(time.Second)
		require.NoError(t, h.Release(t.Context()))
		h = <-granted
		f.onOp(core.Unmark, lost)
		require.NoError(t, h.Release(t.Context()))
		synctest.Wait()
		require.Equal(t, 1, f.count(core.Unmark))
		begin := time.Now()
		require.NoError(t, here.Close())
		assert.Less(t, time.Since(begin), time.Second)
		assert.Equal(t, 2, f.count(core.Unmark))
		time.Sleep(time.Hour)
		f.isClean()
	})
}

// A gatedContext is a parent whose code makes the end of its children wait.
type gatedContext struct {
	context.Context
	waits *atomic.Bool
	gate  chan struct{}
}

func (c gatedContext) Value(key any) any {
	if c.waits.Load() {
		<-c.gate
	}
	return c.Context.Value(key)
}

// The context of a hold has ended before another owner can have the lock, also if that sends no
// command.
func TestTheContextOfAHoldEndsBeforeAnotherOwnerHasTheLock(t *testing.T) {
	for name, releases := range map[string]func(h Handle) error{
		"Release":      func(h Handle) error { return h.Release(context.Background()) },
		"ReleaseLater": func(h Handle) error { h.ReleaseLater(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
				l := f.join(nil).lock()
				readers, o := l.ForReaders(), contract.NewOwner()
				parent := gatedContext{t.Context(), new(atomic.Bool), make(chan struct{})}
				h, err := l.Hold(t.Context(), parent, request(o))
				require.NoError(t, err)
				require.NoError(t, readers.Take(t.Context(), request(o)), "after the release its owner reads")
				parent.waits.Store(true)
				released := later(func() error { return releases(h) })
				other := contract.NewOwner()
				require.ErrorIs(t, readers.Take(t.Context(), Request{Owner: other}), contract.ErrNotAcquired, "its context is about to end")
				close(parent.gate)
				require.NoError(t, <-released)
				require.Error(t, h.Context().Err())
				require.NoError(t, readers.Take(t.Context(), Request{Owner: other}))
				require.NoError(t, readers.Unlock(t.Context(), other))
				require.NoError(t, readers.Unlock(t.Context(), o))
				f.isClean()
			})
		})
	}
}
