package servers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestANameThatNoLockCanHaveIsRefusedByEveryMethod(t *testing.T) {
	for name, key := range map[string]string{"empty": "", "too long": strings.Repeat("x", 64<<10+1)} {
		t.Run(name, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewLock(key)
				before := len(p.Net.Sent(""))
				calls := map[string]func() error{
					"Lock":        func() error { return lock.Lock(me) },
					"LockFor":     func() error { return lock.LockFor(me, time.Second) },
					"TryLock":     func() error { _, err := lock.TryLock(me); return err },
					"TryLockFor":  func() error { _, err := lock.TryLockFor(me, time.Second, 0); return err },
					"Unlock":      func() error { return lock.Unlock(me) },
					"ForceUnlock": func() error { _, err := lock.ForceUnlock(me); return err },
					"IsLocked":    func() error { _, err := lock.IsLocked(me); return err },
					"TTL":         func() error { _, err := lock.TTL(me); return err },
					"Acquire":     func() error { _, err := lock.Acquire(me); return err },
					"Attempt":     func() error { _, err := lock.Acquire(me, rlock.WithWait(0)); return err },
					"Do":          func() error { return lock.Do(me, func(context.Context) error { panic("called") }) },
				}
				for method, call := range calls {
					require.ErrorIs(t, call(), rlock.ErrInvalidName, method)
				}
				assert.False(t, lock.IsHeld(me))
				assert.Zero(t, lock.HoldCount(me))
				assert.Len(t, p.Net.Sent(""), before, "no command")
			})
		})
	}
}

func TestAPermanentErrorIsReturnedAtOnce(t *testing.T) {
	for reply, want := range map[string]error{
		"NOPERM this user has no permissions to run the 'evalsha' command": rlock.ErrNoPermission,
		"NOAUTH Authentication required.":                                  rlock.ErrNoPermission,
		"ERR unknown command 'EVALSHA', with args beginning with: ":        rlock.ErrUnsupported,
		"WRONGPASS invalid username-password pair or user is disabled.":    rlock.ErrNoPermission,
		// In a script, Valkey 8 and later:
		"ERR Unknown command called from script script: f_ab, on @user_script:12.": rlock.ErrUnsupported,
		// Redis 7 and later:
		"ERR Unknown Redis command called from script script: f_ab, on @user_script:12.": rlock.ErrUnsupported,
		// Redis 6 and before:
		"ERR Error running script (call to f_ab): @user_script:12: WRONGTYPE Operation against a key":                            rlock.ErrWrongType,
		"ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: Unknown Redis command called from Lua script": rlock.ErrUnsupported,
	} {
		t.Run(reply, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
				w.AnswerScripts(reply)
				testbed.Within(t, 0, 0, func() {
					err := lock.Lock(me)
					require.ErrorIs(t, err, want)
					var redis *rueidis.RedisError
					if want == rlock.ErrWrongType {
						require.ErrorAs(t, err, &redis, "with the words of Redis behind its own")
						err = redis
					}
					require.ErrorContains(t, err, strings.TrimPrefix(reply, "ERR "), "with the words of Redis")
					_, err = lock.TryLockFor(me, time.Minute, 0)
					require.ErrorIs(t, err, want)
				})
				w.AnswerScripts("")
				require.NoError(t, lock.Lock(me))
				require.NoError(t, lock.Unlock(me))
			})
		})
	}
}

func TestATransientErrorIsRetried(t *testing.T) {
	testbed.ManyCommands(t)
	for _, reply := range testbed.Passing {
		t.Run(reply, func(t *testing.T) {
			testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
				p, me := w.NewClient(), w.Caller()
				lock := p.NewLock(testbed.Key)
				w.AnswerScripts(reply)
				result := testbed.Start(func() error { return lock.Lock(me) })
				time.Sleep(time.Minute)
				require.True(t, testbed.Pending(result))
				w.AnswerScripts("")
				testbed.Within(t, 0, 500*time.Millisecond, func() { require.NoError(t, <-result) })
				require.NoError(t, lock.Unlock(me))
				assert.Empty(t, w.Keys())
			})
		})
	}
}

func TestOneLineAMinuteLogsWhyCallsAreNotServed(t *testing.T) {
	redistest.Slow(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		w.AnswerScripts(testbed.Passing[1])
		ctx, cancel := context.WithCancel(w.Ctx)
		var results []<-chan error
		for i := range 20 {
			results = append(results, testbed.Start(func() error { return p.NewLock(fmt.Sprint(i)).Lock(ctx) }))
		}
		time.Sleep(4900 * time.Millisecond)
		assert.Zero(t, p.Logged(testbed.Unserved), "a failover takes seconds")
		time.Sleep(time.Second)
		assert.Equal(t, 1, p.Logged(testbed.Unserved))
		assert.Equal(t, 1, p.Logged("READONLY"))
		time.Sleep(time.Minute)
		assert.Equal(t, 2, p.Logged(testbed.Unserved))

		w.AnswerScripts("")
		time.Sleep(time.Second)
		cancel()
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.NoError(t, p.NewLock(testbed.Key).Lock(w.Caller()))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 2, p.Logged(testbed.Unserved), "an old trouble is not told")
	})
}

func TestOneAttemptReturnsATransientErrorAtOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock, me := w.NewClient().NewLock(testbed.Key), w.Caller()
		for _, reply := range testbed.Passing {
			w.AnswerScripts(reply)
			testbed.Within(t, 0, 0, func() {
				ok, err := lock.TryLock(me)
				require.ErrorContains(t, err, strings.TrimPrefix(reply, "ERR "))
				assert.False(t, ok)
				_, err = lock.Acquire(me, rlock.WithWait(0))
				require.ErrorContains(t, err, strings.TrimPrefix(reply, "ERR "))
				require.NotErrorIs(t, err, rlock.ErrNotAcquired, "Redis did not say that the lock is held")
			})
		}
	})
}

