package servers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// In handOver one client waits for the other.
func (r *rotation) handOver(a, b *rlock.Client) {
	r.T.Helper()
	hold, err := a.NewLock(testbed.Key).Acquire(r.Ctx)
	require.NoError(r.T, err)
	waits := testbed.Start(func() error {
		hold, err := b.NewLock(testbed.Key).Acquire(r.Ctx)
		if err == nil {
			err = hold.Release(r.Ctx)
		}
		return err
	})
	r.AwaitWaiters(1, testbed.Key)
	r.AwaitListeners(1, testbed.Plain, "rlock_grants:{"+testbed.Key+"}:"+b.ID())
	require.NoError(r.T, hold.Release(r.Ctx))
	require.NoError(r.T, r.Await(waits))
}

func rotates(t *testing.T) *rotation {
	r := &rotation{Site: testbed.At(t, redistest.Standalone(t))}
	r.Admin("ACL", "SETUSER", "locks", "on", "~*", "&*", "+@all")
	r.change("first")
	return r
}

func TestLocksAndSubscriptionsOutliveTheirPassword(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(0)), r.NewClient(r.asks(0))
	r.handOver(a, b)
	before := r.asked.Load()
	hold, err := a.NewLock("other").Acquire(r.Ctx)
	require.NoError(t, err)
	r.change("second")
	r.handOver(a, b)
	assert.Equal(t, before, r.asked.Load(), "over the same connections")

	r.cut() // with the new password they come back
	r.handOver(a, b)
	r.handOver(b, a)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
}

// A refresh is asked for by each connection of commands. Those of subscriptions are dedicated,
// and rueidis 1.0.79 does not refresh these.
func TestCredentialsThatAreRefreshedDisturbNoLock(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.NewClient(r.asks(100*time.Millisecond)), r.NewClient(r.asks(100*time.Millisecond))
	hold, err := a.NewLock("other").Acquire(r.Ctx)
	require.NoError(t, err)
	for _, password := range []string{"second", "third", "fourth"} {
		r.add(password)
		before := r.asked.Load()
		require.Eventually(t, func() bool { return r.asked.Load() > before+10 }, testbed.Hang, time.Millisecond)
		r.drop(password)
		r.handOver(a, b)
	}
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.Ctx))
}

func TestAPasswordThatIsNotTheServersAnyMoreIsReported(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	old := func(c *rlock.Config) {
		c.Lease, c.Redis.Username, c.Redis.Password = 3*time.Second, "locks", "first"
	}
	a, b := r.NewClient(old), r.NewClient(old)
	r.handOver(a, b)
	r.change("second")
	r.handOver(a, b)

	r.cut()
	var err error
	require.Eventually(t, func() bool { // the connection may be found closed
		_, err = a.NewLock(testbed.Key).TryLock(r.Ctx)
		return err != nil
	}, testbed.Hang, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err = a.NewLock(testbed.Key).TryLock(r.Ctx)
		require.Error(t, err)
		return errors.Is(err, rlock.ErrNoPermission)
	}, testbed.Hang, time.Millisecond)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "first")

	r.change("first")
	r.handOver(a, b)
}

// No log and no error shows the user name.

const user, password = "accounting", "hunter2"

func TestNeitherLogsNorErrorsNameTheUserOrThePassword(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	log := &testbed.Journal{}
	var errs []error
	permit := func(rules ...string) {
		command := append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + password, "~*", "&*", "+@all"}, rules...)
		require.NoError(t, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary(command...).Build()).Error())
	}
	config := rlock.Config{Redis: s.Options(), Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	config.Redis.Username, config.Redis.Password = user, password

	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission, "the user does not exist")
	errs = append(errs, err)
	for _, rule := range []string{"-evalsha", "-hset", "-hget", "-publish", "-subscribe", "resetkeys", "resetchannels"} {
		permit(rule)
		for _, err := range s.Rehearse(testbed.Key, config) {
			errs = append(errs, err)
		}
	}

	permit()
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	hold, err := client.NewLock(testbed.Key).Acquire(s.Ctx)
	require.NoError(t, err)
	require.NoError(t, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("ACL", "DELUSER", user).Build()).Error()) // deletes the user's connections, too
	<-hold.Context().Done()
	errs = append(errs, context.Cause(hold.Context()), hold.Release(s.Ctx))
	_, err = client.NewLock(testbed.Key).TryLock(s.Ctx)
	require.Error(t, err)
	errs = append(errs, err)
	s.Stop()
	_, err = client.NewLock(testbed.Key).TryLock(s.Ctx)
	require.Error(t, err)
	_, again := rlock.New(config)
	require.Error(t, again)
	errs = append(errs, err, again)
	s.Start()

	for _, credentials := range []string{user + ":" + password + "@127.0.0.1:6379", "redis://" + user + ":" + password + "@127.0.0.1:6379"} {
		config := rlock.Config{Logger: config.Logger}
		config.Redis.InitAddress = []string{credentials}
		_, err := rlock.New(config)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		errs = append(errs, err)
	}

	assert.Greater(t, len(errs), 20)
	for _, err := range errs {
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		assert.NotContains(t, text, user)
		assert.NotContains(t, text, password)
	}
	assert.NotZero(t, log.Count(""))
	assert.Zero(t, log.Count(user))
	assert.Zero(t, log.Count(password))
}

// Redis names the user since 7.2.
func TestARefusalIsReportedWithoutTheNameOfTheUser(t *testing.T) {
	for what, words := range map[string]string{
		"a command":             "NOPERM User accounting has no permissions to run the 'evalsha' command",
		"a command in a script": "ERR ACL failure in script: User accounting has no permissions to run the 'hset' command script: 4413ba47, on @user_script:17.",
		"a key":                 "NOPERM User accounting has no permissions to access the 'orders:42' key",
	} {
		t.Run(what, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p := w.NewClient()
				w.AnswerScripts(words)
				err := p.NewLock(testbed.Key).Lock(w.Caller())
				require.ErrorIs(t, err, rlock.ErrNoPermission)
				assert.ErrorContains(t, err, "the user has no permissions")
				assert.NotContains(t, err.Error(), user)
			})
		})
	}
	t.Run("a channel", func(t *testing.T) {
		testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
			p, other, me := w.NewClient(), w.NewClient(), w.Caller()
			w.Answer(func(command string, _ ...string) string {
				if command == "subscribe" {
					return "NOPERM User accounting has no permissions to access the '" + testbed.Channel + "' channel"
				}
				return ""
			})
			hold, err := other.NewLock(testbed.Key).Acquire(me)
			require.NoError(t, err)
			waiter := testbed.Start(func() error { return p.NewLock(testbed.Key).Do(me, func(context.Context) error { return nil }) })
			require.True(t, testbed.Pending(waiter))
			require.NoError(t, hold.Release(me))
			require.NoError(t, <-waiter)
			assert.Equal(t, 2, p.Logged("the user has no permissions"), "one for waiters' subscriptions, and one for the client's own channel")
			assert.Equal(t, 1, p.Logged("level=WARN"))
			assert.Zero(t, p.Logged(user))
		})
	})
}
