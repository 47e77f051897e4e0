package servers_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnUncontendedLockAndUnlockAreTwoCommands(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		lock := client.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(s.Ctx)) // the server learns the scripts
		require.NoError(t, lock.Unlock(s.Ctx))
		s.AwaitListeners(1, testbed.Plain, testbed.OwnChannels+client.ID())
		for what, ctx := range map[string]context.Context{"with a context that may end": s.Ctx, "with one that never ends": context.Background()} {
			calls := s.CountCalls(t, func() {
				require.NoError(t, lock.Lock(ctx))
				require.NoError(t, lock.Unlock(ctx))
			})
			assert.EqualValues(t, 2, calls["evalsha"], what)
			assert.Zero(t, calls["eval"]+calls["script|load"]+calls[strings.ToLower(s.Family().Subscribe)], what)
		}
	})
}

func TestALockAndAReleaseAreOneScriptEachAndNothingElse(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	client := s.NewClient()
	lock := client.NewLock(testbed.Key)
	require.NoError(t, lock.Lock(s.Ctx))
	require.NoError(t, lock.Unlock(s.Ctx))
	s.AwaitListeners(1, testbed.Plain, testbed.OwnChannels+client.ID()) // the client subscribes with its first lock

	m := s.Monitor()
	require.NoError(t, lock.Lock(s.Ctx))
	sent, byScript := m.Seen()
	assert.Equal(t, []string{"evalsha"}, sent)
	assert.Subset(t, byScript, []string{"hset", "pexpire"}, "the key never exists without a lease")

	require.NoError(t, lock.Unlock(s.Ctx))
	sent, byScript = m.Seen()
	assert.Equal(t, []string{"evalsha"}, sent)
	assert.Subset(t, byScript, []string{"hdel", "publish"}, "the key is never deleted without a message")
}

func TestNestingAndHandOffsGoOnWhileRedisIsSilent(t *testing.T) {
	s := testbed.At(t, redistest.Standalone(t))
	lock := s.NewLock()
	require.NoError(t, lock.Lock(s.Ctx))
	s.Pause()

	var others sync.WaitGroup
	served := make(chan struct{}, 10)
	gate := make(chan struct{})
	for range cap(served) {
		ctx, queued := testbed.Queueing(s.Ctx)
		others.Go(func() {
			if !assert.NoError(t, lock.Lock(ctx)) {
				return
			}
			for range 10 { // nested levels
				assert.NoError(t, lock.Lock(ctx))
			}
			for range 10 {
				assert.NoError(t, lock.Unlock(ctx))
			}
			served <- struct{}{}
			if len(served) == cap(served) { // the last Unlock needs Redis
				<-gate
			}
			assert.NoError(t, lock.Unlock(ctx))
		})
		<-queued
	}
	require.NoError(t, lock.Unlock(s.Ctx))
	require.Eventually(t, func() bool { return len(served) == cap(served) }, testbed.Hang, time.Millisecond)
	s.Resume()
	close(gate)
	others.Wait()
}

// A name is an argument of a script, and never a part of one: there are three scripts for all
// names.
func TestAllNamesShareThreeScripts(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		hostile := []string{
			"\"]] redis.call('flushall') --[[", "' .. redis.call('flushall') .. '", "') return redis.call('flushall') --",
			"KEYS[1]", "%s%n%d", "$(reboot)", "a\r\n*1\r\n$8\r\nFLUSHALL\r\n", "a\x00b", "{a}", "}{", `\`, "*", "\"", strings.Repeat("]", 1000),
		}
		require.NoError(t, w.Set("untouched", "1"))
		for _, name := range hostile {
			lock, one, two := p.NewLock(name), w.Caller(), w.Caller()
			require.NoError(t, lock.Lock(one))
			require.NoError(t, lock.Lock(one))
			waiter := testbed.Start(func() error { return lock.Lock(two) })
			require.True(t, testbed.Pending(waiter))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, <-waiter)
			assert.True(t, w.Exists(name))
			require.NoError(t, lock.Unlock(two))
		}
		assert.True(t, w.Exists("untouched"))
		scripts := make(map[string]bool)
		for _, f := range p.Net.Sent("EVALSHA") {
			scripts[f.Args[1]] = true
			assert.Contains(t, hostile, f.Args[3])
		}
		assert.Len(t, scripts, 3)
		scripts = make(map[string]bool)
		for _, f := range p.Net.Sent("EVAL") {
			scripts[f.Args[1]] = true
		}
		assert.Len(t, scripts, 3)
	})
}

func TestTheCommandsOfPubSubAreThoseOfRedissonOrOfTheConfig(t *testing.T) {
	t.Parallel()
	type choice struct {
		name   string
		pubSub rlock.PubSub
		family testbed.Family
	}
	onServer := func(t *testing.T, server *redistest.Server, choices []choice) {
		families := []testbed.Family{testbed.Plain}
		if server.HasShardedPubSub() {
			families = append(families, testbed.Sharded)
		}
		for _, choice := range choices {
			t.Run(choice.name, func(t *testing.T) {
				if !slices.Contains(families, choice.family) {
					t.Skip("the server has no sharded pub/sub")
				}
				s := testbed.At(t, server)
				choose := func(c *rlock.Config) { c.PubSub = choice.pubSub }
				s.Wakes(s.NewClient(choose), s.NewClient(choose), choice.family)

				lock := s.NewLock(choose)
				heard := make(map[testbed.Family]*testbed.Listener)
				for _, family := range families {
					heard[family] = s.Listen(family, testbed.Channel)
				}
				require.NoError(t, lock.Lock(s.Ctx))
				require.NoError(t, lock.Unlock(s.Ctx))
				for family, listener := range heard {
					if family == choice.family {
						assert.Equal(t, []string{"00"}, listener.Heard())
					} else {
						assert.Empty(t, listener.Heard())
					}
				}
			})
		}
	}
	t.Run("standalone", func(t *testing.T) {
		onServer(t, redistest.Standalone(t), []choice{
			{"auto", rlock.PubSubAuto, testbed.Plain},
			{"plain", rlock.PubSubPlain, testbed.Plain},
			{"sharded", rlock.PubSubSharded, testbed.Sharded},
		})
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := testbed.Calm(redistest.Cluster(t))
		onServer(t, cluster, []choice{
			{"auto", rlock.PubSubAuto, testbed.At(t, cluster).Family()},
			{"plain", rlock.PubSubPlain, testbed.Plain},
			{"sharded", rlock.PubSubSharded, testbed.Sharded},
		})
	})
}

func TestShardedPubSubIsRefusedWhereTheServerHasNone(t *testing.T) {
	server := redistest.Embedded(t)
	_, err := rlock.New(rlock.Config{Redis: server.Options(), PubSub: rlock.PubSubSharded})
	assert.ErrorIs(t, err, rlock.ErrUnsupported)
}
