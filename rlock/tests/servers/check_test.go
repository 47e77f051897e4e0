package servers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

// checkKeys returns the keys of checks on all nodes.
func checkKeys(s *testbed.Site) (keys []string) {
	s.T.Helper()
	for _, node := range s.EachNode() {
		found, err := node.Do(s.Ctx, node.B().Keys().Pattern("*rlock_check:*").Build()).AsStrSlice()
		require.NoError(s.T, err)
		keys = append(keys, found...)
	}
	return keys
}

func TestACheckPassesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		client := s.NewClient(testbed.WithPrefix("orders:"))
		nodes := int64(1)
		if s.Kind == redistest.KindCluster {
			nodes = 3
		}
		for range 3 {
			require.NoError(t, client.Check(s.Ctx))
			require.Empty(t, checkKeys(s), "also if the server does not know the scripts")
		}
		calls := s.CountCalls(t, func() { require.NoError(t, client.Check(s.Ctx)) })
		assert.Equal(t, 2*nodes, calls["evalsha"], "an acquire and a release on each primary")
		assert.Zero(t, calls["eval"])
		require.NoError(t, s.NewClient(testbed.WithPrefix("{orders}:")).Check(s.Ctx))
		calls = s.CountCalls(t, func() { require.NoError(t, s.NewClient(testbed.WithPrefix("{orders}:")).Check(s.Ctx)) })
		assert.EqualValues(t, 2, calls["evalsha"], "all locks have one slot")
		hold := testbed.Take(t, s.Ctx, client.NewLock("one"))
		s.Forget()
		require.NoError(t, hold.Release(s.Ctx)) // the server knows the script of releases, and not that of acquires
		require.NoError(t, client.Check(s.Ctx))
		assert.Empty(t, checkKeys(s))
	})
}

// Each fault of a real server is the error of a check, and a check passes once it is over.
func TestACheckReturnsTheErrorOfAnAcquire(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		begin, end func(s *testbed.Site)
		want       string
	}{
		"full":                 {setting("maxmemory", "1"), setting("maxmemory", "0"), "OOM"},
		"too few replicas":     {setting("min-replicas-to-write", "1"), setting("min-replicas-to-write", "0"), "NOREPLICAS"},
		"no SyncReplicas":      {func(*testbed.Site) {}, nil, rlock.ErrNotReplicated.Error() + ": 0 of 1"},
		"a replica":            {func(s *testbed.Site) { follow(s.T, s, own(s.T)) }, func(s *testbed.Site) { s.Admin("REPLICAOF", "NO", "ONE") }, "READONLY"},
		"busy with a script":   {runAScript, func(s *testbed.Site) { s.Admin("SCRIPT", "KILL") }, "BUSY"},
		"no right":             {func(s *testbed.Site) { s.Admin("ACL", "SETUSER", "default", "-hset") }, func(s *testbed.Site) { s.Admin("ACL", "SETUSER", "default", "+hset") }, rlock.ErrNoPermission.Error()},
		"stopped by a SIGSTOP": {func(s *testbed.Site) { s.Pause() }, func(s *testbed.Site) { s.Resume() }, "no answer from Redis in time"},
		"ended":                {func(s *testbed.Site) { s.Stop() }, func(s *testbed.Site) { s.Start() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := own(t)
			client := s.NewClient(func(c *rlock.Config) {
				if fault.end == nil {
					c.SyncReplicas = 1
				}
			})
			if fault.end != nil {
				require.NoError(t, client.Check(s.Ctx))
			}
			fault.begin(s)
			wait := testbed.Hang
			if strings.HasPrefix(name, "stopped") {
				wait = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(s.Ctx, wait)
			defer cancel()
			err := client.Check(ctx)
			require.ErrorContains(t, err, fault.want)
			require.ErrorContains(t, err, "rlock: check: ")
			t.Log(err)
			if fault.end == nil {
				return
			}
			fault.end(s)
			require.Eventually(t, func() bool { return client.Check(s.Ctx) == nil }, testbed.Hang, time.Millisecond)
			require.Eventually(t, func() bool { return len(checkKeys(s)) == 0 }, testbed.Hang, time.Millisecond)
		})
	}
}

func setting(parameter, value string) func(*testbed.Site) {
	return func(s *testbed.Site) { s.Configure(parameter, value) }
}

// runAScript returns while the server is busy with a script that does not end.
func runAScript(s *testbed.Site) {
	s.Configure("lua-time-limit", "1")
	option := s.Options()
	option.ForceSingleClient, option.DisableCache = true, true
	other, err := rueidis.NewClient(option)
	require.NoError(s.T, err)
	s.T.Cleanup(other.Close)
	go other.Do(s.Ctx, other.B().Eval().Script("while true do end").Numkeys(0).Build())
	require.Eventually(s.T, func() bool {
		err := s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("PING").Build()).Error()
		return err != nil && strings.Contains(err.Error(), "BUSY")
	}, testbed.Hang, time.Millisecond)
}

