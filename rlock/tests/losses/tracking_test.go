package losses_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unrenewed sets a lease so long that no renewal finds a loss during a test.
func unrenewed(c *rlock.Config) { c.Lease = 24 * time.Hour }

// awaitTracked returns when the servers track n keys.
func awaitTracked(s *testbed.Site, n int) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		sum := 0
		for _, node := range s.EachNode() {
			info, err := node.Do(s.Ctx, node.B().Info().Section("stats").Build()).ToString()
			_, rest, found := strings.Cut(info, "tracking_total_keys:")
			keys, digits := 0, strings.SplitN(rest, "\r", 2)[0]
			if _, scanned := fmt.Sscan(digits, &keys); err != nil || !found || scanned != nil {
				return false
			}
			sum += keys
		}
		return sum == n
	}, testbed.Hang, time.Millisecond)
}

// awaitDepth returns when Redis shows that depth of the lock named Key.
func awaitDepth(s *testbed.Site, depth string) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		counts, err := s.Do("HVALS", testbed.Key).AsStrSlice()
		return err == nil && slices.Equal(counts, []string{depth})
	}, testbed.Hang, time.Millisecond)
}

// The promise of docs/guarantees.md, by default: no renewal comes during the test.
func TestALossIsToldWithoutARenewal(t *testing.T) {
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		client := s.NewClient(unrenewed)
		kinds := []func(name string) *rlock.Lock{client.NewLock, client.NewFairLock, client.NewFencedLock, func(name string) *rlock.Lock { return client.NewReadWriteLock(name).Write() }}
		name := func(i int) string { return fmt.Sprint("{", testbed.Key, "}", i) }
		var holds []*rlock.Hold
		for i := range 12 {
			holds = append(holds, testbed.Take(t, s.Ctx, kinds[i%len(kinds)](name(i))))
		}
		holds = append(holds, testbed.Take(t, s.Ctx, client.NewLock("in another slot of a Cluster")))
		awaitTracked(s, len(holds))
		assert.EqualValues(t, len(holds), inspect.Of(client).Stats().Tracked)
		changes := [][]string{{"DEL"}, {"SET", "something else"}, {"UNLINK"}, {"RENAME", name(-1)}, {"UNLINK"}, {"UNLINK"}, {"UNLINK"}}
		for i, change := range changes {
			require.NoError(t, s.Do(change[0], name(i), change[1:]...).Error())
			testbed.RequireLoss(s.T, s.Ctx, holds[i])
		}
		holds = holds[len(changes):]
		for _, hold := range holds {
			require.NoError(t, context.Cause(hold.Context()))
		}
		require.NoError(t, holds[0].Release(s.Ctx))
		for _, node := range s.EachNode() {
			_ = node.Do(s.Ctx, node.B().Flushall().Async().Build()).Error() // a replica refuses
		}
		for _, hold := range holds[1:] {
			testbed.RequireLoss(s.T, s.Ctx, hold)
		}
		require.Eventually(t, func() bool { return inspect.Of(client).Stats().Tracked == 0 }, testbed.Hang, time.Millisecond)
		assert.Zero(t, inspect.Of(client).Stats().TrackingRefused)
	})
}

// trackAfter is how long a hold lasts before its key is tracked.
const trackAfter = 50 * time.Millisecond

// elapse returns when that time has passed, and the client has noticed: a lock with a lease of that
// time was lost.
func elapse(s *testbed.Site, client *rlock.Client, d time.Duration) {
	s.T.Helper()
	hold := testbed.Take(s.T, s.Ctx, client.NewLock(testbed.Key+":for a while"), rlock.WithLease(d))
	testbed.RequireLoss(s.T, s.Ctx, hold)
}

// A server that refuses tracking is asked once for each connection, and locks work without. The
// embedded server does not know it.
func TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(func(c *rlock.Config) { c.Advanced.TrackedKeys = 0 }) // as clients do by default
		hold := testbed.Take(t, w.Ctx, p.NewLock(testbed.Key))
		other := testbed.Take(t, w.Ctx, p.NewLock("another"))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Asked("TRACKING"))
		assert.EqualValues(t, 1, p.Stats().TrackingRefused)
		assert.Zero(t, p.Stats().Tracked)
		time.Sleep(time.Second) // the two were renewed
		calls := len(p.Net.Sent("EVALSHA"))
		third := testbed.Take(t, w.Ctx, p.NewLock("third"))
		time.Sleep(time.Second)
		require.NoError(t, third.Release(w.Ctx))
		assert.Len(t, p.Net.Sent("EVALSHA"), calls+2, "a later hold costs nothing more")
		p.Net.Cut()
		time.Sleep(time.Minute)
		// Two connections have ended. The two renewals may be sent apart, and then both ask before one is
		// refused.
		assert.LessOrEqual(t, p.Asked("TRACKING"), 1+2*2, "not with each renewal")
		w.Del(testbed.Key)
		testbed.Within(t, 0, 11*time.Second, func() { <-hold.Context().Done() })
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.NoError(t, other.Release(w.Ctx))
	})
}

