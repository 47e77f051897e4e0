package insight_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A witness records the calls of an Observer, one line for each, with the name in the hook's
// context.
type witness struct {
	mu    sync.Mutex
	lines []string
}

type callerKey struct{}

// as gives the context the name that a witness records.
func as(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

func (v *witness) write(ctx context.Context, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if name := ctx.Value(callerKey{}); name != nil {
		line = fmt.Sprint(name, ": ", line)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lines = append(v.lines, line)
}

// told returns the lines since the last call.
func (v *witness) told() []string {
	synctest.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	lines := v.lines
	v.lines = nil
	return lines
}

func (v *witness) observer() *rlock.Observer {
	return &rlock.Observer{
		Opened: func(*rlock.Client) { v.write(context.Background(), "opened") },
		Waiting: func(ctx context.Context, i rlock.WaitingInfo) {
			v.write(ctx, "waiting %s %s", i.Kind, i.Name)
		},
		Acquired: func(ctx context.Context, i rlock.AcquiredInfo) {
			v.write(ctx, "acquired %s %s by %s in %v, contended %t", i.Kind, i.Name, i.AcquiredBy, i.Waited, i.Contended)
		},
		GaveUp: func(ctx context.Context, i rlock.GaveUpInfo) {
			v.write(ctx, "gave up %s %s after %v, contended %t: %s", i.Kind, i.Name, i.Waited, i.Contended, sentinel(i.Err))
		},
		Released: func(ctx context.Context, i rlock.ReleasedInfo) {
			v.write(ctx, "released %s %s by %s after %v: %s", i.Kind, i.Name, i.AcquiredBy, i.Held, sentinel(i.Err))
		},
		Lost: func(ctx context.Context, i rlock.LostInfo) {
			v.write(ctx, "lost %s %s by %s after %v, %s: %s", i.Kind, i.Name, i.AcquiredBy, i.Held.Round(time.Second), i.Reason, sentinel(i.Err))
		},
		Closed: func(*rlock.Client) { v.write(context.Background(), "closed") },
	}
}

// sentinel names the error that a caller would compare with.
func sentinel(err error) string {
	for _, known := range []error{rlock.ErrNotAcquired, rlock.ErrLost, rlock.ErrUnconfirmed, rlock.ErrClosed, rlock.ErrInvalidName,
		rlock.ErrInvalidLease, rlock.ErrUpgrade, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

func withObserver(o *rlock.Observer) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Observer = o }
}

func TestAnObserverIsToldHowALockWasAcquiredAndReleased(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p, other := w.NewClient(withObserver(v.observer())), w.NewClient()
		lock := p.NewLock(testbed.Key)
		me, them := as(w.Caller(), "me"), as(w.Caller(), "them")
		require.Equal(t, []string{"opened"}, v.told())

		require.NoError(t, lock.Lock(me))
		require.NoError(t, lock.Lock(me))
		time.Sleep(time.Second)
		require.NoError(t, lock.Unlock(me))
		theirs := testbed.Start(func() error { return lock.Lock(them) })
		synctest.Wait()
		time.Sleep(time.Second)
		assert.Equal(t, []int64{1, 1}, []int64{p.Stats().Held, p.Stats().Waiting})
		require.NoError(t, lock.Unlock(me))
		require.NoError(t, <-theirs)
		require.NoError(t, lock.Unlock(them))
		assert.Equal(t, []string{
			"me: acquired plain orders:42 by redis in 0s, contended false",
			"me: acquired plain orders:42 by nesting in 0s, contended false",
			"me: released plain orders:42 by nesting after 1s: <nil>",
			"them: waiting plain orders:42",
			"me: released plain orders:42 by redis after 2s: <nil>",
			"them: acquired plain orders:42 by handoff in 1s, contended true",
			"them: released plain orders:42 by handoff after 0s: <nil>",
		}, sorted(v.told(), "me: released plain orders:42 by redis", "them: acquired"))

		elsewhere := w.Caller()
		require.NoError(t, other.NewLock(testbed.Key).Lock(elsewhere))
		mine := testbed.Start(func() error { return lock.Lock(me) })
		synctest.Wait()
		time.Sleep(1500 * time.Millisecond)
		require.NoError(t, other.NewLock(testbed.Key).Unlock(elsewhere))
		require.NoError(t, <-mine)
		require.NoError(t, lock.Unlock(me))
		s := p.Stats()
		assert.Equal(t, inspect.Stats{
			Acquired: 3, AcquiredByRedis: 1, AcquiredByNesting: 1, AcquiredByHandoff: 1, AcquiredByQueue: 1,
			WaitTime: 2500 * time.Millisecond, Renewals: 2, Commands: s.Commands,
		}, s)
		require.NoError(t, p.Close())
		assert.Equal(t, []string{
			"me: waiting plain orders:42",
			"me: acquired plain orders:42 by queue in 1.5s, contended true",
			"me: released plain orders:42 by queue after 0s: <nil>",
			"closed",
		}, v.told())
	})
}

