package driver

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// bubble runs a test in virtual time, with Redis and the network of its clients.
func bubble(t *testing.T, run func(t *testing.T, f *fake)) {
	bubbleOf(t, FairKind, run)
}

func bubbleOf(t *testing.T, kind KindID, run func(t *testing.T, f *fake)) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) { run(t, newFake(t, s, kind)) })
}

// later returns what becomes of a call, which goes on.
func later(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	synctest.Wait()
	return result
}

// takes takes the lock with a caller of its own.
func takes(ctx context.Context, l *Lock) (terms.Owner, <-chan error) {
	o, result := terms.NewOwner(), make(chan error, 1)
	go func() { result <- l.Take(ctx, request(o)) }()
	return o, result
}

// More calls than may be in flight wait for a slot, and hear of Close there.
func TestCloseIsHeardByCallsWithoutASlot(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.gives(held)
		var results []<-chan error
		for i := range 300 {
			l := NewLock(c, FairKind, key+string(rune('a'+i)))
			_, result := takes(context.Background(), &l)
			results = append(results, result)
		}
		synctest.Wait()
		began := time.Now()
		go func() { _ = c.Close() }()
		for _, result := range results {
			require.ErrorIs(t, <-result, wire.ErrClosed)
		}
		assert.Zero(t, time.Since(began))
		time.Sleep(10 * time.Second)
	})
}

// ops returns the commands of these sorts that were sent.
func (f *fake) ops(of ...core.Op) (sent []core.Op) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.sent {
		for _, op := range of {
			if f.sent[i].Op == op {
				sent = append(sent, op)
			}
		}
	}
	return sent
}

// isClean asserts that nothing is left: in Redis, in the clients, and of the slots among the
// commands in flight.
func (f *fake) isClean() {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server.Expire(server.Time(time.Since(f.start)))
	assert.Empty(f.t, f.server.Holders)
	assert.Empty(f.t, f.server.Queue)
	for _, w := range f.clients {
		assert.Zero(f.t, w.all.Asks.InFlight(), "a slot is not given back")
		assert.Zero(f.t, w.all.Releases.InFlight(), "a slot is not given back")
		for s := range w.client.allShards {
			s.glance(func() {
				for _, locks := range s.locks {
					assert.Empty(f.t, locks)
				}
				assert.Empty(f.t, s.pools)
				assert.Empty(f.t, s.mirrorWaits)
				assert.Zero(f.t, s.counts.Held)
				assert.Zero(f.t, s.counts.Waiting)
			})
		}
	}
}

// The machine has slept, and no timer has gone off yet.
func TestACallThatFindsALossIsRefusedForIt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		o, got := takes(t.Context(), c.lock())
		require.NoError(t, <-got)
		c.clock.ahead.Add(int64(time.Minute))
		require.ErrorIs(t, c.lock().Take(t.Context(), request(o)), terms.ErrLost)
		require.ErrorIs(t, c.lock().Unlock(t.Context(), o), terms.ErrLost)
	})
}

// The message that a call has the lock is sent after the mutex is given back. A call that finds out
// by itself waits for that, since its memory is used again: the next call would take the message
// for its own, and believe that it has the lock.
func TestALateWakeUpIsTakenByItsOwnCall(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		l := c.lock()
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		req := request(terms.NewOwner())
		req.Wait = time.Second
		waits := later(func() error { return l.Take(t.Context(), req) })

		one, now := c.enter(l.Name, core.OwnerID(o.ID))
		was, _, ok := one.Unlock(core.OwnerID(o.ID), core.Alone, nil, now)
		require.True(t, ok)
		s := one.shard
		s.counts.Closed(was.First)
		s.applyAll()
		handsOff := s.after
		s.after = after{}
		s.unlock() // as exit does
		time.Sleep(2 * time.Second)
		select {
		case <-waits:
			t.Error("the call has returned, and its message comes yet")
		default:
		}
		c.finish(&handsOff)
		require.NoError(t, <-waits)
		require.NoError(t, l.Unlock(t.Context(), req.Owner))
		f.isClean()
	})
}

// A goroutine that is delayed on its way to the mutex does not nest in a lease that has ended.
func TestTheClocksAreReadAfterTheMutexIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		o := terms.NewOwner()
		require.NoError(t, c.lock().Take(t.Context(), Request{Owner: o, Wait: terms.Forever, Lease: time.Second}))
		s := c.shardOf(c.lock().Name)
		s.take()
		got := make(chan int, 1)
		go func() { got <- c.lock().Depth(o) }()
		runtime.Gosched()
		c.clock.ahead.Add(int64(990 * time.Millisecond)) // the machine sleeps meanwhile
		s.unlock()
		assert.Zero(t, <-got)
	})
}