// A refusal of tracking costs no lock, and the next mirror finds a loss. Here a nested lock causes
// the mirrors.
func TestWhereKeysCannotBeTrackedNothingIsLost(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7)
	s := testbed.At(t, redistest.Standalone(t))
	rights := s.Rights(s.AclLines()...)
	plain := func() rlock.Config { return rlock.Config{Redis: testbed.Patient(s.Options()), Logger: testbed.Quiet} }
	for what, c := range map[string]struct {
		config  rlock.Config
		refuses bool // the server does, and not the client's config
	}{
		"the user may not track":                   {s.Limited(rights...), true},
		"the user may not choose keys":             {s.Limited(append(rights, "+client|tracking")...), true},
		"an older server":                          {saying(s, plain(), "%2\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n$5\r\nproto\r\n:3\r\n"), true},
		"a server that does not tell its protocol": {saying(s, plain(), "%1\r\n$7\r\nversion\r\n$6\r\n7.2.14\r\n"), true},
		"RESP2":           {func() rlock.Config { c := plain(); c.Redis.AlwaysRESP2 = true; return c }(), false},
		"two connections": {func() rlock.Config { c := plain(); c.Redis.PipelineMultiplex = 1; return c }(), false},
		"a shared client": {rlock.Config{Client: s.Outside, Logger: testbed.Quiet}, false},
	} {
		t.Run(what, func(t *testing.T) {
			s, config := s.In(t), c.config
			unrenewed(&config)
			client := s.NewClient(func(c *rlock.Config) { *c = config })
			lock := client.NewLock(testbed.Key)
			hold := testbed.Take(t, s.Ctx, lock)
			elapse(s, client, 2*trackAfter)
			if c.refuses {
				require.Eventually(t, func() bool { return inspect.Of(client).Stats().TrackingRefused == 1 }, testbed.Hang, time.Millisecond)
			}
			nested := testbed.Take(t, hold.Context(), lock)
			awaitDepth(s, "2")
			require.NoError(t, context.Cause(hold.Context()))
			require.NoError(t, nested.Release(s.Ctx))
			awaitDepth(s, "1")
			s.Number("DEL", testbed.Key)
			nested = testbed.Take(t, hold.Context(), lock)
			testbed.RequireLoss(s.T, s.Ctx, nested)
			require.ErrorIs(t, hold.Release(s.Ctx), rlock.ErrLost)
			assert.Zero(t, inspect.Of(client).Stats().Tracked)
			assert.Equal(t, c.refuses, inspect.Of(client).Stats().TrackingRefused > 0)
		})
	}
}

// saying changes the server's answers about itself and about a connection.
func saying(s *testbed.Site, config rlock.Config, hello string) rlock.Config {
	wire, err := network.Listen(s.Addr())
	require.NoError(s.T, err)
	s.T.Cleanup(wire.Close)
	wire.Rule(func(f network.Frame) network.Fate {
		if f.Stage == network.Reply && f.Is("HELLO") && len(f.Args) == 1 { // not that of rueidis, which names the protocol
			return network.Replace(hello)
		}
		return network.Pass
	})
	config.Redis.InitAddress, config.Redis.DialCtxFn = []string{wire.Addr()}, nil
	return config
}

func TestAUserNeedsRightsForTracking(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	s := testbed.At(t, redistest.Standalone(t))
	rules := s.Rights(s.AclLines()...)
	without, with := s.Limited(rules...), s.Limited(append(rules, s.Rights("Tracking")...)...)
	unrenewed(&without)
	unrenewed(&with)
	for name, config := range map[string]rlock.Config{testbed.Key: with, testbed.Key + "2": without} {
		hold := testbed.Take(t, s.Ctx, s.NewClient(func(c *rlock.Config) { *c = config }).NewLock(name))
		defer func() { assert.NoError(t, hold.Release(s.Ctx)) }()
	}
	awaitTracked(s, 1)
}

// A hold is told of a waiter of another client without a renewal, on every sort of server.
func TestAHoldIsWantedWithoutARenewal(t *testing.T) {
	redistest.NeedMajor(t, 7) // before, a script's changes are told to its own client
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindSentinel, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := testbed.At(t, server)
		here, there := s.NewClient(unrenewed), s.NewClient(unrenewed)
		locks := testbed.LocksOf()
		locks["multi"] = func(c *rlock.Client) *rlock.Lock {
			return rlock.NewMultiLock(c.NewLock("{"+testbed.Key+"}a"), c.NewLock(testbed.Key))
		}
		for kind, held := range locks {
			rival := testbed.RivalOf(cmp.Or(strings.TrimPrefix(kind, "multi"), "plain"))
			t.Run(kind, func(t *testing.T) {
				for _, client := range []*rlock.Client{there, here} {
					waited := make(chan error, 1)
					require.NoError(t, held(here).Do(s.Ctx, func(ctx context.Context) error {
						wanted := rlock.Wanted(ctx)
						select {
						case <-wanted:
							t.Error("no owner waits")
						default:
						}
						go func() { waited <- rival(client).Do(s.Ctx, testbed.Nothing) }()
						<-wanted
						return nil
					}))
					require.NoError(t, <-waited) // the next kind takes the same name
				}
			})
		}
		assert.Nil(t, rlock.Wanted(s.Ctx))
	})
}
