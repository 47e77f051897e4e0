package insight_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asked returns one client's answer to another client.
func asked(t *testing.T, by, of *testbed.Client) inspect.Answer {
	t.Helper()
	answers, err := by.Ask(context.Background(), of.ID())
	require.NoError(t, err)
	require.Len(t, answers, 1)
	require.Equal(t, of.ID(), answers[0].Client)
	return answers[0]
}

func TestAClientAnswersWithAllThatItHoldsAndWaitsFor(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, other, asker := w.NewClient(withSites), w.NewClient(), w.NewClient()
		owner := rlock.NewOwner()
		mine := rlock.WithOwner(w.Ctx, owner)
		require.NoError(t, p.NewLock("held").Lock(mine))
		require.NoError(t, p.NewReadWriteLock("no UTF-8 \xff").Read().Lock(mine))
		theirs := w.Caller()
		require.NoError(t, other.NewFairLock("fair").Lock(theirs))
		require.NoError(t, other.NewLock("plain").Lock(theirs))
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(w.Ctx)
		var results []<-chan error
		wait := func(ctx context.Context, l *rlock.Lock) {
			results = append(results, testbed.Start(func() error { _, err := takenHere(ctx, l); return err }))
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
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		talks, asker := w.NewClient(), w.NewClient()
		silent := map[string]*testbed.Client{
			"NoAnswers":       w.NewClient(func(c *rlock.Config) { c.NoAnswers = true }),
			"NoClientChannel": w.NewClient(func(c *rlock.Config) { c.NoClientChannel = true }),
			"stalled":         w.NewClient(),
		}
		ids := []string{talks.ID(), talks.ID(), w.NewClient().ID(), "00000000-0000-8000-"}
		for name, p := range silent {
			require.NoError(t, p.NewLock(name).Lock(w.Caller()))
			ids = append(ids, p.ID())
		}
		require.NoError(t, talks.NewLock(testbed.Key).Lock(w.Caller()))
		synctest.Wait()
		silent["stalled"].Net.Rule(network.All(network.Hold, network.Request, "PUBLISH"))
		var answers []inspect.Answer
		var err error
		testbed.Within(t, time.Second, time.Second, func() { answers, err = asker.Ask(w.Ctx, ids...) })
		require.NoError(t, err)
		require.Len(t, answers, 1)
		assert.Equal(t, talks.ID(), answers[0].Client)

		// The end of the context ends the wait, and is no error.
		ctx, cancel := context.WithTimeout(w.Ctx, 300*time.Millisecond)
		defer cancel()
		testbed.Within(t, 300*time.Millisecond, 300*time.Millisecond, func() { answers, err = asker.Ask(ctx, ids...) })
		require.NoError(t, err)
		require.Len(t, answers, 1)

		// A client that Redis knows to be gone is not waited for.
		testbed.Within(t, 0, 0, func() { answers, err = asker.Ask(w.Ctx, "00000000-0000-8000-", silent["NoClientChannel"].ID()) })
		require.NoError(t, err)
		assert.Empty(t, answers)
	})
}

func TestAskFailsWhereClientsCannotBeAsked(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		require.ErrorIs(t, testbed.ErrorOf(p.Ask(w.Ctx, "orders")), rlock.ErrInvalidConfig)
		over, cancel := context.WithCancel(w.Ctx)
		cancel()
		require.ErrorIs(t, testbed.ErrorOf(p.Ask(over, p.ID())), context.Canceled)
		w.Answer(testbed.RefusePubSub)
		require.ErrorIs(t, testbed.ErrorOf(p.Ask(w.Ctx, p.ID())), rlock.ErrNoPermission)
		w.Answer(nil)
		require.NoError(t, p.Close())
		require.ErrorIs(t, testbed.ErrorOf(p.Ask(w.Ctx, p.ID())), rlock.ErrClosed)
	})
}

