package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A caller must be able to tell its own deadline from a server that does not answer.
func TestAQuestionThatTheCallersContextEndsReturnsItsError(t *testing.T) {
	cause := errors.New("the request is over")
	for name, ask := range map[string]func(c *rlock.Client, ctx context.Context, lock locker) error{
		"IsLocked": func(_ *rlock.Client, ctx context.Context, lock locker) error {
			_, err := lock.IsLocked(ctx)
			return err
		},
		"TTL": func(_ *rlock.Client, ctx context.Context, lock locker) error { _, err := lock.TTL(ctx); return err },
		"ForceUnlock": func(_ *rlock.Client, ctx context.Context, lock locker) error {
			_, err := lock.ForceUnlock(ctx)
			return err
		},
		"Inspect": func(c *rlock.Client, ctx context.Context, _ locker) error { _, err := c.Inspect(ctx, key); return err },
		"Locks": func(c *rlock.Client, ctx context.Context, _ locker) (err error) {
			for _, err = range c.Locks(ctx, "") {
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p, holder := w.client(), w.client()
				require.NoError(t, holder.NewLock(key).Lock(w.caller()))
				for _, lock := range []locker{
					p.NewLock(key), p.NewFencedLock(key), p.NewFairLock(key), p.NewReadWriteLock("rw").Read(),
					p.NewReadWriteLock("rw").Write(), p.NewSemaphore("permits", 1),
				} {
					_, err := lock.IsLocked(w.ctx) // the client is connected
					require.NoError(t, err)
					// Either the first command has no answer, or the second one of those that send two.
					for _, silence := range []network.Rule{network.Silence, network.All(network.Hold, network.Request, "EVALSHA", "EVAL")} {
						p.net.Rule(silence)
						ctx, cancel := context.WithTimeoutCause(w.ctx, 100*time.Millisecond, cause)
						within(t, 0, 100*time.Millisecond, func() { err = ask(p.Client, ctx, lock) })
						if ctx.Err() != nil {
							assert.ErrorIs(t, err, context.DeadlineExceeded)
							assert.ErrorIs(t, err, cause)
						} else {
							assert.NoError(t, err)
						}
						cancel()
						p.net.Heal()
						time.Sleep(10 * time.Second)
					}
				}
			})
		})
	}
}

// The client's own limit is no deadline of the caller.
func TestAQuestionWithoutAnAnswerIsNoDeadlineOfTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		lock := p.NewLock(key)
		_, err := lock.IsLocked(w.ctx)
		require.NoError(t, err)
		p.net.Rule(network.Silence)
		_, err = lock.IsLocked(w.ctx)
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		p.net.Heal()
	})
}
