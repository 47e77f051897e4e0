package prototype_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/clientlease/prototype"
	"github.com/go-rlock/rlock/internal/redistest"
)

var config = prototype.Config{Lease: 30 * time.Second, Backstop: time.Hour}

// A world is one server in virtual time, with its clients.
type world struct {
	*testing.T
	ctx   context.Context
	redis rueidis.Client
}

func bubble(t *testing.T, run func(w world)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		run(world{t, t.Context(), s.Client(t)})
	})
}

func (w world) open(name string) *prototype.Client {
	w.Helper()
	c, err := prototype.Open(w.ctx, w.redis, name, config)
	require.NoError(w, err)
	return c
}

// take acquires a free lock.
func (w world) take(c *prototype.Client, name string) {
	w.Helper()
	refusal, err := c.Take(w.ctx, name)
	require.NoError(w, err)
	require.Nil(w, refusal)
}

// hold acquires a lock and attaches it.
func (w world) hold(c *prototype.Client, names ...string) {
	w.Helper()
	for _, name := range names {
		w.take(c, name)
	}
	lost, err := c.Attach(w.ctx, names...)
	require.NoError(w, err)
	require.Empty(w, lost)
}

func (w world) refused(c *prototype.Client, name string) prototype.Refusal {
	w.Helper()
	refusal, err := c.Take(w.ctx, name)
	require.NoError(w, err)
	require.NotNil(w, refusal)
	return *refusal
}

func (w world) delete(key string) {
	w.Helper()
	require.NoError(w, w.redis.Do(w.ctx, w.redis.B().Del().Key(key).Build()).Error())
}

func TestOneRenewalKeepsAllAttachedLocks(t *testing.T) {
	bubble(t, func(w world) {
		holder, other := w.open("holder"), w.open("other")
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("lock:", i))
		}
		w.hold(holder, names...)
		for range 30 { // five minutes
			time.Sleep(config.Lease / 3)
			require.NoError(w, holder.Renew(w.ctx))
		}
		for _, name := range names {
			assert.True(w, holder.Valid(name))
			assert.Equal(w, "holder:1", w.refused(other, name).Owner)
		}
	})
}

func TestALockOfADeadClientIsTakenByTheNextAcquire(t *testing.T) {
	bubble(t, func(w world) {
		dead, other := w.open("dead"), w.open("other")
		w.hold(dead, "lock")
		refusal := w.refused(other, "lock")
		assert.Equal(w, dead.Key(), refusal.ClientLease)
		assert.Equal(w, config.Lease, refusal.Left, "a waiter sleeps for the rest of the client lease, and not of the backstop")
		time.Sleep(refusal.Left)
		w.take(other, "lock")
		assert.True(w, other.Valid("lock"))
		gone, err := dead.Release(w.ctx, "lock")
		require.NoError(w, err)
		assert.False(w, gone, "a late release")
	})
}

func TestAnAcquireThatDoesNotNameTheClientLeaseTakesNothing(t *testing.T) {
	bubble(t, func(w world) {
		dead, other := w.open("dead"), w.open("other")
		w.hold(dead, "lock")
		time.Sleep(config.Lease)
		for _, presumed := range []string{"", "rlock_client:other:1"} {
			refusal, err := other.Acquire(w.ctx, "lock", presumed)
			require.NoError(w, err)
			require.NotNil(w, refusal, presumed)
			assert.Equal(w, dead.Key(), refusal.ClientLease)
		}
	})
}

func TestALockThatWasNotAttachedEndsByItself(t *testing.T) {
	bubble(t, func(w world) {
		holder, other := w.open("holder"), w.open("other")
		w.take(holder, "lock")
		assert.Empty(w, w.refused(other, "lock").ClientLease)
		time.Sleep(config.Lease / 2)
		require.NoError(w, holder.Renew(w.ctx), "the client lives")
		time.Sleep(config.Lease / 2)
		assert.False(w, holder.Valid("lock"))
		w.take(other, "lock")
	})
}