// A message that another client publishes on the asking client's channel is no answer.
func TestAnAnswerIsToTheQuestionThatWasAsked(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, asker := w.NewClient(), w.NewClient()
		require.NoError(t, p.NewLock(testbed.Key).Lock(w.Caller()))
		synctest.Wait()
		before := asked(t, asker, p)
		require.Len(t, before.Uses, 1)
		p.Net.Rule(network.All(network.Hold, network.Request, "PUBLISH"))
		answers := make(chan []inspect.Answer, 1)
		go func() {
			all, _ := asker.Ask(w.Ctx, p.ID())
			answers <- all
		}()
		synctest.Wait()
		question := asker.Net.Sent("PUBLISH")[1].Args[2]
		question = strings.TrimSuffix(strings.TrimPrefix(question, "q "), " 1")
		for _, forged := range []string{
			"a " + asker.ID() + "8000-000000000000:0 {\"v\":1,\"client\":\"" + p.ID() + "\"}\n",
			"a " + question + " nonsense",
			"a " + question + " {\"v\":1,\"client\":\"00000000-0000-8000-\"}\n",
			"a " + question + " {\"v\":7,\"client\":\"" + p.ID() + "\"}\n",
		} {
			require.Equal(t, 1, w.Publish(ownChannel(asker), forged))
		}
		assert.Empty(t, <-answers)
	})
}

// A caller must be able to tell its own deadline from a server that does not answer.
func TestAQuestionThatTheCallersContextEndsReturnsItsError(t *testing.T) {
	cause := errors.New("the request is over")
	testbed.EachBubble(t, testbed.Questions, func(t *testing.T, w *testbed.World, ask testbed.Question) {
		p, holder := w.NewClient(), w.NewClient()
		require.NoError(t, holder.NewLock(testbed.Key).Lock(w.Caller()))
		for _, lock := range []testbed.Locker{
			p.NewLock(testbed.Key), p.NewFencedLock(testbed.Key), p.NewFairLock(testbed.Key), p.NewReadWriteLock("rw").Read(),
			p.NewReadWriteLock("rw").Write(), p.NewSemaphore("permits", 1),
		} {
			_, err := lock.IsLocked(w.Ctx) // the client is connected
			require.NoError(t, err)
			// Either the first command has no answer, or the second one of those that send two.
			for _, silence := range []network.Rule{network.Silence, network.All(network.Hold, network.Request, "EVALSHA", "EVAL")} {
				p.Net.Rule(silence)
				ctx, cancel := context.WithTimeoutCause(w.Ctx, 100*time.Millisecond, cause)
				testbed.Within(t, 0, 100*time.Millisecond, func() { err = ask(ctx, p.Client, lock) })
				if ctx.Err() != nil {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.ErrorIs(t, err, cause)
				} else {
					assert.NoError(t, err)
				}
				cancel()
				p.Net.Heal()
				time.Sleep(10 * time.Second)
			}
		}
	})
}

// The client's own limit is no deadline of the caller.
func TestAQuestionWithoutAnAnswerIsNoDeadlineOfTheCaller(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		testbed.IsLocked(t, w.Ctx, lock)
		p.Net.Rule(network.Silence)
		_, err := lock.IsLocked(w.Ctx)
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		p.Net.Heal()
	})
}

// ownChannel is the channel of messages about the client's tenures.
func ownChannel(p *testbed.Client) string { return testbed.OwnChannels + p.ID() }

func TestAClientSubscribesToItsOwnChannelOnceWithItsFirstLock(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(), w.Caller()
		time.Sleep(time.Minute)
		require.Empty(t, w.PubSubChannels("*"), "the client has held nothing yet")
		for _, name := range []string{"one", "two"} {
			require.NoError(t, p.NewLock(name).Lock(me))
			synctest.Wait()
			require.Equal(t, []string{ownChannel(p)}, w.PubSubChannels("*"))
			require.NoError(t, p.NewLock(name).Unlock(me))
		}
		time.Sleep(time.Minute)
		assert.Len(t, p.Net.Sent("SUBSCRIBE"), 1)
		assert.Equal(t, []string{ownChannel(p)}, w.PubSubChannels("*"), "the subscription lasts until Close")
		require.NoError(t, p.Close())
		synctest.Wait()
		assert.Empty(t, w.PubSubChannels("*"))
	})
}

