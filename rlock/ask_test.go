package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked returns one client's answer to another client.
func asked(t *testing.T, by, of *testClient) inspect.Answer {
	t.Helper()
	answers, err := by.Ask(context.Background(), of.ID())
	require.NoError(t, err)
	require.Len(t, answers, 1)
	require.Equal(t, of.ID(), answers[0].Client)
	return answers[0]
}

func TestAClientAnswersWithAllThatItHoldsAndWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, other, asker := w.client(withSites), w.client(), w.client()
		owner := rlock.NewOwner()
		mine := rlock.WithOwner(w.ctx, owner)
		require.NoError(t, p.NewLock("held").Lock(mine))
		require.NoError(t, p.NewReadWriteLock("no UTF-8 \xff").Read().Lock(mine))
		theirs := w.caller()
		require.NoError(t, other.NewFairLock("fair").Lock(theirs))
		require.NoError(t, other.NewLock("plain").Lock(theirs))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(w.ctx)
		var results []<-chan error
		wait := func(ctx context.Context, l *rlock.Lock) {
			results = append(results, start(func() error { _, err := takenHere(ctx, l); return err }))
			synctest.Wait()
			time.Sleep(time.Second)
		}
		wait(ctx, p.NewLock("plain"))
		wait(rlock.WithOwner(ctx, owner), p.NewLock("plain")) // second in the line of its client
		wait(ctx, rlock.NewMultiLock(p.NewFairLock("fair"), p.NewLock("free")))

		a := asked(t, asker, p)
		assert.False(t, a.Cut)
		assert.Equal(t, time.Now().UnixMilli(), a.At.UnixMilli())
		type line struct {
			name   string
			kind   rlock.Kind
			waits  bool
			age    time.Duration
			partOf string
		}
		var lines []line
		for _, u := range a.Uses {
			lines = append(lines, line{u.Name, u.Kind, u.Waits, a.At.Sub(u.Since), u.PartOf})
			assert.Equal(t, u.Waits, strings.HasSuffix(u.Site.Function, ".takenHere"), "%v", u)
			if u.Waits && u.Owner != uint64(owner) {
				assert.NotZero(t, u.Goroutine)
			}
		}
		assert.Equal(t, []line{
			{"plain", rlock.KindPlain, true, 3 * time.Second, ""},
			{"plain", rlock.KindPlain, true, 2 * time.Second, ""},
			{"fair", rlock.KindFair, true, time.Second, "fair,free"},
			{"held", rlock.KindPlain, false, 4 * time.Second, ""},
			{"no UTF-8 \xff", rlock.KindRead, false, 4 * time.Second, ""},
		}, lines)
		assert.EqualValues(t, owner, a.Uses[1].Owner)
		assert.EqualValues(t, owner, a.Uses[3].Owner, "a waiter and a holder have different owners")
		cancel()
		for _, result := range results {
			<-result
		}
		assert.Len(t, asked(t, asker, p).Uses, 2)
	})
}

func TestAClientThatDoesNotAnswerIsLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		talks, asker := w.client(), w.client()
		silent := map[string]*testClient{
			"NoAnswers":       w.client(func(c *rlock.Config) { c.NoAnswers = true }),
			"NoClientChannel": w.client(func(c *rlock.Config) { c.NoClientChannel = true }),
			"stalled":         w.client(),
		}
		ids := []string{talks.ID(), talks.ID(), w.client().ID(), "00000000-0000-8000-"}
		for name, p := range silent {
			require.NoError(t, p.NewLock(name).Lock(w.caller()))
			ids = append(ids, p.ID())
		}
		require.NoError(t, talks.NewLock(key).Lock(w.caller()))
		synctest.Wait()
		silent["stalled"].net.Rule(network.All(network.Hold, network.Request, "PUBLISH"))
		var answers []inspect.Answer
		var err error
		within(t, time.Second, time.Second, func() { answers, err = asker.Ask(w.ctx, ids...) })
		require.NoError(t, err)
		require.Len(t, answers, 1)
		assert.Equal(t, talks.ID(), answers[0].Client)

		// The end of the context ends the wait, and is no error.
		ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
		defer cancel()
		within(t, 300*time.Millisecond, 300*time.Millisecond, func() { answers, err = asker.Ask(ctx, ids...) })
		require.NoError(t, err)
		require.Len(t, answers, 1)

		// A client that Redis knows to be gone is not waited for.
		within(t, 0, 0, func() { answers, err = asker.Ask(w.ctx, "00000000-0000-8000-", silent["NoClientChannel"].ID()) })
		require.NoError(t, err)
		assert.Empty(t, answers)
	})
}

func TestAskFailsWhereClientsCannotBeAsked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		_, err := p.Ask(w.ctx, "orders")
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		over, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err = p.Ask(over, p.ID())
		require.ErrorIs(t, err, context.Canceled)
		w.answer(refusePubSub)
		_, err = p.Ask(w.ctx, p.ID())
		require.ErrorIs(t, err, rlock.ErrNoPermission)
		w.answer(nil)
		require.NoError(t, p.Close())
		_, err = p.Ask(w.ctx, p.ID())
		require.ErrorIs(t, err, rlock.ErrClosed)
	})
}

// Any client may ask as often as it likes.
func TestAFloodOfQuestionsIsAnsweredTenTimesASecond(t *testing.T) {
	redistest.Slow(t)
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hold, err := p.NewLock(key).Acquire(w.ctx)
		require.NoError(t, err)
		synctest.Wait()
		for i := range 10_000 {
			w.Publish(p.ownChannel(), fmt.Sprintf("q 00000000-0000-8000-8000-%012d:0 1", i))
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		answered := len(p.net.Sent("PUBLISH"))
		assert.Greater(t, answered, 100)
		assert.LessOrEqual(t, answered, 12*16, "each answer serves 16 questions at most")
		require.NoError(t, context.Cause(hold.Context()))
		require.NoError(t, hold.Release(w.ctx))
		time.Sleep(time.Minute)
		assert.Len(t, p.net.Sent("PUBLISH"), answered, "other messages were published")
	})
}

// A message that another client publishes on the asking client's channel is no answer.
func TestAnAnswerIsToTheQuestionThatWasAsked(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, asker := w.client(), w.client()
		require.NoError(t, p.NewLock(key).Lock(w.caller()))
		synctest.Wait()
		before := asked(t, asker, p)
		require.Len(t, before.Uses, 1)
		p.net.Rule(network.All(network.Hold, network.Request, "PUBLISH"))
		answers := make(chan []inspect.Answer, 1)
		go func() {
			all, _ := asker.Ask(w.ctx, p.ID())
			answers <- all
		}()
		synctest.Wait()
		question := asker.net.Sent("PUBLISH")[1].Args[2]
		question = strings.TrimSuffix(strings.TrimPrefix(question, "q "), " 1")
		for _, forged := range []string{
			"a " + asker.ID() + "8000-000000000000:0 {\"v\":1,\"client\":\"" + p.ID() + "\"}\n",
			"a " + question + " nonsense",
			"a " + question + " {\"v\":1,\"client\":\"00000000-0000-8000-\"}\n",
			"a " + question + " {\"v\":7,\"client\":\"" + p.ID() + "\"}\n",
		} {
			require.Equal(t, 1, w.Publish(asker.ownChannel(), forged))
		}
		assert.Empty(t, <-answers)
	})
}

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
