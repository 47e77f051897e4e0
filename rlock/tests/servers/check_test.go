package servers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/internal/wire"
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
		require.NoError(t, hold.Release(s.Ctx)) // the server knows the script of releases, but not of acquires
		require.NoError(t, client.Check(s.Ctx))
		assert.Empty(t, checkKeys(s))
	})
}

// A primary that misses a slot refuses its commands, as the others do.
func TestACheckOfAClusterNamesThePrimaryThatRefuses(t *testing.T) {
	t.Parallel()
	s := testbed.At(t, redistest.Cluster(t))
	client := s.NewClient()
	require.NoError(t, client.Check(s.Ctx))
	first := s.Primary(testbed.Key)
	down := first.Client(t)
	slot := fmt.Sprint(wire.HashSlot(testbed.Key))
	require.NoError(t, down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "DELSLOTS", slot).Build()).Error())
	require.Eventually(t, func() bool {
		err := client.Check(s.Ctx)
		return err != nil && strings.Contains(err.Error(), "CLUSTERDOWN") && strings.Contains(err.Error(), "slot ")
	}, testbed.Hang, time.Millisecond)
	require.NoError(t, down.Do(s.Ctx, down.B().Arbitrary("CLUSTER", "ADDSLOTS", slot).Build()).Error())
	require.Eventually(t, func() bool { return client.Check(s.Ctx) == nil }, testbed.Hang, time.Millisecond)

	first.Pause()
	defer first.Resume()
	ctx, cancel := context.WithTimeout(s.Ctx, 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, client.Check(ctx), context.DeadlineExceeded)
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
		p, gate := madeBefore(w)
		err := p.Check(w.Ctx)
		require.ErrorContains(t, err, "rlock: check: not connected: ")
		require.ErrorContains(t, err, "connections are refused")
		gate.Heal()
		time.Sleep(2 * time.Second)
		require.NoError(t, p.Check(w.Ctx))
	})
}
