package losses_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byDefault undoes that the clients of a world do not track.
func byDefault(c *rlock.Config) { c.TrackedKeys = 0 }

// A server that refuses tracking is asked once for each connection, and locks work without. The
// embedded server does not know it.
func TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient(byDefault)
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
		assert.LessOrEqual(t, p.Asked("TRACKING"), 1+2, "at most once for each connection that has ended")
		w.Del(testbed.Key)
		testbed.Within(t, 0, 11*time.Second, func() { <-hold.Context().Done() })
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
		require.NoError(t, other.Release(w.Ctx))
	})
}

// Each server is asked by a client with a short lease: what it refuses costs no lock, and the next
// renewal finds the loss.
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
			config.Lease = 600 * time.Millisecond
			client := s.NewClient(func(c *rlock.Config) { *c = config })
			lock := client.NewLock(testbed.Key)
			hold := testbed.Take(t, s.Ctx, lock)
			elapse(s, client, 2*trackAfter)
			if c.refuses {
				require.Eventually(t, func() bool { return client.Stats().TrackingRefused == 1 }, testbed.Hang, time.Millisecond)
			}
			require.NoError(t, context.Cause(hold.Context()))
			s.Number("DEL", testbed.Key)
			requireLoss(s, hold)
			assert.Zero(t, client.Stats().Tracked)
			assert.Equal(t, c.refuses, client.Stats().TrackingRefused > 0)
		})
	}
}

// saying changes what the server says of itself and of a connection.
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
