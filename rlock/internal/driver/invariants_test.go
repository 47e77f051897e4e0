//go:build invariants

package driver

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Each rule of the driver (invariants.go) is broken here, and found.

// breaks calls change with the mutex of the client's lock held, asserts that the rule is found
// broken then, and repairs the damage.
func breaks(t *testing.T, c *Client, rule string, change func(l *lockState, now core.Now), repair ...func()) {
	t.Helper()
	l, now := c.enterIfAny(c.lock().Name, 0)
	require.NotNil(t, l)
	rulesOf(c).checkShard(l.shard)
	change(l, now)
	assert.Contains(t, found(l.shard), rule)
	for _, one := range repair {
		one()
	}
	for tenure := range l.Tenures {
		if agent := tenure.Agent; agent != nil {
			agent.Tag.(*waiter).wake()
		} else {
			_, at := l.Peek(tenure, now)
			l.shard.scheduleWork(l.shard.workOf(l, tenure), at)
		}
	}
	for w := range l.Waiters {
		w.Tag.(*waiter).wake()
	}
	l.shard.exit(l)
}

// found returns which rule is found broken, "" for none.
func found(s *shard) string { return foundBy(func() { rulesOf(s.client).checkShard(s) }) }

func rulesOf(c *Client) *rules { return c.witness.(*rules) }

func foundBy(run func()) (broken string) {
	defer func() { broken, _ = recover().(string) }()
	run()
	return ""
}

// contended returns when one call holds the lock and another one of the same client waits for it.
func contended(t *testing.T, f *fake) (c *Client, holder contract.Owner, waits <-chan error, leave context.CancelFunc) {
	c = f.join(nil)
	holder, got := takes(t.Context(), c.lock())
	require.NoError(t, <-got)
	ctx, leave := context.WithCancel(t.Context())
	_, waits = takes(ctx, c.lock())
	synctest.Wait()
	return c, holder, waits, leave
}

func TestADamagedLockIsFound(t *testing.T) {
	for damage, test := range map[string]struct {
		rule   string
		change func(l *lockState, now core.Now)
	}{
		"a poll is lost": {"rule 6", func(l *lockState, now core.Now) {
			for w := range l.Waiters {
				l.End(w, core.Cancelled, now)
			}
			l.shard.core.TakeEffects(now) // are lost: the keeper does not hear that the ticket is to leave
		}},
		"an effect is left":           {"rule 2", func(l *lockState, now core.Now) { l.Confirm(now) }},
		"a call sleeps too long":      {"rule 1", losesALook},
		"a tenure is without a timer": {"rule 6", func(l *lockState, _ core.Now) { l.Held().Tag.(*work).alarm = 0 }},
	} {
		t.Run(damage, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fake) {
				c, _, _, leave := contended(t, f)
				breaks(t, c, test.rule, test.change)
				leave()
				time.Sleep(5 * time.Minute)
			})
		})
	}
}

// losesALook makes the tickets of the lock due, of which their calls are not told.
func losesALook(l *lockState, now core.Now) {
	l.Hear(core.Message{Kind: core.ForeignNews}, now)
	l.shard.core.TakeEffects(now)
}

func TestACallThatFailsWithoutAnErrorIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		w := c.newWaiter(&core.Call{Outcome: core.Failed})
		assert.Contains(t, foundBy(func() { _ = c.result(t.Context(), c.lock().Name, w) }), "rule 8")
	})
}

func TestACommandWithoutASlotIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		defer leave()
		limit := &c.wire.Limits(0).Asks
		cmd := core.Command{Op: core.Look, Ticket: core.Ticket{ID: core.ID{N: 1}}}
		assert.Contains(t, foundBy(func() { c.witness.polled(&cmd, limit) }), "rule 4")
		slot, ok := limit.TryEnter()
		require.True(t, ok)
		c.witness.carried(&cmd)
		rulesOf(c).slotted[limit] = 0
		assert.Empty(t, foundBy(func() { c.witness.polled(&cmd, limit) }))
		c.witness.noteAnswerArrived(&cmd)
		slot.FreeSlot()
	})
}

func TestAnAnswerThatIsLostIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		f.gives(held)
		_, got := takes(t.Context(), c.lock())
		synctest.Wait()
		assert.Equal(t, 1, c.witness.countUnanswered())
		cmd := core.Command{Op: core.Acquire}
		breaks(t, c, "rule 4", func(l *lockState, _ core.Now) {
			for tenure := range l.Tenures {
				cmd.ID = tenure.ID
			}
			c.witness.noteAnswerArrived(&cmd) // and package core is not told
		}, func() { c.witness.polled(&cmd, nil) })
		f.deliver(0)
		require.NoError(t, <-got)
		f.gives(passes)
	})
}

func TestAClockThatIsReadBeforeTheMutexIsTakenIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c, _, _, leave := contended(t, f)
		defer leave()
		early := c.clock.now()
		time.Sleep(time.Second)
		c.shardOf(c.lock().Name).underMutex(func() {}) // another goroutine has the mutex meanwhile
		var read core.Now
		breaks(t, c, "rule 5", func(l *lockState, now core.Now) { read, l.shard.at = now, early }, func() { c.shardOf(c.lock().Name).at = read })
	})
}

func TestAMutexUnderAnotherIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		s := c.shardOf(c.lock().Name)
		other := &c.shards[(c.lock().Name.Hash+1)%shardCount]
		s.underMutex(func() {
			assert.Contains(t, foundBy(func() { other.lock() }), "rule 7")
			assert.Contains(t, foundBy(func() { c.runDeferred(&deferred{}) }), "rule 7")
			assert.Empty(t, foundBy(func() { c.queueConfirmation(c.lock().Name) }), "the hub has a mutex of its own, under that of a shard, too")
		})
		c.witness.enters("the hub")
		assert.Contains(t, foundBy(func() { c.tellSubscribed(c.lock().Name) }), "rule 7")
		c.witness.leaves()
	})
}

func TestCodeOfAUserUnderTheMutexIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		hooks := 0
		c := f.join(func(config *Config) {
			config.Observer = &contract.Observer{Acquired: func(context.Context, contract.Event) { hooks++ }, Closed: func() {}}
		})
		ctx := c.witness.watchContext(t.Context())
		for name, code := range map[string]func(){
			"Err": func() { _ = ctx.Err() }, "Done": func() { ctx.Done() }, "Value": func() { ctx.Value(name(0)) },
			"AfterFunc": func() { ctx.(watchedContext).AfterFunc(func() {}) }, "hook": func() { c.Observer.Acquired.Tell(ctx, contract.Event{}) },
		} {
			c.shardOf(c.lock().Name).underMutex(func() { assert.Contains(t, foundBy(code), "rule 7: ", name) })
			assert.Empty(t, foundBy(code), name)
		}
		assert.Equal(t, 1, hooks)
	})
}

type name int

// A spying context counts how often it is asked.
type spying struct {
	context.Context
	asked *atomic.Int32
}

func (c *spying) Err() error { c.asked.Add(1); return c.Context.Err() }

func (c *spying) Done() <-chan struct{} { c.asked.Add(1); return c.Context.Done() }

func (c *spying) Value(key any) any { c.asked.Add(1); return c.Context.Value(key) }

// The witness asserts that no context is asked under the mutex.
func TestNoCodeOfAUserRunsUnderTheMutex(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.join(nil)
		var asked atomic.Int32
		spy := func() context.Context { return &spying{t.Context(), &asked} }
		ctx := spy()
		handle, err := c.lock().Hold(ctx, ctx, Request{Owner: contract.NewHandleOwner(), AcquireOptions: contract.AcquireOptions{Wait: contract.Forever}})
		require.NoError(t, err)
		waits := later(func() error {
			other := spy()
			h, err := c.lock().Hold(other, other, Request{Owner: contract.NewHandleOwner(), AcquireOptions: contract.AcquireOptions{Wait: contract.Forever, Lease: 2 * time.Second}})
			if err == nil {
				<-h.Context().Done() // by its lease
			}
			return err
		})
		require.NoError(t, handle.Release(ctx))
		require.NoError(t, <-waits)
		assert.NotZero(t, asked.Load())
	})
}
