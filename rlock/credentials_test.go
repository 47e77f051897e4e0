package rlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A rotation is a user of the server whose password changes, and what clients take it for.
type rotation struct {
	*site
	password atomic.Pointer[string]
	asked    atomic.Int64
}

func rotates(t *testing.T) *rotation {
	r := &rotation{site: at(t, redistest.Standalone(t))}
	r.admin("ACL", "SETUSER", "locks", "on", "~*", "&*", "+@all")
	r.change("first")
	return r
}

// change replaces the password of the server and that of the clients. No connection is closed.
func (r *rotation) change(password string) {
	r.add(password)
	r.drop(password)
}

// add gives the user one more password, which the clients use from now on.
func (r *rotation) add(password string) {
	r.admin("ACL", "SETUSER", "locks", ">"+password)
	r.password.Store(&password)
}

// drop takes the other passwords from the user.
func (r *rotation) drop(password string) {
	r.admin("ACL", "SETUSER", "locks", "resetpass", ">"+password)
}

// cut ends all connections of the user.
func (r *rotation) cut() {
	r.t.Helper()
	killed, err := r.outside.Do(r.ctx, r.outside.B().Arbitrary("CLIENT", "KILL", "USER", "locks").Build()).AsInt64()
	require.NoError(r.t, err)
	require.Positive(r.t, killed)
}

func (r *rotation) asks(refresh time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) {
		c.Lease = 3 * time.Second // Close waits as long for an acquire that was cut off
		c.Redis.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, _ error) {
			r.asked.Add(1)
			a.Username, a.Password = "locks", *r.password.Load()
			if refresh > 0 {
				a.RefreshAfter = time.Now().Add(refresh)
			}
			return a, nil
		}
	}
}

// In handOver one client waits for the other.
func (r *rotation) handOver(a, b *rlock.Client) {
	r.t.Helper()
	hold, err := a.NewLock(key).Acquire(r.ctx)
	require.NoError(r.t, err)
	waits := background(func() error {
		hold, err := b.NewLock(key).Acquire(r.ctx)
		if err == nil {
			err = hold.Release(r.ctx)
		}
		return err
	})
	r.awaitWaiters(1, key)
	r.awaitListeners(1, plain, "rlock_turn:{"+key+"}:"+b.ID())
	require.NoError(r.t, hold.Release(r.ctx))
	require.NoError(r.t, r.await(waits))
}

func TestLocksAndSubscriptionsOutliveTheirPassword(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.client(r.asks(0)), r.client(r.asks(0))
	r.handOver(a, b)
	before := r.asked.Load()
	hold, err := a.NewLock("other").Acquire(r.ctx)
	require.NoError(t, err)
	r.change("second")
	r.handOver(a, b)
	assert.Equal(t, before, r.asked.Load(), "over the same connections")

	r.cut() // with the new password they come back
	r.handOver(a, b)
	r.handOver(b, a)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.ctx))
}

// A refresh is asked for by each connection of commands. Those of subscriptions are dedicated,
// and rueidis 1.0.79 does not refresh these.
func TestCredentialsThatAreRefreshedDisturbNoLock(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.client(r.asks(100*time.Millisecond)), r.client(r.asks(100*time.Millisecond))
	hold, err := a.NewLock("other").Acquire(r.ctx)
	require.NoError(t, err)
	for _, password := range []string{"second", "third", "fourth"} {
		r.add(password)
		before := r.asked.Load()
		require.Eventually(t, func() bool { return r.asked.Load() > before+10 }, hang, time.Millisecond)
		r.drop(password)
		r.handOver(a, b)
	}
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.ctx))
}

func TestAPasswordThatIsNotTheServersAnyMoreIsReported(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	old := func(c *rlock.Config) {
		c.Lease, c.Redis.Username, c.Redis.Password = 3*time.Second, "locks", "first"
	}
	a, b := r.client(old), r.client(old)
	r.handOver(a, b)
	r.change("second")
	r.handOver(a, b)

	r.cut()
	var err error
	require.Eventually(t, func() bool { // the connection may be found closed
		_, err = a.NewLock(key).TryLock(r.ctx)
		return err != nil
	}, hang, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err = a.NewLock(key).TryLock(r.ctx)
		require.Error(t, err)
		return errors.Is(err, rlock.ErrNoPermission)
	}, hang, time.Millisecond)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "first")

	r.change("first")
	r.handOver(a, b)
}
