package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byDefault undoes that the clients of a world do not track.
func byDefault(c *rlock.Config) { c.TrackedKeys = 0 }

// A server that refuses tracking is asked once for each connection, and locks work without. The
// embedded server does not know it.
func TestWhereTrackingIsRefusedTheNextRenewalFindsTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(byDefault)
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		other, err := p.NewLock("another").Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.asked("TRACKING"))
		assert.EqualValues(t, 1, p.Stats().TrackingRefused)
		assert.Zero(t, p.Stats().Tracked)
		time.Sleep(time.Second) // the two were renewed
		calls := len(p.net.Sent("EVALSHA"))
		third, err := p.NewLock("third").Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, third.Release(w.ctx))
		assert.Len(t, p.net.Sent("EVALSHA"), calls+2, "a later hold costs nothing more")
		p.net.Cut()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, p.asked("TRACKING"), 1+2, "at most once for each connection that has ended")
		w.Del(key)
		within(t, 0, 11*time.Second, func() { <-hold.Context().Done() })
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.NoError(t, other.Release(w.ctx))
	})
}

func TestTrackingCanBeSwitchedOff(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client(func(c *rlock.Config) { c.TrackedKeys = -1 })
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		time.Sleep(9 * time.Second)
		assert.Len(t, p.net.Sent("EVALSHA"), 1)
		assert.Zero(t, p.asked("TRACKING"))
		require.NoError(t, hold.Release(w.ctx))
	})
}

// Each server is asked by a client with a short lease: what it refuses costs no lock, and the next
// renewal finds the loss.
func TestWhereKeysCannotBeTrackedNothingIsLost(t *testing.T) {
	t.Parallel()
	redistest.NeedMajor(t, 7)
	s := at(t, redistest.Standalone(t))
	rights := s.rights(s.aclLines()...)
	plain := func() rlock.Config { return rlock.Config{Redis: patient(s.Options()), Logger: quiet} }
	for what, c := range map[string]struct {
		config  rlock.Config
		refuses bool // the server does, and not the client's config
	}{
		"the user may not track":                   {s.limited(rights...), true},
		"the user may not choose keys":             {s.limited(append(rights, "+client|tracking")...), true},
		"an older server":                          {s.saying(plain(), "%2\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n$5\r\nproto\r\n:3\r\n"), true},
		"a server that does not tell its protocol": {s.saying(plain(), "%1\r\n$7\r\nversion\r\n$6\r\n7.2.14\r\n"), true},
		"RESP2":           {func() rlock.Config { c := plain(); c.Redis.AlwaysRESP2 = true; return c }(), false},
		"two connections": {func() rlock.Config { c := plain(); c.Redis.PipelineMultiplex = 1; return c }(), false},
		"a shared client": {rlock.Config{Client: s.outside, Logger: quiet}, false},
	} {
		t.Run(what, func(t *testing.T) {
			s, config := s.in(t), c.config
			config.Lease = 600 * time.Millisecond
			client := s.client(func(c *rlock.Config) { *c = config })
			lock := client.NewLock(key)
			hold, err := lock.Acquire(s.ctx)
			require.NoError(t, err)
			s.elapse(client, 2*trackAfter)
			if c.refuses {
				require.Eventually(t, func() bool { return client.Stats().TrackingRefused == 1 }, hang, time.Millisecond)
			}
			require.NoError(t, context.Cause(hold.Context()))
			s.number("DEL", key)
			s.requireLoss(hold)
			assert.Zero(t, client.Stats().Tracked)
			assert.Equal(t, c.refuses, client.Stats().TrackingRefused > 0)
		})
	}
}

// saying changes what the server says of itself and of a connection.
func (s *site) saying(config rlock.Config, hello string) rlock.Config {
	wire, err := network.Listen(s.Addr())
	require.NoError(s.t, err)
	s.t.Cleanup(wire.Close)
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
	s := at(t, redistest.Standalone(t))
	rules := s.rights(s.aclLines()...)
	without, with := s.limited(rules...), s.limited(append(rules, s.rights("Tracking")...)...)
	unrenewed(&without)
	unrenewed(&with)
	for name, config := range map[string]rlock.Config{key: with, key + "2": without} {
		hold, err := s.client(func(c *rlock.Config) { *c = config }).NewLock(name).Acquire(s.ctx)
		require.NoError(t, err)
		defer func() { assert.NoError(t, hold.Release(s.ctx)) }()
	}
	s.awaitTracked(1)
}
