package testbed

import (
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/require"
)

// Lingering returns a change that sets Config.Linger.
func Lingering(linger time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Linger = linger }
}

// NewLingerer returns a client whose locks linger: it has taken a first lock, and so has
// subscribed to its own channel.
func (w *World) NewLingerer(linger time.Duration, changes ...func(*rlock.Config)) *Client {
	w.T.Helper()
	p := w.NewClient(append([]func(*rlock.Config){Lingering(linger)}, changes...)...)
	p.Listens(w)
	return p
}

// Listens takes the client's first lock, and waits until the client is subscribed to its own
// channel.
func (p *Client) Listens(w *World) {
	w.T.Helper()
	channel := "rlock_grants:client:" + p.ID()
	h, err := p.NewLock("first of "+p.ID()).Acquire(w.Ctx, rlock.WithLinger(0))
	require.NoError(w.T, err)
	w.Eventually(func() bool { return w.PubSubNumSub(channel)[channel] == 1 }, "the client is subscribed to its own channel")
	synctest.Wait()
	require.NoError(w.T, h.Release(w.Ctx))
}

// Commands returns the number of commands that the client has sent for locks.
func (p *Client) Commands() int64 { return p.Stats().Commands }

// Use locks and unlocks.
func (w *World) Use(l Locker) {
	w.T.Helper()
	me := w.Caller()
	require.NoError(w.T, l.Lock(me))
	require.NoError(w.T, l.Unlock(me))
}
