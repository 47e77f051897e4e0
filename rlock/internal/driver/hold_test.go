package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A guest has the lock while a level of the hold that it is a guest of is open, whatever its life says: that ends a moment
// before the level or, at a loss, after it.
func TestAGuestNestsInTheHoldThatItIsAGuestOf(t *testing.T) {
	for _, permits := range []bool{false, true} {
		kind := PlainKind
		if permits {
			kind = SemaphoreKind
		}
		bubbleOf(t, kind, func(t *testing.T, f *fake) {
			f.most = 1
			l := f.join(nil).lock()
			o, life, other := terms.NewOwner(), new(terms.Life), new(terms.Life)
			guest := terms.Owner{ID: o.ID, Guest: true}
			call := func(within *terms.Life) error {
				return l.Take(t.Context(), Request{Owner: guest, Within: within})
			}

			require.ErrorIs(t, call(life), terms.ErrOutlived)
			h, err := l.Hold(t.Context(), t.Context(), Request{Owner: o, Life: life, Wait: terms.Forever})
			require.NoError(t, err)
			require.NoError(t, l.Take(t.Context(), Request{Owner: o}))
			require.NoError(t, call(life))
			require.ErrorIs(t, call(other), terms.ErrOutlived)

			sent := f.count(core.Acquire)
			require.NoError(t, h.Release(t.Context()))
			assert.True(t, life.IsOver())
			require.ErrorIs(t, call(life), terms.ErrOutlived, "levels of the owner are open, and its guest's, but not the hold's")
			assert.Equal(t, 1, l.Depth(o))
			require.NoError(t, l.Unlock(t.Context(), o))
			require.ErrorIs(t, l.Unlock(t.Context(), o), terms.ErrNotHeld)
			assert.Zero(t, l.Depth(o))
			require.ErrorIs(t, l.Take(t.Context(), Request{Owner: o}), terms.ErrNotAcquired, "it does not nest beside a guest")
			assert.Equal(t, sent, f.count(core.Acquire), "no command")
			require.NoError(t, l.Unlock(t.Context(), guest))
			require.ErrorIs(t, l.Unlock(t.Context(), guest), terms.ErrNotHeld)
			f.isClean()
		})
	}
}

// A whole may lack a part, so that guests of it leave it to their whole whether they may have one.
func TestAPartForAGuestIsTakenInAnyCase(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		guest := terms.Owner{ID: terms.NewOwner().ID, Guest: true}
		whole := &terms.Whole{}
		h, err := l.Hold(t.Context(), t.Context(), Request{Owner: guest, Within: new(terms.Life), Life: new(terms.Life), Whole: whole})
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		f.isClean()
	})
}

// A tally counts the events of the levels that were told as the beginning of a hold, and of those told as nested.
type tally struct{ begun, ended, nested, unnested int }

func (n *tally) observer() *terms.Observer {
	count := func(begin, nest *int) terms.Hook {
		return func(_ context.Context, e terms.Event) {
			if e.Way == terms.ByNesting {
				*nest++
			} else {
				*begin++
			}
		}
	}
	return &terms.Observer{
		Acquired: count(&n.begun, &n.nested), Released: count(&n.ended, &n.unnested), Lost: count(&n.ended, &n.unnested),
		Missed: func(int) {}, Closed: func() {},
	}
}

