package rlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// No log and no error shows the user name.

const user, password = "accounting", "hunter2"

func TestNeitherLogsNorErrorsNameTheUserOrThePassword(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	log := &journal{}
	var errs []error
	permit := func(rules ...string) {
		command := append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + password, "~*", "&*", "+@all"}, rules...)
		require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary(command...).Build()).Error())
	}
	config := rlock.Config{Redis: s.Options(), Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	config.Redis.Username, config.Redis.Password = user, password

	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission, "the user does not exist")
	errs = append(errs, err)
	for _, rule := range []string{"-evalsha", "-hset", "-hget", "-publish", "-subscribe", "resetkeys", "resetchannels"} {
		permit(rule)
		for _, err := range s.rehearse(key, config) {
			errs = append(errs, err)
		}
	}

	permit()
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	hold, err := client.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("ACL", "DELUSER", user).Build()).Error()) // deletes the user's connections, too
	<-hold.Context().Done()
	errs = append(errs, context.Cause(hold.Context()), hold.Release(s.ctx))
	_, err = client.NewLock(key).TryLock(s.ctx)
	require.Error(t, err)
	errs = append(errs, err)
	s.Stop()
	_, err = client.NewLock(key).TryLock(s.ctx)
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
	assert.NotZero(t, log.count(""))
	assert.Zero(t, log.count(user))
	assert.Zero(t, log.count(password))
}

// Redis names the user since 7.2.
func TestARefusalIsReportedWithoutTheNameOfTheUser(t *testing.T) {
	for what, words := range map[string]string{
		"a command":             "NOPERM User accounting has no permissions to run the 'evalsha' command",
		"a command in a script": "ERR ACL failure in script: User accounting has no permissions to run the 'hset' command script: 4413ba47, on @user_script:17.",
		"a key":                 "NOPERM User accounting has no permissions to access the 'orders:42' key",
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				w.answerScripts(words)
				err := p.NewLock(key).Lock(w.caller())
				require.ErrorIs(t, err, rlock.ErrNoPermission)
				assert.ErrorContains(t, err, "the user has no permissions")
				assert.NotContains(t, err.Error(), user)
			})
		})
	}
	t.Run("a channel", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			p, other, me := w.client(), w.client(), w.caller()
			w.answer(func(command string, _ ...string) string {
				if command == "subscribe" {
					return "NOPERM User accounting has no permissions to access the '" + channel + "' channel"
				}
				return ""
			})
			hold, err := other.NewLock(key).Acquire(me)
			require.NoError(t, err)
			waiter := start(func() error { return p.NewLock(key).Do(me, func(context.Context) error { return nil }) })
			require.True(t, pending(waiter))
			require.NoError(t, hold.Release(me))
			require.NoError(t, <-waiter)
			assert.Equal(t, 2, p.logged("the user has no permissions"), "one for waiters' subscriptions, and one for the client's own channel")
			assert.Equal(t, 1, p.logged("level=WARN"))
			assert.Zero(t, p.logged(user))
		})
	})
}

// A name is an argument of a script, and never a part of one: there are three scripts for all
// names.
func TestAllNamesShareThreeScripts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hostile := []string{
			"\"]] redis.call('flushall') --[[", "' .. redis.call('flushall') .. '", "') return redis.call('flushall') --",
			"KEYS[1]", "%s%n%d", "$(reboot)", "a\r\n*1\r\n$8\r\nFLUSHALL\r\n", "a\x00b", "{a}", "}{", `\`, "*", "\"", strings.Repeat("]", 1000),
		}
		require.NoError(t, w.Set("untouched", "1"))
		for _, name := range hostile {
			lock, one, two := p.NewLock(name), w.caller(), w.caller()
			require.NoError(t, lock.Lock(one))
			require.NoError(t, lock.Lock(one))
			waiter := start(func() error { return lock.Lock(two) })
			require.True(t, pending(waiter))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, <-waiter)
			assert.True(t, w.Exists(name))
			require.NoError(t, lock.Unlock(two))
		}
		assert.True(t, w.Exists("untouched"))
		scripts := make(map[string]bool)
		for _, f := range p.net.Sent("EVALSHA") {
			scripts[f.Args[1]] = true
			assert.Contains(t, hostile, f.Args[3])
		}
		assert.Len(t, scripts, 3)
		scripts = make(map[string]bool)
		for _, f := range p.net.Sent("EVAL") {
			scripts[f.Args[1]] = true
		}
		assert.Len(t, scripts, 3)
	})
}