// sorted puts the line that begins with first before the one that begins with second, since
// two goroutines write them.
func sorted(lines []string, first, second string) []string {
	for i := range lines[1:] {
		if strings.HasPrefix(lines[i], second) && strings.HasPrefix(lines[i+1], first) {
			lines[i], lines[i+1] = lines[i+1], lines[i]
		}
	}
	return lines
}

func TestAnObserverIsToldOfReadersThatJoin(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()))
		v.told()
		read := p.NewReadWriteLock(testbed.Key).Read()
		a, b := as(w.Caller(), "a"), as(w.Caller(), "b")
		require.NoError(t, read.Lock(a))
		require.NoError(t, read.Lock(b))
		require.NoError(t, read.Lock(b))
		assert.Equal(t, []string{
			"a: acquired read orders:42 by redis in 0s, contended false",
			"b: acquired read orders:42 by joining in 0s, contended false",
			"b: acquired read orders:42 by nesting in 0s, contended false",
		}, v.told())
		assert.Equal(t, []int64{2, 1}, []int64{p.Stats().Held, p.Stats().AcquiredByJoining})
		time.Sleep(time.Second)
		require.NoError(t, read.Unlock(a))
		require.NoError(t, read.Unlock(b))
		require.NoError(t, read.Unlock(b))
		assert.Equal(t, []string{
			"a: released read orders:42 by redis after 1s: <nil>",
			"b: released read orders:42 by nesting after 1s: <nil>",
			"b: released read orders:42 by joining after 1s: <nil>",
		}, v.told())
	})
}

func TestAnObserverIsToldWhyACallGaveUp(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()))
		v.told()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(w.Caller()))
		me := w.Caller()
		testbed.Tries(t, me, lock)
		w.AnswerScripts("NOPERM no")
		for range 2 { // no two counts are the same
			require.ErrorIs(t, p.NewLock("refused").Lock(me), rlock.ErrNoPermission)
		}
		w.AnswerScripts("")
		v.told()
		ended, end := context.WithCancel(me)
		end()
		soon, cancel := context.WithTimeout(me, 3*time.Second)
		defer cancel()

		testbed.Tries(t, me, lock)
		require.Error(t, testbed.ErrorOf(lock.Acquire(me, rlock.WithWait(0))))
		require.Error(t, lock.Lock(ended))
		require.Error(t, lock.Lock(soon))
		require.Error(t, lock.LockFor(me, time.Nanosecond))
		require.Error(t, p.NewLock("").Lock(me))
		s := p.Stats()
		assert.Equal(t, []int64{3, 1, 2, 0}, []int64{s.Denied, s.Canceled, s.Failed, s.Waiting})
		assert.Equal(t, 3*time.Second, s.WaitTime)
		waiting := testbed.Start(func() error { return lock.Lock(me) })
		synctest.Wait()
		require.NoError(t, p.Close())
		require.Error(t, <-waiting)
		require.Error(t, lock.Lock(me))
		told := v.told()
		assert.Equal(t, []string{
			"gave up plain orders:42 after 0s, contended false: lock is held by another owner",
			"gave up plain orders:42 after 0s, contended false: lock is held by another owner",
			"gave up plain orders:42 after 0s, contended false: context canceled",
			"waiting plain orders:42",
			"gave up plain orders:42 after 3s, contended true: context deadline exceeded",
			"gave up plain orders:42 after 0s, contended false: invalid lease",
			"gave up plain  after 0s, contended false: invalid lock name",
			"waiting plain orders:42",
		}, told[:8])
		assert.Contains(t, told[8:], "gave up plain orders:42 after 0s, contended true: client is closed")
		assert.Contains(t, told[8:], "gave up plain orders:42 after 0s, contended false: client is closed")
	})
}