// An owner takes the lock by itself and as a part of others, and gives the levels back in any order.
func TestTheEventsOfAnOwnerBalanceBesideItsPartsOfOtherLocks(t *testing.T) {
	for seed := range uint64(200) {
		bubble(t, func(t *testing.T, f *fake) {
			n, random := new(tally), rand.New(rand.NewPCG(seed, 0))
			c := f.join(func(c *Config) { c.Observer = n.observer() })
			l, o := c.lock(), terms.NewOwner()
			direct := 0
			var open []Handle
			for range 5 {
				req := request(o)
				if random.IntN(2) == 0 {
					req.Whole = &terms.Whole{Name: "whole"}
				} else {
					direct++
				}
				h, err := l.Hold(t.Context(), t.Context(), req)
				require.NoError(t, err)
				open = append(open, h)
				if random.IntN(2) == 0 {
					i := random.IntN(len(open))
					require.NoError(t, open[i].Release(t.Context()))
					open = append(open[:i], open[i+1:]...)
				}
				assert.Equal(t, int64(min(len(open), 1)), c.Counts().Held)
			}
			lost := seed%2 == 0 && len(open) > 0
			if lost {
				time.Sleep(time.Second)
				f.mu.Lock()
				f.server.Holders, f.server.Mode, f.server.Ends = nil, server.NoMode, 0
				f.mu.Unlock()
				time.Sleep(20 * time.Second)
				synctest.Wait()
			}
			for _, i := range random.Perm(len(open)) {
				if err := open[i].Release(t.Context()); !lost {
					require.NoError(t, err)
				}
				assert.LessOrEqual(t, c.Counts().Held, int64(1))
			}
			synctest.Wait()
			assert.Equal(t, direct, n.begun+n.nested, "each level that is no part")
			assert.Equal(t, n.begun, n.ended, "the holds that were told")
			if !lost {
				assert.Equal(t, n.nested, n.unnested, "the levels in them")
			}
			assert.Zero(t, c.Counts().Held)
		})
	}
}

// holds takes the lock with a handle.
func holds(t *testing.T, l *Lock) Handle {
	t.Helper()
	h, err := l.Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
	require.NoError(t, err)
	return h
}

// The write of a hold, in each fate: what the caller learns, and that the hold goes on. The next caller of the process never
// begins in its tenure.
func TestTheFateOfAGuardedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fate fate
		err  error
	}{
		"executed":               {passes, nil},
		"not executed":           {lost, terms.ErrUnconfirmed},
		"no answer":              {unheard, terms.ErrUnconfirmed},
		"the carrier panics":     {panicking, terms.ErrUnconfirmed},
		"held until the end":     {held, context.DeadlineExceeded},
		"its answer is too late": {late, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				f.fate = func(_ uint32, cmd *core.Command) fate {
					if cmd.Op == core.Write {
						return c.fate
					}
					return passes
				}
				l := f.join(nil).lock()
				h := holds(t, l)
				o, next := takes(t.Context(), l)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := h.Write(ctx, "return 1", nil, nil)
				require.ErrorIs(t, err, c.err)
				require.NoError(t, h.Err(), "the hold goes on")
				require.NoError(t, h.Release(t.Context()))
				require.NoError(t, <-next)
				assert.Equal(t, 1, f.count(core.Leave), "it was not handed off")
				require.NoError(t, l.Unlock(t.Context(), o))
				_, err = h.Write(t.Context(), "return 1", nil, nil)
				require.ErrorIs(t, err, terms.ErrFenced)
				assert.Equal(t, 1, f.count(core.Write), "one that is over sends nothing")
				f.isClean()
			})
		})
	}
}

// A write that is executed after its hold finds another tenure, also where the caller has left and the lock was released.
func TestALateGuardedWriteFindsAnotherTenure(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return held
			}
			return passes
		}
		l := f.join(nil).lock()
		h := holds(t, l)
		result := make(chan error, 1)
		go func() {
			_, err := h.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		require.NoError(t, h.Release(t.Context()))
		later := holds(t, l)
		f.deliver(-1)
		err := <-result
		require.ErrorIs(t, err, terms.ErrFenced)
		require.ErrorIs(t, err, terms.ErrNotHeld, "it was released")
		require.NoError(t, later.Err())
		require.NoError(t, later.Release(t.Context()))
		f.isClean()
	})
}