func TestWithoutAClientChannelNothingIsSubscribed(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, me := w.NewClient(func(c *rlock.Config) { c.NoClientChannel = true }), w.Caller()
		require.NoError(t, p.NewLock(testbed.Key).Lock(me))
		time.Sleep(time.Minute)
		require.NoError(t, p.NewLock(testbed.Key).Unlock(me))
		assert.Empty(t, p.Net.Sent("SUBSCRIBE"))
	})
}

// A server that refuses the channel, or is silent about it, makes no difference to a lock,
// and the log reports no waiters that poll.
func TestNoLockDependsOnTheClientsOwnChannel(t *testing.T) {
	testbed.EachBubble(t, map[string]func(w *testbed.World, p *testbed.Client){
		"refused": func(w *testbed.World, _ *testbed.Client) { w.Answer(testbed.RefusePubSub) },
		"silent": func(_ *testbed.World, p *testbed.Client) {
			p.Net.Rule(network.All(network.Hold, network.Request, "SUBSCRIBE"))
		},
	}, func(t *testing.T, w *testbed.World, fault func(w *testbed.World, p *testbed.Client)) {
		p, me := w.NewClient(), w.Caller()
		fault(w, p)
		testbed.Within(t, 0, 0, func() { require.NoError(t, p.NewLock(testbed.Key).Lock(me)) })
		time.Sleep(time.Minute)
		testbed.Within(t, 0, 0, func() { require.NoError(t, p.NewLock(testbed.Key).Unlock(me)) })
		require.NoError(t, p.Close())
		assert.Zero(t, p.Logged("level=WARN"))
	})
}

// The holder's client gets a message, and asks Redis: two round trips after the call.
func TestTheHoldersClientIsNotifiedOfAnUnlockByForce(t *testing.T) {
	testbed.EachVirtualKind(t, func(t *testing.T, w *testbed.VirtualKind) {
		holder, other := w.NewProcess(), w.NewProcess()
		hold := testbed.Take(t, w.Ctx, holder.NewLock(testbed.Key))
		synctest.Wait() // until the client has subscribed
		testbed.Within(t, 0, 100*time.Millisecond, func() {
			require.True(t, testbed.Frees(t, w.Ctx, other.NewLock(testbed.Key)))
			testbed.RequireLoss(t, w.Ctx, hold)
		})
		again := testbed.Take(t, w.Ctx, other.NewLock(testbed.Key), rlock.WithWait(0))
		require.NoError(t, again.Release(w.Ctx))
	})
}

func TestALossByForceIsReportedWithinTwoRoundTrips(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		const roundTrip = 40 * time.Millisecond
		holder, other := w.NewClient(), w.NewClient()
		hold := testbed.Take(t, w.Ctx, holder.NewLock(testbed.Key))
		require.NoError(t, other.NewLock("another").Do(w.Ctx, testbed.Nothing))
		time.Sleep(11 * time.Second) // it was renewed: the server knows all scripts
		holder.Net.SetRoundTrip(roundTrip)
		other.Net.SetRoundTrip(roundTrip)
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			_, _ = other.NewLock(testbed.Key).ForceUnlock(w.Ctx)
		}()
		testbed.Within(t, 3*roundTrip, 3*roundTrip+2*time.Millisecond, func() { <-hold.Context().Done() }) // the first round trip is a query for the holder
		<-looked
		require.ErrorIs(t, hold.Release(w.Ctx), rlock.ErrLost)
	})
}
