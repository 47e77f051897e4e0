package driver

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
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

// takes takes the lock with a caller of its own.
func takes(ctx context.Context, l *Lock) (terms.Owner, <-chan error) {
	o, result := terms.NewOwner(), make(chan error, 1)
	go func() { result <- l.Take(ctx, request(o)) }()
	return o, result
}

func TestACallTakesAndFreesALockByTwoCommands(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		require.NoError(t, l.Take(t.Context(), request(o)), "it nests")
		assert.Equal(t, 2, l.Depth(o))
		require.NoError(t, l.Unlock(t.Context(), o))
		require.NoError(t, l.Unlock(t.Context(), o))
		require.ErrorIs(t, l.Unlock(t.Context(), o), terms.ErrNotHeld)
		assert.Equal(t, []core.Op{core.Acquire, core.Leave}, f.ops(core.Acquire, core.Leave))
		f.isClean()
	})
}

func TestALockIsRenewedUntilItsUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		time.Sleep(10*time.Minute + time.Second) // no mirror is due at that moment
		assert.Equal(t, 1, l.Depth(o))
		mirrors := f.count(core.Mirror)
		assert.InDelta(t, 60, mirrors, 2, "a third of the lease")
		require.NoError(t, l.Unlock(t.Context(), o))
		time.Sleep(time.Minute)
		assert.Equal(t, mirrors, f.count(core.Mirror))
		f.isClean()
	})
}

// The messages, commands and answers of several clients come late, out of order, or not at all.
func TestNoFaultOfTheWireLetsTwoHoldALock(t *testing.T) {
	for name, kind := range map[string]KindID{
		"plain": PlainKind, "fenced": FencedKind, "fair": FairKind, "read-write": ReadWriteKind, "permits": SemaphoreKind,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(redistest.Rounds(30)) {
				bubbleOf(t, kind, func(t *testing.T, f *fake) { f.storms(t, seed) })
			}
		})
	}
}

func (f *fake) storms(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	if f.kind == SemaphoreKind {
		f.most = 1 + int(seed%3)
	}
	f.fate = func(uint32, *core.Command) fate {
		if n := random.IntN(12); n < int(unheard) {
			return fate(n + 1)
		}
		return passes
	}
	inside := &inside{most: max(int32(f.most), 1)}
	var results []<-chan error
	for i := range uint64(3) {
		c := f.join(nil)
		for j := range uint64(4) {
			result := make(chan error, 1)
			results = append(results, result)
			go func() { result <- visits(t, c.lock(), 100*seed+10*i+j, inside) }()
		}
	}
	quit := make(chan struct{})
	go func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(7 * time.Millisecond):
			}
			f.mu.Lock()
			n := len(f.waiting)
			f.mu.Unlock()
			if n > 0 {
				f.deliver(int(seed) % n)
			}
		}
	}()
	for _, result := range results {
		require.NoError(t, <-result)
	}
	f.mu.Lock()
	f.fate = nil
	f.mu.Unlock()
	time.Sleep(2 * time.Minute)
	close(quit)
	assert.Zero(t, inside.now)
	assert.NotZero(t, inside.sections)
	f.isClean()
}

// inside are the holders of the lock, as they believe.
type inside struct {
	mu             sync.Mutex // protects following
	now, most      int32      // alone
	readers        int32
	sections, last uint64
}

// enter notes a holder, unless it has lost the lock already.
func (i *inside) enter(t *testing.T, h Handle, reads bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !Valid(h) {
		return false
	}
	if token := h.FencingToken(); token > 0 {
		if token <= i.last {
			t.Errorf("token %d after %d", token, i.last)
		}
		i.last = token
	}
	i.sections++
	if reads {
		i.readers++
	} else {
		i.now++
	}
	if i.now > i.most || i.now > 0 && i.readers > 0 {
		t.Errorf("%d are inside, and %d readers", i.now, i.readers)
	}
	return true
}

func (i *inside) leave(reads bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if reads {
		i.readers--
	} else {
		i.now--
	}
}

// visits takes the lock again and again, with contexts that end at random.
func visits(t *testing.T, l *Lock, seed uint64, inside *inside) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for range 10 {
		of := *l
		if kinds[l.Name.KindID].readers && random.IntN(2) > 0 {
			of = l.ForReaders()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(20_000))*time.Millisecond)
		handle, err := of.Hold(ctx, context.Background(), Request{Owner: terms.NewHandleOwner(), Wait: terms.Forever})
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			continue
		}
		if inside.enter(t, handle, of.Shared) {
			if random.IntN(2) > 0 {
				select {
				case <-time.After(time.Duration(random.IntN(50)) * time.Millisecond):
				case <-handle.Context().Done():
				}
			}
			inside.leave(of.Shared)
		}
		_ = handle.Release(context.Background())
	}
	return nil
}

// A call hears at once that the client closes, whatever its command waits for.
func TestCloseIsHeardByACallWhoseCommandIsInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.fate = func(uint32, *core.Command) fate { return held }
		cancelable, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, one := takes(context.Background(), c.lock())
		synctest.Wait()
		_, other := takes(cancelable, c.lock())
		synctest.Wait()
		began := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		require.ErrorIs(t, <-one, wire.ErrClosed)
		require.ErrorIs(t, <-other, wire.ErrClosed)
		assert.Zero(t, time.Since(began))
		require.ErrorIs(t, <-closed, terms.ErrUnconfirmed)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

// More calls than may be in flight wait for a slot, and hear of Close there.
func TestCloseIsHeardByCallsWithoutASlot(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.fate = func(uint32, *core.Command) fate { return held }
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

// isClean asserts that nothing is left: in Redis, in the clients, and of the slots among the commands in flight.
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

// The message that a call has the lock is sent after the mutex is given back. A call that finds out by itself waits for
// that, since its memory is used again: the next call would take the message for its own, and believe that it has the lock.
func TestALateWakeUpIsTakenByItsOwnCall(t *testing.T) {
	bubbleOf(t, PlainKind, func(t *testing.T, f *fake) {
		c := f.join(nil)
		l := c.lock()
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		req := request(terms.NewOwner())
		req.Wait = time.Second
		waits := make(chan error, 1)
		go func() { waits <- l.Take(t.Context(), req) }()
		synctest.Wait()

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

func TestACommandThatPanicsHasOneAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(nil).lock()
		panics := 3
		f.fate = func(uint32, *core.Command) fate {
			if panics--; panics >= 0 {
				return panicking
			}
			return passes
		}
		o, got := takes(t.Context(), l)
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(t.Context(), o))
		time.Sleep(time.Minute)
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
		s.lock()
		got := make(chan int, 1)
		go func() { got <- c.lock().Depth(o) }()
		runtime.Gosched()
		c.clock.ahead.Add(int64(990 * time.Millisecond)) // the machine sleeps meanwhile
		s.unlock()
		assert.Zero(t, <-got)
	})
}
