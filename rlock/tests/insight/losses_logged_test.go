package insight_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A slowHandler takes its time for each record, and for each call of Enabled.
type slowHandler struct {
	slog.Handler
	pause   func()
	records []slog.Record // read at the end of the test, when the client is closed
}

func (h *slowHandler) Enabled(context.Context, slog.Level) bool {
	h.pause()
	return true
}

func (h *slowHandler) Handle(_ context.Context, r slog.Record) error {
	h.pause()
	h.records = append(h.records, r)
	return nil
}

// of returns the values of the attribute, in the order of the records that have it.
func (h *slowHandler) of(attribute string) (values []string) {
	for _, r := range h.records {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == attribute {
				values = append(values, a.Value.String())
			}
			return true
		})
	}
	return values
}

func withLogger(h slog.Handler) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Logger = slog.New(h) }
}

// losesOnlyWhatIsGone has a client, whose logger is slow, hold ten locks, and deletes five of
// them. The others stay held, and another lock is granted at once.
func losesOnlyWhatIsGone(w *testbed.World, p *testbed.Client) {
	w.T.Helper()
	var holds []*rlock.Hold
	for i := range 10 {
		h := testbed.Take(w.T, w.Ctx, p.NewLock(fmt.Sprint("lock ", i)))
		holds = append(holds, h)
	}
	for i := range 5 {
		w.Del(fmt.Sprint("lock ", i))
	}
	time.Sleep(time.Minute)
	for i, h := range holds {
		assert.Equal(w.T, i >= 5, h.Valid(), i)
	}
	them := w.Caller()
	testbed.Within(w.T, 0, 0, func() { require.NoError(w.T, p.NewLock("another").Lock(them)) })
}

func TestALoggerThatBlocksLosesNoOtherLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		log := &slowHandler{pause: func() { time.Sleep(12 * time.Hour) }}
		p := w.NewClient(testbed.WithLease(3*time.Second), withLogger(log))
		losesOnlyWhatIsGone(w, p)
		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, p.Close()) })
		time.Sleep(24 * time.Hour)
	})
}

func TestALoggerMayCallTheClient(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var p *testbed.Client
		them := w.Caller()
		log := &slowHandler{pause: func() {
			if p.NewLock(testbed.Key).Lock(them) == nil {
				_ = p.NewLock(testbed.Key).Unlock(them)
			}
			_ = p.Close()
		}}
		p = w.NewClient(withLogger(log), testbed.WithLease(time.Second))
		me := w.Caller()
		require.NoError(t, p.NewLock("lost").Lock(me))
		w.Del("lost")
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, p.NewLock(testbed.Key).Lock(me), rlock.ErrClosed)
		synctest.Wait()
		assert.Equal(t, []string{"lost"}, log.of("lock"))
	})
}

// The owner is a text, since many readers of JSON take numbers for floats.
func TestTheLogNamesTheOwnerThatLostTheLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		log := new(testbed.Journal)
		p := w.NewClient(withLogger(slog.NewJSONHandler(log, nil)))
		hold := testbed.Take(t, w.Caller(), p.NewLock(testbed.Key))
		owner := p.Held()[0].Owner
		w.Del(testbed.Key)
		<-hold.Context().Done()
		synctest.Wait() // until the loss is logged
		assert.Equal(t, 1, log.Count(fmt.Sprintf(`,"owner":"%d",`, owner)))
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}

// The panic of the handler is on the standard error.
func TestALoggerThatPanicsEndsNothing(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		calls := 0
		p := w.NewClient(withLogger(panics{&calls}))
		for i := range 2 {
			me := w.Caller()
			lock := p.NewLock(fmt.Sprint(i))
			require.NoError(t, lock.Lock(me))
			w.Del(fmt.Sprint(i))
			time.Sleep(time.Minute)
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
		}
		require.NoError(t, p.Close())
		assert.GreaterOrEqual(t, calls, 2, "it is called again")
	})
}

type panics struct{ calls *int }

func (p panics) Enabled(context.Context, slog.Level) bool { return true }

func (p panics) Handle(context.Context, slog.Record) error { *p.calls++; panic("boom") }

func (p panics) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p panics) WithGroup(string) slog.Handler { return p }