func TestAnObserverIsToldWhyALockWasLost(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()), testbed.WithLease(3*time.Second))
		lock := p.NewLock(testbed.Key)
		lose := func(how func(), take func(ctx context.Context) error) []string {
			me := as(w.Caller(), "me")
			require.NoError(t, take(me))
			v.told()
			how()
			w.Eventually(func() bool { return !lock.IsHeld(me) }, "the lock is lost")
			told := v.told()
			require.ErrorIs(t, lock.Unlock(me), rlock.ErrLost)
			assert.Empty(t, v.told(), "Unlock reports the loss, and no release")
			return told
		}
		lost := func() []int64 {
			s := p.Stats()
			return []int64{s.Lost, s.LostKeyGone, s.LostLeaseEnded, s.LostForced, s.LostUnrenewed}
		}
		assert.Equal(t, []string{"lost plain orders:42 by redis after 1s, key_gone: lock was lost"},
			lose(func() { w.Del(testbed.Key) }, lock.Lock))
		assert.Equal(t, []int64{1, 1, 0, 0, 0}, lost())
		assert.Equal(t, []string{"lost plain orders:42 by redis after 2s, lease_ended: lock was lost"},
			lose(func() {}, func(ctx context.Context) error { return lock.LockFor(ctx, 2*time.Second) }))
		assert.Equal(t, []int64{1, 1, 1, 0, 0}, lost(), "that is no loss to be counted among the others")
		assert.Equal(t, []string{"lost plain orders:42 by redis after 0s, forced: lock was lost"},
			lose(func() { _, err := lock.ForceUnlock(w.Ctx); require.NoError(t, err) }, lock.Lock))
		assert.Equal(t, []int64{2, 1, 1, 1, 0}, lost())
		assert.Equal(t, []string{"lost plain orders:42 by redis after 3s, unrenewed: lock was lost"},
			lose(func() { w.AnswerScripts("ERR no") }, lock.Lock))
		assert.Equal(t, []int64{3, 1, 1, 1, 1}, lost())
		w.AnswerScripts("")
		time.Sleep(time.Minute)

		// A handle keeps the values of its context, and nested levels are one loss.
		ctx := as(w.Caller(), "me")
		testbed.Take(t, ctx, lock)
		testbed.Take(t, ctx, lock)
		v.told()
		w.Del(testbed.Key)
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{"me: lost plain orders:42 by redis after 1s, key_gone: lock was lost"}, v.told())
	})
}

func TestAnObserverIsToldOfEachEndOfAHold(t *testing.T) {
	type ending struct {
		by   func(w *testbed.World, p *testbed.Client, h *rlock.Hold)
		told []string
	}
	testbed.EachBubble(t, map[string]ending{
		"a release that finds the lock gone": {func(w *testbed.World, _ *testbed.Client, h *rlock.Hold) {
			w.Del(testbed.Key)
			require.ErrorIs(w.T, h.Release(as(w.Ctx, "it")), rlock.ErrLost)
		}, []string{"it: lost fenced orders:42 by redis after 1s, key_gone: lock was lost"}},
		"a release that is not confirmed": {func(w *testbed.World, p *testbed.Client, h *rlock.Hold) {
			p.Net.Refuse()
			require.ErrorIs(w.T, h.Release(as(w.Ctx, "it")), rlock.ErrUnconfirmed)
		}, []string{"it: released fenced orders:42 by redis after 1s: not confirmed by Redis"}},
		"Close": {func(w *testbed.World, p *testbed.Client, h *rlock.Hold) {
			require.NoError(w.T, p.Close())
			require.ErrorIs(w.T, h.Release(w.Ctx), rlock.ErrClosed)
		}, []string{"me: released fenced orders:42 by redis after 1s: client is closed", "closed"}},
	}, func(t *testing.T, w *testbed.World, end ending) {
		v := new(witness)
		p := w.NewClient(withObserver(v.observer()))
		hold := testbed.Take(t, as(w.Ctx, "me"), p.NewFencedLock(testbed.Key), rlock.WithLease(time.Minute))
		v.told()
		time.Sleep(time.Second)
		end.by(w, p, hold)
		assert.Equal(t, end.told, v.told())
	})
}

func TestAnObserverIsToldOfEachBatchOfRenewals(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var mu sync.Mutex
		var batches []rlock.RenewedInfo
		p := w.NewClient(testbed.WithLease(3*time.Second), withObserver(&rlock.Observer{Renewed: func(i rlock.RenewedInfo) {
			mu.Lock()
			defer mu.Unlock()
			batches = append(batches, i)
		}}))
		take := func() []rlock.RenewedInfo {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			taken := batches
			batches = nil
			return taken
		}
		me := w.Caller()
		for i := range 40 {
			require.NoError(t, p.NewLock(fmt.Sprint(i)).Lock(me))
		}
		time.Sleep(1100 * time.Millisecond)
		renewals := take()
		require.Len(t, renewals, 1)
		assert.Equal(t, 40, renewals[0].Locks)
		assert.EqualValues(t, 40, p.Stats().Renewals)
		assert.EqualValues(t, 40+2, p.Stats().Commands, "two batches, one of 32 keys")
		assert.Zero(t, renewals[0].Failed)
		require.NoError(t, renewals[0].Err)
		assert.Same(t, p.Client, renewals[0].Client)
		assert.Equal(t, 40, renewals[0].Kept)
		assert.InDelta(t, 2, renewals[0].Margin.Seconds(), 0.1)
		assert.Equal(t, 3*time.Second, renewals[0].Lease)
		w.Del("7")
		time.Sleep(time.Second)
		renewals = take()
		require.Len(t, renewals, 1)
		assert.Equal(t, 40, renewals[0].Locks)
		assert.Equal(t, 1, renewals[0].Failed)
		w.AnswerScripts("ERR no script today")
		time.Sleep(time.Second)
		renewals = take()
		require.NotEmpty(t, renewals)
		assert.Equal(t, 39, renewals[0].Failed)
		require.ErrorContains(t, renewals[0].Err, "no script today")
		w.AnswerScripts("")
	})
}
