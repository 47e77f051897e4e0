package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tracksKeys lets Redis tell of changed keys. No renewal comes during a test.
func tracksKeys(c *Config) { c.TrackedKeys, c.Lease = 1, 24*time.Hour }

func (f *fake) isTracked() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tracked != nil
}

// change is what another client does to the key. Redis tells the client that tracks it, once.
func (f *fake) change(do func()) {
	f.mu.Lock()
	told := f.tracked
	f.tracked = nil
	do()
	f.mu.Unlock()
	if told != nil {
		told.noteKeyChanged(key)
	}
	synctest.Wait()
}

// The key of a hold that lasts is tracked by a mirror. That costs short holds nothing, and readers
// and permits have no key that only their holder changes.
func TestAKeyIsTrackedOnceItsHoldLasts(t *testing.T) {
	for name, c := range map[string]struct {
		kind    KindID
		reads   bool
		tracked bool
	}{
		"plain": {PlainKind, false, true}, "fair": {FairKind, false, true}, "fenced": {FencedKind, false, true},
		"write": {ReadWriteKind, false, true}, "read": {ReadWriteKind, true, false}, "permit": {SemaphoreKind, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, c.kind, func(t *testing.T, f *fake) {
				if c.kind == SemaphoreKind {
					f.most = 1
				}
				here := f.join(tracksKeys)
				l := here.lock()
				if c.reads {
					reader := l.ForReaders()
					l = &reader
				}
				for range 10 {
					h := holds(t, l)
					time.Sleep(trackAfter - time.Millisecond)
					require.NoError(t, h.Release(t.Context()))
				}
				require.Zero(t, f.count(core.Mirror))
				h := holds(t, l)
				time.Sleep(trackAfter + 10*time.Millisecond)
				assert.Equal(t, c.tracked, f.isTracked())
				time.Sleep(time.Hour)
				assert.Equal(t, map[bool]int{true: 1}[c.tracked], f.count(core.Mirror), "one mirror, if any")
				require.NoError(t, h.Release(t.Context()))
				assert.Zero(t, here.Tracked())
			})
		})
	}
}

// A change of the key is a reason to ask. The mirror that asks does not track, so that one who
// changes the key all the time costs two mirrors a second.
func TestAChangeThatLeavesTheLockCostsTwoMirrorsASecond(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		l := f.join(tracksKeys).lock()
		h := holds(t, l)
		time.Sleep(time.Minute)
		require.Equal(t, 1, f.count(core.Mirror))
		for range 1_000 { // ten seconds
			f.change(func() {})
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 1+2*10, f.count(core.Mirror), 2)
		time.Sleep(time.Minute)
		assert.True(t, f.isTracked(), "the next change is told as well")
		require.True(t, Valid(h))
		require.NoError(t, h.Release(t.Context()))
	})
}

func TestALostKeyThatIsTrackedIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(tracksKeys)
		h := holds(t, c.lock())
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, c.Tracked())
		begin := time.Now()
		f.change(func() { f.server.Holders = nil })
		<-h.Context().Done()
		assert.Zero(t, time.Since(begin), "by virtual time")
		require.ErrorIs(t, context.Cause(h.Context()), contract.ErrLost)
		require.ErrorIs(t, h.Release(t.Context()), contract.ErrLost)
		time.Sleep(time.Second)
		assert.Zero(t, c.Tracked(), "another key may be tracked")
	})
}

func TestNoMoreKeysAreTrackedThanTheConfigSays(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(tracksKeys)
		for _, l := range f.many(c, 2) {
			h := holds(t, l)
			time.Sleep(time.Minute)
			assert.EqualValues(t, 1, c.Tracked())
			defer func() { require.NoError(t, h.Release(t.Context())) }()
		}
	})
}

func TestAGrantedCallWaitsUntilEarlierLossesAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		told := make(chan struct{}) // the whole is told of the loss only after a while
		handle, err := c.lock().Hold(t.Context(), t.Context(), Request{
			AcquireOptions: contract.AcquireOptions{Wait: contract.Forever, Lease: time.Second}, Owner: contract.NewHandleOwner(),
			Whole: &contract.Whole{Name: "whole"}, Lost: func(error) { <-told },
		})
		require.NoError(t, err)
		_, waits := takes(t.Context(), c.lock())
		time.Sleep(10 * time.Second)
		assert.Error(t, handle.Err())
		select {
		case <-waits:
			t.Error("the next one has the lock, and the loss is not told")
		default:
		}
		close(told)
		require.NoError(t, <-waits)
	})
}