// A write that is executed after its lock was passed on is refused, so that nothing waits for its answer.
func TestALateGuardedWriteDoesNotFindALockThatWasPassedOn(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, here.lock())
		_, err := h.Write(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		f.onOp(core.Write, held)
		result := make(chan error, 1)
		go func() {
			_, err := h.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		text, err := h.Pass(t.Context(), time.Minute)
		require.NoError(t, err)
		f.deliver(-1)
		require.ErrorIs(t, <-result, terms.ErrFenced)
		pass, err := ParsePass(text)
		require.NoError(t, err)
		resumed, err := there.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
		require.NoError(t, err)
		_, err = resumed.Write(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		require.NoError(t, resumed.Release(t.Context()))
	})
}

// Where a command must not be left behind it is carried on, and keeps its slot, when its caller has left.
func TestAGuardedWriteHasItsSlotUntilItsAnswer(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		w := f.clients[0]
		w.keeps = true
		h := holds(t, l)
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return held
			}
			return passes
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := h.Write(ctx, "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrUnconfirmed)
		synctest.Wait()
		assert.EqualValues(t, 1, w.all.Asks.InFlight())
		f.deliver(-1)
		synctest.Wait()
		assert.Zero(t, w.all.Asks.InFlight())
		require.NoError(t, h.Release(t.Context()))
		f.isClean()
	})
}

func TestAGuardedWriteThatIsRefusedEndsTheHoldAtOnce(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		h := holds(t, l)
		f.mu.Lock()
		f.server.Holders = nil
		f.mu.Unlock()
		_, err := h.Write(t.Context(), "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrFenced)
		require.ErrorIs(t, err, terms.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), terms.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), terms.ErrLost)
		f.isClean()
	})
}

// While readers go on another tenure may come below them: the write is sent again with that.
func TestAGuardedWriteOfAReaderFollowsItsTenure(t *testing.T) {
	bubbleOf(t, ReadWriteKind, func(t *testing.T, f *fake) {
		stop := true
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write && stop {
				stop = false
				return held
			}
			return passes
		}
		c := f.join(nil)
		readers := c.lock().ForReaders()
		l := &readers
		left, stays := holds(t, l), holds(t, l)
		result := make(chan error, 1)
		go func() {
			_, err := stays.Write(t.Context(), "return 1", nil, nil)
			result <- err
		}()
		synctest.Wait()
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Write {
				return lost
			}
			return passes
		}
		_, err := left.Write(t.Context(), "return 1", nil, nil)
		require.ErrorIs(t, err, terms.ErrUnconfirmed)
		f.fate = nil
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

// A release that carries a guarded write, in each fate: what the caller learns, that the write is sent once, and that the lock
// is released. The next caller of the process never has it by a hand-off, which would leave the write out.
func TestTheFateOfAReleaseWithAGuardedWrite(t *testing.T) {
	for name, c := range map[string]struct {
		fate fate
		err  error
		ran  int
	}{
		"executed":           {passes, nil, 1},
		"not executed":       {lost, terms.ErrUnconfirmed, 0},
		"no answer":          {unheard, terms.ErrUnconfirmed, 1},
		"refused":            {refused, terms.ErrUnconfirmed, 0},
		"the carrier panics": {panicking, terms.ErrUnconfirmed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
				f.fate = func(_ uint32, cmd *core.Command) fate {
					if cmd.Carries {
						return c.fate
					}
					return passes
				}
				l := f.join(nil).lock()
				h := holds(t, l)
				o, next := takes(t.Context(), l)
				synctest.Wait()
				_, err := h.ReleaseWith(t.Context(), "return 1", nil, nil)
				require.ErrorIs(t, err, c.err)
				require.ErrorIs(t, h.Err(), terms.ErrNotHeld)
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
				require.ErrorIs(t, h.Release(t.Context()), terms.ErrNotHeld)
				time.Sleep(time.Minute) // a release without an answer was repeated by then
				f.isClean()
			})
		})
	}
}