// A primary that misses a slot refuses its commands, as the others do.
func TestACheckOfAClusterNamesThePrimaryThatRefuses(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Cluster(t))
	client := s.NewClient()
	require.NoError(t, client.Check(s.Ctx))
	first := s.Primary(testbed.Key)
	down := first.Client(t)
	slots, err := down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "KEYSLOT", testbed.Key).Build()).ToString()
	if err != nil {
		n, err := down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "KEYSLOT", testbed.Key).Build()).AsInt64()
		require.NoError(t, err)
		slots = fmt.Sprint(n)
	}
	require.NoError(t, down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "DELSLOTS", slots).Build()).Error())
	require.Eventually(t, func() bool {
		err := client.Check(s.Ctx)
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") && strings.Contains(err.Error(), "slot ")
	}, testbed.Hang, time.Millisecond)
	require.NoError(t, down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "ADDSLOTS", slots).Build()).Error())
	require.Eventually(t, func() bool { return client.Check(s.Ctx) == nil }, testbed.Hang, time.Millisecond)

	first.Pause()
	defer first.Resume()
	ctx, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, client.Check(ctx), context.DeadlineExceeded)
}

// The rights that a check finds are those of a plain lock that nobody waits for.
func TestACheckFindsTheMissingRightsOfALockWithoutWaiters(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Standalone(t))
	rules := s.Rights(s.AclLines()...)
	found := []string{
		"~orders:*", "~rlock_queue:{orders:*", "~rlock_foreign:{orders:*", "~redisson_lock__channel:{orders:*", "&redisson_lock__channel:{orders:*",
		"+evalsha", "+eval", "+exists", "+hset", "+pexpire", "+hdel", "+publish",
	}
	warm := s.NewClient()
	require.NoError(t, warm.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing)) // the server knows the scripts; but without the rights for Redisson the release is sent again by EVAL
	for _, rule := range append(rules, "none") {
		config := s.Limited(slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })...)
		config.Prefix = "orders:"
		client, err := rlock.New(config)
		require.NoError(t, err)
		if slices.Contains(found, rule) {
			assert.ErrorIs(t, client.Check(s.Ctx), rlock.ErrNoPermission, rule)
		} else {
			assert.NoError(t, client.Check(s.Ctx), rule)
		}
		require.NoError(t, client.Close())
	}
	require.Eventually(t, func() bool { return len(checkKeys(s)) == 0 }, testbed.Hang, time.Millisecond)
}

func TestACheckTakesOneRoundTripAndIsNotRepeated(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		for _, reply := range append(slices.Clone(testbed.Passing), "NOPERM this user has no permissions to run the 'evalsha' command") {
			p := w.NewClient()
			require.NoError(t, p.Check(w.Ctx))
			p.Net.SetRoundTrip(20 * time.Millisecond)
			testbed.Within(t, 20*time.Millisecond, 20*time.Millisecond, func() { require.NoError(t, p.Check(w.Ctx)) })
			w.AnswerScripts(reply)
			testbed.Within(t, 20*time.Millisecond, 20*time.Millisecond, func() {
				require.ErrorContains(t, p.Check(w.Ctx), strings.TrimPrefix(reply, "ERR "))
			})
			w.AnswerScripts("")
			require.NoError(t, p.Check(w.Ctx))
		}
		assert.Empty(t, w.Keys())
	})
}

func TestACheckEndsWithItsContextItsClientOrItsTime(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		p.Net.Rule(network.Silence)
		ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
		defer cancel()
		testbed.Within(t, time.Second, time.Second, func() {
			err := p.Check(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "no answer from Redis in time")
		})
		testbed.Within(t, 0, 0, func() { require.ErrorIs(t, p.Check(ctx), context.DeadlineExceeded) })
		testbed.Within(t, time.Second, 5*time.Second, func() { require.Error(t, p.Check(w.Ctx)) })
		checks := testbed.Start(func() error { return p.Check(w.Ctx) })
		require.True(t, testbed.Pending(checks))
		go p.Close()
		testbed.Within(t, 0, 0, func() { require.ErrorIs(t, <-checks, rlock.ErrClosed) })
		require.ErrorIs(t, p.Check(w.Ctx), rlock.ErrClosed)
	})
}

// A server that was restarted, or that ends idle connections, is well.
func TestACheckGoesOverANewConnectionIfItsOwnHasEnded(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.NoError(t, p.Check(w.Ctx))
		p.Net.Rule(network.Silence)
		checks := testbed.Start(func() error { return p.Check(w.Ctx) })
		require.True(t, testbed.Pending(checks))
		p.Net.Rule(nil)
		p.Net.Cut()
		require.NoError(t, <-checks)
	})
}

func TestACheckOfALazyClientSaysWhyItIsNotConnected(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		var reached atomic.Bool
		p := testbed.NewTestClient(t, func() (net.Conn, error) {
			if reached.Load() {
				return w.Dial()
			}
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}, lazy)
		err := p.Check(w.Ctx)
		require.ErrorContains(t, err, "rlock: check: not connected: ")
		require.ErrorContains(t, err, "connection refused")
		reached.Store(true)
		time.Sleep(2 * time.Second)
		require.NoError(t, p.Check(w.Ctx))
	})
}
