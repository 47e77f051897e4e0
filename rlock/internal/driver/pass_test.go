package driver

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

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