func TestAnErrorCarriesTheContextsAndRedisLast(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		lock := w.NewClient().NewLock(testbed.Key)
		w.AnswerScripts(testbed.Passing[0])
		ctx, cancel := context.WithTimeout(w.Caller(), time.Minute)
		defer cancel()
		err := lock.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, testbed.Passing[0])
		var reply *rueidis.RedisError
		require.ErrorAs(t, err, &reply)

		ctx, stop := context.WithCancel(w.Caller())
		result := testbed.Start(func() error { return lock.Lock(ctx) })
		require.True(t, testbed.Pending(result))
		stop()
		err = <-result
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, testbed.Passing[0])
	})
}

func TestScriptsThatAreFlushedAllTheTimeAreSentAgain(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		admin := w.Outsider()
		done := make(chan struct{})
		flushed := testbed.Start(func() error {
			for {
				select {
				case <-done:
					return nil
				case <-time.After(10 * time.Millisecond):
					if err := admin.Do(w.Ctx, admin.B().ScriptFlush().Build()).Error(); err != nil {
						return err
					}
				}
			}
		})
		counter := testbed.NewCounter(t)
		var results []<-chan error
		for range 3 {
			lock := w.NewClient(func(c *rlock.Config) { c.Lease = time.Second }).NewLock(testbed.Key)
			for range 4 {
				me := w.Caller()
				results = append(results, testbed.Start(func() error {
					for range 50 {
						if err := counter.Section(me, lock, 7*time.Millisecond); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
		close(done)
		require.NoError(t, <-flushed)
		assert.Equal(t, 600, counter.N)
		assert.Empty(t, w.Keys())
	})
}

// The same on a real server, with the words of Redis.

func TestAUserWithoutTheRightsGetsErrNoPermission(t *testing.T) {
	server, admin := testbed.Standalone(t)
	ctx := context.Background()
	for name, rights := range map[string][]string{
		"no scripts":            {"-evalsha"},
		"no command in scripts": {"-hset"},
		"not this key":          {"resetkeys", "~another"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all"}, rights...)
			require.NoError(t, admin.Do(ctx, admin.B().Arbitrary(args...).Build()).Error())
			option := server.Options()
			option.Username, option.Password = "limited", "secret"
			lock := testbed.Dial(t, option).NewLock(testbed.Key)
			err := lock.Lock(ctx)
			require.ErrorIs(t, err, rlock.ErrNoPermission)
			assert.NotContains(t, err.Error(), "secret")
			locked, err := testbed.Dial(t, server.Options()).NewLock(testbed.Key).IsLocked(ctx)
			require.NoError(t, err)
			assert.False(t, locked)
		})
	}
}

func TestACommandThatIsRenamedAwayIsUnsupported(t *testing.T) {
	t.Run("EVALSHA", func(t *testing.T) {
		server, _ := testbed.Standalone(t, "--rename-command", "EVALSHA", "")
		require.ErrorIs(t, testbed.Dial(t, server.Options()).NewLock(testbed.Key).Lock(context.Background()), rlock.ErrUnsupported)
	})
	t.Run("HSET", func(t *testing.T) {
		server, _ := testbed.Standalone(t, "--rename-command", "HSET", "")
		require.ErrorIs(t, testbed.Dial(t, server.Options()).NewLock(testbed.Key).Lock(context.Background()), rlock.ErrUnsupported)
	})
	t.Run("sharded pub/sub", func(t *testing.T) {
		testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
			net := network.New(w.Dial)
			defer net.Close()
			_, err := rlock.New(rlock.Config{
				Redis:  rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: net.Dial},
				PubSub: rlock.PubSubSharded,
			})
			require.ErrorIs(t, err, rlock.ErrUnsupported)
		})
	})
}

func TestAFullServerIsWaitedForAndItsLocksCanBeUnlocked(t *testing.T) {
	server, admin := testbed.Standalone(t)
	ctx := context.Background()
	maxmemory := func(bytes string) {
		require.NoError(t, admin.Do(ctx, admin.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", bytes).Build()).Error())
	}
	client := testbed.Dial(t, server.Options())
	held := client.NewLock("held")
	require.NoError(t, held.Lock(ctx))
	maxmemory("1")
	_, err := client.NewLock(testbed.Key).TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	scripts := func() (calls int) {
		stats, err := admin.Do(ctx, admin.B().Info().Section("commandstats").Build()).ToString()
		if err == nil {
			_, err = fmt.Sscanf(testbed.FieldsOf(stats)["cmdstat_evalsha"], "calls=%d", &calls)
		}
		assert.NoError(t, err)
		return calls
	}
	before := scripts()
	waits, leave := context.WithCancel(ctx)
	waiter := testbed.Start(func() error { return client.NewLock(testbed.Key).Lock(waits) })
	// Each failed acquire is followed by a release; that of TryLock may still be under way.
	require.Eventually(t, func() bool { return scripts() >= before+4 }, testbed.Hang, time.Millisecond, "it asks again")
	leave()
	err = <-waiter
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, held.Unlock(ctx))
	maxmemory("0")
	require.NoError(t, client.NewLock(testbed.Key).Lock(ctx))
	require.NoError(t, client.NewLock(testbed.Key).Unlock(ctx))
}
