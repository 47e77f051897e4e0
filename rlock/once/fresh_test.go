package once_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/once"
)

// A caller with a fresh context gets no value whose function had begun before it asked: in this
// process or another, while that runs or when its value is kept. All that ask then share the next
// one, and others get the first.
func TestAFreshCallerGetsTheValueOfAFunctionThatBeganAfterIt(t *testing.T) {
	for _, keep := range []time.Duration{0, time.Hour} {
		testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
			o := once.Options{Keep: keep}
			a, b := start(w, o), start(w, o)
			a.warm(w, b)
			time.Sleep(time.Minute)
			var runs atomic.Int32
			first := []<-chan end{a.asks(w.Ctx, 1, takes(time.Second, "old", &runs))}
			synctest.Wait()
			first = append(first, a.asks(w.Ctx, 1, takes(time.Second, "no", &runs)), b.asks(w.Ctx, 1, takes(time.Second, "no", &runs)))
			time.Sleep(500 * time.Millisecond)
			fresh := once.Fresh(w.Ctx)
			next := []<-chan end{a.asks(fresh, 2, takes(time.Second, "new", &runs)), b.asks(fresh, 2, takes(time.Second, "new", &runs))}
			for _, ends := range first {
				e := <-ends
				require.NoError(t, e.err)
				assert.Equal(t, "old", e.value, "keep %v", keep)
			}
			for _, ends := range next {
				for range 2 {
					e := <-ends
					require.NoError(t, e.err)
					assert.Equal(t, "new", e.value, "keep %v", keep)
				}
			}
			assert.EqualValues(t, 2, runs.Load(), "keep %v", keep)
			time.Sleep(5 * time.Second)
			assert.Equal(t, end{"newer", false, nil, 0}, <-b.asks(fresh, 1, takes(0, "newer", &runs)), "keep %v", keep)
			if keep > 0 {
				assert.Equal(t, end{"newer", true, nil, 0}, <-a.asks(w.Ctx, 1, takes(0, "no", &runs)))
			}
		})
	}
}

// A fresh caller costs no command more.
func TestAFreshCallTakesTwoCommands(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Hour})
		var runs atomic.Int32
		<-p.asks(w.Ctx, 1, takes(0, "it", &runs))
		time.Sleep(time.Minute) // it has subscribed
		before := len(p.commands())
		assert.Equal(t, "new", (<-p.asks(once.Fresh(w.Ctx), 1, takes(0, "new", &runs))).value)
		assert.Equal(t, 2, len(p.commands())-before, "%v", p.commands()[before:])
	})
}

// What a function asks of another key is as fresh as its caller wants it.
func TestAFunctionOfAFreshCallerAsksForFreshValues(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := start(w, once.Options{Keep: time.Hour})
		inner := func(ctx context.Context, value string) string {
			v, _, err := p.Do(ctx, "inner", func(context.Context) ([]byte, error) { return []byte(value), nil })
			assert.NoError(t, err)
			return string(v)
		}
		assert.Equal(t, "old", inner(w.Ctx, "old"))
		v, _, err := p.Do(once.Fresh(w.Ctx), key, func(ctx context.Context) ([]byte, error) { return []byte(inner(ctx, "new")), nil })
		require.NoError(t, err)
		assert.Equal(t, "new", string(v))
	})
}

// A value that is forgotten is not kept, nor is that of a function which ran then; the next one is.
func TestAForgottenValueIsNotKept(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		o := once.Options{Keep: time.Hour}
		a, b := start(w, o), start(w, o)
		var runs atomic.Int32
		require.NoError(t, a.Forget(w.Ctx, key), "there is none")
		<-a.asks(w.Ctx, 1, takes(0, "old", &runs))
		require.NoError(t, b.Forget(w.Ctx, key))
		time.Sleep(time.Millisecond)
		assert.Equal(t, "new", (<-b.asks(w.Ctx, 1, takes(0, "new", &runs))).value)
		assert.Equal(t, "new", (<-a.asks(w.Ctx, 1, takes(0, "no", &runs))).value, "it is kept")

		require.NoError(t, a.Forget(w.Ctx, key))
		running := a.asks(w.Ctx, 1, takes(time.Minute, "stale", &runs))
		time.Sleep(30 * time.Second)
		require.NoError(t, b.Forget(w.Ctx, key))
		waits := b.asks(w.Ctx, 1, takes(0, "no", &runs))
		assert.Equal(t, "stale", (<-running).value)
		assert.Equal(t, "stale", (<-waits).value, "it is stored after the question")
		assert.Equal(t, "newest", (<-b.asks(w.Ctx, 1, takes(0, "newest", &runs))).value)
		assert.Equal(t, "newest", (<-a.asks(w.Ctx, 1, takes(0, "no", &runs))).value, "it is kept")
	})
}

func TestForgetWaitsForRedis(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		o := once.Options{Keep: time.Hour}
		p := start(w, o)
		var runs atomic.Int32
		<-p.asks(w.Ctx, 1, takes(0, "old", &runs))
		p.client.Net.Refuse()
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		err := p.Forget(ctx, key)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "Redis said last")
		time.AfterFunc(time.Minute, p.client.Net.Heal)
		require.NoError(t, p.Forget(w.Ctx, key))
		assert.Equal(t, "new", (<-p.asks(w.Ctx, 1, takes(0, "new", &runs))).value)

		require.ErrorIs(t, p.Forget(w.Ctx, ""), rlock.ErrInvalidName)
		w.AnswerScripts("NOPERM No permissions to access a key")
		require.ErrorIs(t, p.Forget(w.Ctx, key), rlock.ErrNoPermission)
		require.NoError(t, p.client.Close())
		require.ErrorIs(t, p.Forget(w.Ctx, key), rlock.ErrClosed)
		p.Group.Close()
		require.True(t, errors.Is(p.Forget(w.Ctx, key), once.ErrClosed))
	})
}