// One whose lock is gone writes nothing, whether the client knows that or not.
func TestAReleaseWithAGuardedWriteOfALostLock(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		h := holds(t, l)
		f.mu.Lock()
		f.server.Holders = nil
		f.mu.Unlock()
		for _, want := range []error{terms.ErrLost, terms.ErrNotHeld} { // the second time nothing is sent
			_, err := h.ReleaseWith(t.Context(), "return 1", nil, nil)
			require.ErrorIs(t, err, terms.ErrFenced)
			require.ErrorIs(t, err, want)
		}
		assert.Empty(t, f.wrote)
		assert.Equal(t, 1, f.count(core.Leave))
		f.isClean()
	})
}

// The release of a nested hold has no command: the write is one, and the lock stays.
func TestAReleaseWithAGuardedWriteOfANestedHold(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		owner := terms.NewHandleOwner()
		outer, err := l.Hold(t.Context(), t.Context(), request(owner))
		require.NoError(t, err)
		inner, err := l.Hold(t.Context(), t.Context(), request(owner))
		require.NoError(t, err)
		_, err = inner.ReleaseWith(t.Context(), "return 1", nil, nil)
		require.NoError(t, err)
		require.ErrorIs(t, inner.Err(), terms.ErrNotHeld)
		require.NoError(t, outer.Err())
		assert.Equal(t, 1, f.count(core.Write))
		assert.Zero(t, f.count(core.Leave))
		require.NoError(t, outer.Release(t.Context()))
		f.isClean()
	})
}

func TestAPassIsReadAsItWasWritten(t *testing.T) {
	owner := "01234567-89ab-8def-8123-456789abcdef:0"
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
		{Kind: KindCount, Owner: owner, Key: "x"}, {Kind: PlainKind, Shared: true, Owner: owner, Key: "x"},
		{Owner: strings.TrimSuffix(owner, "0") + "5", Key: "x"}, {Owner: "unknown", Key: "x"},
	} {
		_, err := ParsePass(p.String())
		assert.ErrorIs(t, err, terms.ErrInvalidPass)
	}
}

// onOp loses or holds back the first command of that sort.
func (f *fake) onOp(op core.Op, next fate) {
	f.fate = func(_ uint32, cmd *core.Command) fate {
		if cmd.Op == op && (op != core.Mirror || cmd.Owner == 0) {
			f.fate = nil
			return next
		}
		return passes
	}
}

func (f *fake) passOn(t *testing.T, c *Client) (Pass, error) {
	h, err := c.lock().Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
	require.NoError(t, err)
	text, err := h.Pass(t.Context(), time.Minute)
	require.ErrorIs(t, context.Cause(h.Context()), terms.ErrPassed)
	if err != nil {
		return Pass{}, err
	}
	return ParsePass(text)
}

func eachPassableKind(t *testing.T, run func(t *testing.T, f *fake)) {
	for id := range KindID(KindCount) {
		bubbleOf(t, id, func(t *testing.T, f *fake) {
			if id == SemaphoreKind {
				f.most = 1
			}
			run(t, f)
		})
	}
}

// A pass takes one command, and a resume one: after a lost answer it finds its own tenure, and what a server refused that
// loads its data is sent again.
func TestAResumeIsSentAgainAfterALostAnswer(t *testing.T) {
	for _, lose := range []fate{passes, unheard, lost, refused} {
		eachPassableKind(t, func(t *testing.T, f *fake) {
			here, there := f.join(nil), f.join(nil)
			pass, err := f.passOn(t, here)
			require.NoError(t, err)
			assert.Equal(t, []core.Op{core.Acquire, core.Mirror}, f.ops(core.Acquire, core.Mirror, core.Leave, core.Unmark, core.Resume))
			f.onOp(core.Resume, lose)
			h, err := there.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
			require.NoError(t, err)
			if lose == passes {
				assert.Equal(t, 1, f.count(core.Resume))
			}
			_, err = here.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
			require.ErrorIs(t, err, terms.ErrNotPassed)
			time.Sleep(2 * time.Minute)
			require.True(t, Valid(h))
			require.NoError(t, h.Release(t.Context()))
		})
	}
}