func TestNoHolderTrustsALockThatOthersMayTake(t *testing.T) {
	for name, attach := range map[string]bool{"attached": true, "not attached": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w world) {
				holder, other := w.open("holder"), w.open("other")
				if attach {
					w.hold(holder, "lock")
				} else {
					w.take(holder, "lock")
				}
				time.Sleep(config.Lease - time.Second)
				require.True(w, holder.Valid("lock"))
				for range 2000 {
					refusal, err := other.Take(w.ctx, "lock")
					require.NoError(w, err)
					if refusal == nil {
						require.False(w, holder.Valid("lock"), "two holders")
						return
					}
					time.Sleep(time.Millisecond)
				}
				w.Fatal("the lock was never free")
			})
		})
	}
}

func TestAnAttachWithoutAnAnswerIsBelievedUntilTheEarlierEnd(t *testing.T) {
	bubble(t, func(w world) {
		holder := w.open("holder")
		time.Sleep(config.Lease / 2)
		w.take(holder, "lock")
		cancelled, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err := holder.Attach(cancelled, "lock")
		require.ErrorIs(w, err, context.Canceled)
		assert.True(w, holder.Valid("lock"))
		time.Sleep(config.Lease / 2)
		assert.False(w, holder.Valid("lock"), "the lock's own lease has 15 s left; but it may be attached, and the client lease is over")
	})
}

func TestAClientLeaseThatEndedDoesNotComeBack(t *testing.T) {
	bubble(t, func(w world) {
		holder, other := w.open("holder"), w.open("other")
		w.hold(holder, "a", "b")
		time.Sleep(config.Lease)
		require.ErrorIs(w, holder.Renew(w.ctx), prototype.ErrOver)
		_, err := holder.Attach(w.ctx, "a")
		require.ErrorIs(w, err, prototype.ErrOver)
		require.NoError(w, holder.Reopen(w.ctx))
		assert.False(w, holder.Valid("a"))
		w.take(other, "a") // though its client lives
		w.take(other, "b")
	})
}

func TestALateAttachDoesNotTakeALock(t *testing.T) {
	bubble(t, func(w world) {
		slow, other := w.open("slow"), w.open("other")
		w.take(slow, "lock")
		time.Sleep(config.Lease)
		require.NoError(w, slow.Reopen(w.ctx))
		w.take(other, "lock")
		lost, err := slow.Attach(w.ctx, "lock")
		require.NoError(w, err)
		assert.Equal(w, []string{"lock"}, lost)
		assert.Empty(w, w.refused(slow, "lock").ClientLease)
	})
}

func TestAnAbandonedLockEndsAtTheBackstop(t *testing.T) {
	bubble(t, func(w world) {
		dead := w.open("dead")
		w.hold(dead, "lock")
		exists := func() bool {
			n, err := w.redis.Do(w.ctx, w.redis.B().Exists().Key("lock").Build()).AsBool()
			require.NoError(w, err)
			return n
		}
		time.Sleep(config.Backstop - time.Second)
		assert.True(w, exists(), "garbage")
		time.Sleep(time.Second)
		assert.False(w, exists())
	})
}

// The first disadvantage: the loss of one key is the loss of all locks of a client.
func TestTheLossOfTheClientsKeyLosesAllItsLocks(t *testing.T) {
	bubble(t, func(w world) {
		holder, other := w.open("holder"), w.open("other")
		w.hold(holder, "a", "b")
		w.delete(holder.Key())
		w.take(other, "a")
		w.take(other, "b")
		assert.True(w, holder.Valid("a"), "two holders, until the next renewal")
		require.ErrorIs(w, holder.Renew(w.ctx), prototype.ErrOver)
		assert.False(w, holder.Valid("a"))
		assert.False(w, holder.Valid("b"))
	})
}

// Part two: the renewal does not look at the lock.
func TestALockThatIsDeletedIsNotMissed(t *testing.T) {
	bubble(t, func(w world) {
		holder, other := w.open("holder"), w.open("other")
		w.hold(holder, "lock")
		w.delete("lock")
		w.take(other, "lock")
		for range 10 {
			time.Sleep(config.Lease / 3)
			require.NoError(w, holder.Renew(w.ctx))
		}
		assert.True(w, holder.Valid("lock"), "two holders, until one of them looks")
		lost, err := holder.Attach(w.ctx, "lock") // as the backstop's renewal does
		require.NoError(w, err)
		assert.Equal(w, []string{"lock"}, lost)
	})
}