// A release lets others in: the holder learns of the loss before, also if another goroutine than
// the keeper has noticed it.
func TestALostLockIsNotReleasedBeforeItsLossIsReported(t *testing.T) {
	for what, capped := range map[string]bool{"a lease": false, "a maximum": true} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake) {
				c := f.join(nil)
				reported := make(chan struct{})
				owner := contract.NewHandleOwner()
				options := contract.AcquireOptions{Wait: contract.Forever, Lease: 1003 * time.Millisecond} // between two ticks of the keeper
				if capped {
					options.Lease, options.MaxHold = 0, options.Lease
				}
				h, err := c.lock().Hold(t.Context(), t.Context(), Request{
					AcquireOptions: options, Owner: owner,
					Whole: &contract.Whole{Name: "whole"}, Lost: func(error) { <-reported },
				})
				require.NoError(t, err)
				time.Sleep(time.Until(h.ValidUntil()))
				noticed := make(chan int)
				go func() { noticed <- c.lock().Depth(owner) }()
				synctest.Wait()
				time.Sleep(time.Minute)
				assert.Zero(t, f.count(core.Leave))
				close(reported)
				assert.Zero(t, <-noticed)
				time.Sleep(time.Second)
				assert.Positive(t, f.count(core.Leave))
			})
		})
	}
}

// Any user may publish on the channel of a client's grants. Locks of other names and kinds may
// share it.
func TestAMessageThatGrantsNoTicketOfTheLockIsIgnored(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		here, there := f.join(nil), f.join(nil)
		h := holds(t, there.lock())
		l := here.lock()
		o, got := takes(t.Context(), l)
		synctest.Wait()
		f.mu.Lock()
		waits := f.server.Queue[0]
		f.mu.Unlock()
		id := waits.ID
		id.Client = wire.ThisClient
		ticket := string(here.textOf(id, waits.Owner, 0))
		id.N += 1000
		prefix := here.ID.Prefix
		for _, message := range []string{
			"", " ", ticket, "+" + ticket, "+" + ticket + "   ", "+" + ticket + "   {" + key + "}", "+" + ticket + "   " + key + " ",
			"?" + ticket + " {" + key + "}", "+" + prefix + "  " + " " + key, "+" + prefix + "0   " + key, "?" + prefix + " " + key,
			"+" + prefix + "8e0f-112233445566:   " + key, "+" + string(there.textOf(id, 1, 0)) + " 1 1 " + key,
		} {
			here.hearTicketMessage(l.Name, message)
			synctest.Wait()
			require.Empty(t, got, message)
		}
		sent := len(f.sent)
		here.hearTicketMessage(l.Name, "+"+string(here.textOf(id, 1, 0))+" 1 1 "+key)
		time.Sleep(time.Second)
		require.Empty(t, got, "a ticket that no caller waits for is given back, whether it has the lock or not")
		assert.Equal(t, []core.Op{core.Leave}, f.ops(core.Leave))
		assert.Equal(t, sent+1, len(f.sent))
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, <-got)
		require.NoError(t, l.Unlock(t.Context(), o))
		f.isClean()
	})
}

// Any user may publish on the client's own channel. A message about a tenure of this client makes
// it ask, however many there are, and ends no hold.
func TestAMessageToTheClientMakesItAsk(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		h := holds(t, c.lock())
		one := f.server.Holders[0]
		one.ID.Client = wire.ThisClient
		owner := c.textOf(one.ID, one.Owner, 0)
		one.ID.N++
		hear := func(verb wire.Verb, owner wire.OwnerText, text string) {
			c.hearClientMessage(wire.ClientMessage{Verb: verb, Owner: owner, Text: text}.String())
		}
		asked := func() int {
			time.Sleep(10 * time.Millisecond)
			return f.count(core.Mirror)
		}
		for _, m := range []wire.ClientMessage{
			{Verb: wire.Forced, Owner: owner, Text: "another"}, {Verb: wire.Forced, Owner: c.textOf(one.ID, one.Owner, 0), Text: key},
			{Verb: wire.Forced, Owner: owner[:30], Text: key}, {Verb: wire.Forced, Owner: foreignOwner, Text: key},
			{Verb: wire.TakenOver, Owner: owner, Text: "5 " + key}, {Verb: wire.TakenOver, Owner: owner, Text: "x " + string(owner) + " " + key},
			{Verb: wire.TakenOver, Owner: owner, Text: "-1 " + string(owner) + " " + key}, {Verb: wire.TakenOver, Owner: owner, Text: ""},
		} {
			hear(m.Verb, m.Owner, m.Text)
			assert.Zero(t, asked(), "%+v", m)
		}
		hear(wire.TakenOver, owner, "0 "+string(owner)+" "+key)
		assert.Equal(t, 1, asked(), "no ticket stands behind it")
		for range 1000 {
			hear(wire.Forced, owner, key)
		}
		assert.Greater(t, asked(), 1)
		require.NoError(t, h.Err(), "Redis still shows the lock")
		for range 1000 {
			hear(wire.Forced, owner, key)
			time.Sleep(100 * time.Microsecond)
		}
		assert.LessOrEqual(t, asked(), 120, "once a millisecond")
		f.forgets()
		hear(wire.Forced, owner, key)
		told := time.Now()
		<-h.Context().Done()
		require.ErrorIs(t, h.Err(), contract.ErrLost)
		assert.Less(t, time.Since(told), 5*time.Millisecond)
	})
}