// A pass without an answer is released, so that others do not wait for it.
func TestAPassThatIsNotConfirmedIsReleased(t *testing.T) {
	for _, lose := range []fate{unheard, lost, panicking} {
		eachPassableKind(t, func(t *testing.T, f *fake) {
			here, there := f.join(nil), f.join(nil)
			f.onOp(core.Mirror, lose)
			_, err := f.passOn(t, here)
			require.ErrorIs(t, err, terms.ErrUnconfirmed)
			begin := time.Now()
			h, err := there.lock().Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
			require.NoError(t, err)
			assert.Less(t, time.Since(begin), 3*time.Second)
			require.NoError(t, h.Release(t.Context()))
		})
	}
}

// A renewal that has no answer yet does not hold up a pass, and changes nothing after it.
func TestALockIsPassedOnWhileItIsRenewed(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		f.fate = func(_ uint32, cmd *core.Command) fate {
			if cmd.Op == core.Mirror && cmd.Owner != 0 {
				return held
			}
			return passes
		}
		h := holds(t, here.lock())
		time.Sleep(10*time.Second + 100*time.Millisecond) // a third of the lease
		require.Equal(t, 1, f.count(core.Mirror), "a renewal is under way")
		text, err := h.Pass(t.Context(), time.Minute)
		require.NoError(t, err)
		f.deliver(-1)
		synctest.Wait()
		pass, err := ParsePass(text)
		require.NoError(t, err)
		resumed, err := there.lock().Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
		require.NoError(t, err)
		f.fate = nil
		require.NoError(t, resumed.Release(t.Context()))
	})
}

// A call that leaves holds nothing, though its command is executed.
func TestAResumeThatLeavesReleasesWhatItTook(t *testing.T) {
	eachPassableKind(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		pass, err := f.passOn(t, here)
		require.NoError(t, err)
		f.onOp(core.Resume, late)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := there.lock().Resume(ctx, ctx, request(terms.NewHandleOwner()), &pass)
			result <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		h, err := here.lock().Hold(t.Context(), t.Context(), request(terms.NewHandleOwner()))
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
	})
}

// A client that has passed locks on has nothing more to do with them, whether they are resumed or not: neither a lock nor a
// tenure stays, nor a goroutine.
func TestLocksThatWerePassedOnAreForgotten(t *testing.T) {
	locks := 20 + redistest.Rounds(1000)
	eachPassableKind(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		named := func(c *Client, i int) *Lock {
			name := fmt.Sprint("lock-", i)
			if f.most > 0 {
				l := NewSemaphore(c, name, f.most)
				return &l
			}
			l := NewLock(c, f.kind, name)
			return &l
		}
		texts := make([]string, locks)
		goroutines := 0
		for i := range texts {
			text, err := holds(t, named(here, i)).Pass(t.Context(), time.Hour)
			require.NoError(t, err)
			texts[i] = text
			if i == 10 {
				synctest.Wait()
				goroutines = runtime.NumGoroutine()
			}
		}
		synctest.Wait()
		assert.InDelta(t, goroutines, runtime.NumGoroutine(), 5)
		assert.Zero(t, here.Counts().Held)
		for i := range here.shards {
			s := &here.shards[i]
			s.glance(func() {
				for l := range s.all {
					t.Errorf("the client still has %q", l.name.Key)
				}
			})
		}
		for i, text := range texts {
			pass, err := ParsePass(text)
			require.NoError(t, err)
			resumed, err := named(there, i).Resume(t.Context(), t.Context(), request(terms.NewHandleOwner()), &pass)
			require.NoError(t, err)
			require.NoError(t, resumed.Release(t.Context()))
		}
		time.Sleep(2 * time.Hour)
		f.isClean()
	})
}
