package servers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rotation is a user of the server whose password changes, and what clients take it for.
type rotation struct {
	*testbed.Site
	password atomic.Pointer[string]
	asked    atomic.Int64
}

// change replaces the password of the server and that of the clients. No connection is closed.
func (r *rotation) change(password string) {
	r.add(password)
	r.drop(password)
}

// add gives the user one more password, which the clients use from now on.
func (r *rotation) add(password string) {
	r.Admin("ACL", "SETUSER", "locks", ">"+password)
	r.password.Store(&password)
}

// drop takes the other passwords from the user.
func (r *rotation) drop(password string) {
	r.Admin("ACL", "SETUSER", "locks", "resetpass", ">"+password)
}

// cut ends all connections of the user.
func (r *rotation) cut() {
	r.T.Helper()
	killed, err := r.Outside.Do(r.Ctx, r.Outside.B().Arbitrary("CLIENT", "KILL", "USER", "locks").Build()).AsInt64()
	require.NoError(r.T, err)
	require.Positive(r.T, killed)
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

func rotates(t *testing.T) *rotation {
	r := &rotation{Site: testbed.At(t, redistest.Standalone(t))}
	r.Admin("ACL", "SETUSER", "locks", "on", "~*", "&*", "+@all")
	r.change("first")
	return r
}

// Connections outlive a change of the password. New ones need the new one, which clients that are asked for it give.
func TestLocksAndSubscriptionsOutliveTheirPassword(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(0)), r.NewClient(r.asks(0))
	old := r.NewClient(func(c *rlock.Config) {
		c.Lease, c.Redis.Username, c.Redis.Password = 3*time.Second, "locks", "first"
	})
	r.HandOver(a, b)
	r.HandOver(a, old)
	before := r.asked.Load()
	hold := testbed.Take(t, r.Ctx, a.NewLock("other"))
	r.change("second")
	r.HandOver(a, b)
	r.HandOver(b, old)
	assert.Equal(t, before, r.asked.Load(), "over the same connections")

	r.cut()
	r.HandOver(a, b)
	r.HandOver(b, a)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
	var err error
	require.Eventually(t, func() bool { // the connection may be found closed
		_, err = old.NewLock(testbed.Key).TryLock(r.Ctx)
		require.Error(t, err)
		return errors.Is(err, rlock.ErrNoPermission)
	}, testbed.Hang, time.Millisecond)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "first")
	r.change("first")
	r.HandOver(a, old)
}

// A refresh is asked for by each connection of commands. Those of subscriptions are dedicated,
// and rueidis 1.0.79 does not refresh these.
func TestCredentialsThatAreRefreshedDisturbNoLock(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(100*time.Millisecond)), r.NewClient(r.asks(100*time.Millisecond))
	hold := testbed.Take(t, r.Ctx, a.NewLock("other"))
	for _, password := range []string{"second", "third", "fourth"} {
		r.add(password)
		before := r.asked.Load()
		require.Eventually(t, func() bool { return r.asked.Load() > before+10 }, testbed.Hang, time.Millisecond)
		r.drop(password)
		r.HandOver(a, b)
	}
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
}

// No log and no error shows the user name.

// Redis names the user since 7.2.
func TestNeitherLogsNorErrorsNameTheUserOrThePassword(t *testing.T) {
	const user, password = "accounting", "hunter2"
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	log := &testbed.Journal{}
	var errs []error
	permit := func(rules ...string) {
		s.Admin("ACL", append([]string{"SETUSER", user, "reset", "on", ">" + password, "~*", "&*", "+@all"}, rules...)...)
	}
	config := rlock.Config{Redis: s.Options(), Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	config.Redis.Username, config.Redis.Password = user, password
	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission, "the user does not exist")
	errs = append(errs, err)
	for _, rule := range []string{"-evalsha", "-hset", "-publish", "-subscribe", "resetkeys", "resetchannels"} {
		permit(rule)
		errs = slices.AppendSeq(errs, maps.Values(s.Rehearse(testbed.Key, config)))
	}

	permit()
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	hold := testbed.Take(t, s.Ctx, client.NewLock(testbed.Key))
	s.Admin("ACL", "DELUSER", user) // deletes the user's connections, too
	<-hold.Context().Done()
	errs = append(errs, context.Cause(hold.Context()), hold.Release(s.Ctx))
	attempt := func() {
		_, err := client.NewLock(testbed.Key).TryLock(s.Ctx)
		require.Error(t, err)
		errs = append(errs, err)
	}
	attempt()
	s.Stop()
	attempt()
	s.Start()
	for _, address := range []string{user + ":" + password + "@127.0.0.1:6379", "redis://" + user + ":" + password + "@127.0.0.1:6379"} {
		_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{address}}})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		errs = append(errs, err)
	}

	assert.Greater(t, len(errs), 18)
	for _, err := range errs {
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		assert.NotContains(t, text, user)
		assert.NotContains(t, text, password)
	}
	assert.NotZero(t, log.Count(""))
	assert.Zero(t, log.Count(user))
	assert.Zero(t, log.Count(password))
}
