package rlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestANameThatNoLockCanHaveIsRefusedByEveryMethod(t *testing.T) {
	for name, key := range map[string]string{"empty": "", "too long": strings.Repeat("x", 64<<10+1)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				lock := p.NewLock(key)
				before := len(p.net.Sent(""))
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
				assert.Len(t, p.net.Sent(""), before, "no command")
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
			bubble(t, func(t *testing.T, w *world) {
				lock, me := w.client().NewLock(key), w.caller()
				w.answerScripts(reply)
				within(t, 0, 0, func() {
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
				w.answerScripts("")
				require.NoError(t, lock.Lock(me))
				require.NoError(t, lock.Unlock(me))
			})
		})
	}
}

// passing are the errors of a server that may recover.
var passing = []string{
	"LOADING Redis is loading the dataset in memory",
	"READONLY You can't write against a read only replica.",
	"OOM command not allowed when used memory > 'maxmemory'.",
	"CLUSTERDOWN The cluster is down",
	"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
	"TRYAGAIN Multiple keys request during rehashing of slot",
	"NOREPLICAS Not enough good replicas to write.",
	"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	"ERR max number of clients reached",
	"ERR Error running script (call to f_ab): @user_script:9: @user_script: 9: -OOM command not allowed when used memory > 'maxmemory'.",
}

func TestATransientErrorIsRetried(t *testing.T) {
	manyCommands(t)
	for _, reply := range passing {
		t.Run(reply, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, me := w.client(), w.caller()
				lock := p.NewLock(key)
				w.answerScripts(reply)
				result := start(func() error { return lock.Lock(me) })
				time.Sleep(time.Minute)
				require.True(t, pending(result))
				w.answerScripts("")
				within(t, 0, 500*time.Millisecond, func() { require.NoError(t, <-result) })
				require.NoError(t, lock.Unlock(me))
				assert.Empty(t, w.Keys())
			})
		})
	}
}

// unserved is logged of calls that wait while Redis refuses them, maybe for good: it is a
// replica, or full.
const unserved = "rlock: Redis does not serve the calls for a lock, which go on trying"

func TestOneLineAMinuteLogsWhyCallsAreNotServed(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		w.answerScripts(passing[1])
		ctx, cancel := context.WithCancel(w.ctx)
		var results []<-chan error
		for i := range 20 {
			results = append(results, start(func() error { return p.NewLock(fmt.Sprint(i)).Lock(ctx) }))
		}
		time.Sleep(4900 * time.Millisecond)
		assert.Zero(t, p.logged(unserved), "a failover takes seconds")
		time.Sleep(time.Second)
		assert.Equal(t, 1, p.logged(unserved))
		assert.Equal(t, 1, p.logged("READONLY"))
		time.Sleep(time.Minute)
		assert.Equal(t, 2, p.logged(unserved))

		w.answerScripts("")
		time.Sleep(time.Second)
		cancel()
		for _, result := range results {
			require.NoError(t, <-result)
		}
		require.NoError(t, p.NewLock(key).Lock(w.caller()))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, 2, p.logged(unserved), "an old trouble is not told")
	})
}

func TestALineLogsWhyARedLockIsNotServed(t *testing.T) {
	quorum(t, func(t *testing.T, w *fiveWorlds) {
		m := w.member()
		for _, world := range w.worlds[2:] {
			world.answerScripts(passing[1])
		}
		ctx, cancel := context.WithTimeout(w.caller(), 30*time.Second)
		defer cancel()
		require.Error(t, m.Lock(ctx))
		assert.Equal(t, 1, m.testClients[0].logged(unserved))
		assert.Equal(t, 1, m.testClients[0].logged("READONLY"))
	})
}

func TestOneAttemptReturnsATransientErrorAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lock, me := w.client().NewLock(key), w.caller()
		for _, reply := range passing {
			w.answerScripts(reply)
			within(t, 0, 0, func() {
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
	bubble(t, func(t *testing.T, w *world) {
		lock := w.client().NewLock(key)
		w.answerScripts(passing[0])
		ctx, cancel := context.WithTimeout(w.caller(), time.Minute)
		defer cancel()
		err := lock.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, passing[0])
		var reply *rueidis.RedisError
		require.ErrorAs(t, err, &reply)

		ctx, stop := context.WithCancel(w.caller())
		result := start(func() error { return lock.Lock(ctx) })
		require.True(t, pending(result))
		stop()
		err = <-result
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, passing[0])
	})
}

func TestScriptsThatAreFlushedAllTheTimeAreSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		admin := w.outsider()
		done := make(chan struct{})
		flushed := start(func() error {
			for {
				select {
				case <-done:
					return nil
				case <-time.After(10 * time.Millisecond):
					if err := admin.Do(w.ctx, admin.B().ScriptFlush().Build()).Error(); err != nil {
						return err
					}
				}
			}
		})
		counter := newCounter(t)
		var results []<-chan error
		for range 3 {
			lock := w.client(func(c *rlock.Config) { c.Lease = time.Second }).NewLock(key)
			for range 4 {
				me := w.caller()
				results = append(results, start(func() error {
					for range 50 {
						if err := counter.section(me, lock, 7*time.Millisecond); err != nil {
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
		assert.Equal(t, 600, counter.n)
		assert.Empty(t, w.Keys())
	})
}

// A counter is protected by a lock. It has no mutex of its own: the race detector and the
// counts find two sections that overlap.
type counter struct {
	t  *testing.T
	n  int
	in bool
}

func newCounter(t *testing.T) *counter { return &counter{t: t} }

// section takes the lock, increments the counter, and unlocks.
func (c *counter) section(ctx context.Context, lock *rlock.Lock, takes time.Duration) error {
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	c.enter(takes)
	return lock.Unlock(ctx)
}

func (c *counter) enter(takes time.Duration) {
	assert.False(c.t, c.in, "two sections overlap")
	c.in = true
	n := c.n
	time.Sleep(takes)
	c.n = n + 1
	c.in = false
}

// The same on a real server, with the words of Redis.

func standalone(t *testing.T, args ...string) (*redistest.Server, rueidis.Client) {
	t.Helper()
	server := redistest.Standalone(t, args...)
	return server, server.Client(t)
}

func dial(t *testing.T, option rueidis.ClientOption) *rlock.Client {
	t.Helper()
	option.Dialer.Timeout = hang // but Close does not wait for a refused release until its lease ends
	client, err := rlock.New(rlock.Config{Redis: option, Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAUserWithoutTheRightsGetsErrNoPermission(t *testing.T) {
	server, admin := standalone(t)
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
			lock := dial(t, option).NewLock(key)
			err := lock.Lock(ctx)
			require.ErrorIs(t, err, rlock.ErrNoPermission)
			assert.NotContains(t, err.Error(), "secret")
			locked, err := dial(t, server.Options()).NewLock(key).IsLocked(ctx)
			require.NoError(t, err)
			assert.False(t, locked)
		})
	}
}

func TestACommandThatIsRenamedAwayIsUnsupported(t *testing.T) {
	t.Run("EVALSHA", func(t *testing.T) {
		server, _ := standalone(t, "--rename-command", "EVALSHA", "")
		require.ErrorIs(t, dial(t, server.Options()).NewLock(key).Lock(context.Background()), rlock.ErrUnsupported)
	})
	t.Run("HSET", func(t *testing.T) {
		server, _ := standalone(t, "--rename-command", "HSET", "")
		require.ErrorIs(t, dial(t, server.Options()).NewLock(key).Lock(context.Background()), rlock.ErrUnsupported)
	})
	t.Run("sharded pub/sub", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
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
	server, admin := standalone(t)
	ctx := context.Background()
	maxmemory := func(bytes string) {
		require.NoError(t, admin.Do(ctx, admin.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", bytes).Build()).Error())
	}
	client := dial(t, server.Options())
	held := client.NewLock("held")
	require.NoError(t, held.Lock(ctx))
	maxmemory("1")
	_, err := client.NewLock(key).TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	scripts := func() (calls int) {
		stats, err := admin.Do(ctx, admin.B().Info().Section("commandstats").Build()).ToString()
		if err == nil {
			_, err = fmt.Sscanf(fieldsOf(stats)["cmdstat_evalsha"], "calls=%d", &calls)
		}
		assert.NoError(t, err)
		return calls
	}
	before := scripts()
	waits, leave := context.WithCancel(ctx)
	waiter := start(func() error { return client.NewLock(key).Lock(waits) })
	// Each failed acquire is followed by a release; that of TryLock may still be under way.
	require.Eventually(t, func() bool { return scripts() >= before+4 }, hang, time.Millisecond, "it asks again")
	leave()
	err = <-waiter
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, held.Unlock(ctx))
	maxmemory("0")
	require.NoError(t, client.NewLock(key).Lock(ctx))
	require.NoError(t, client.NewLock(key).Unlock(ctx))
}
