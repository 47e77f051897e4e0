package redisson_test

import (
	"context"
	"encoding/hex"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A semaphore of permits in virtual time, and one of another client for the same permits.
type permits struct {
	*testing.T
	*testbed.World
	client      *testbed.Client
	here, there *redisson.PermitSemaphore
}

func withPermits(t *testing.T, number int, run func(p *permits)) {
	bubble(t, func(t *testing.T, w *testbed.World) {
		p := &permits{T: t, World: w, client: w.NewClient()}
		p.here, p.there = redisson.New(p.client.Client).PermitSemaphore("p"), redisson.New(w.NewClient().Client).PermitSemaphore("p")
		require.NoError(t, p.here.SetPermits(w.Ctx, number))
		run(p)
	})
}

func (p *permits) take(lease time.Duration) *redisson.Permit {
	p.Helper()
	return must(p.here.Acquire(p.Ctx, lease))
}

// left returns for how long Redis has the permit.
func (p *permits) left(one *redisson.Permit) time.Duration {
	p.Helper()
	raw := must(hex.DecodeString(one.ID()))
	end := must(p.ZScore("{p}:timeout", string(raw)))
	return time.Until(time.UnixMilli(int64(end)))
}

// ends returns after how long the context of the permit ends.
func (p *permits) ends(one *redisson.Permit, cause error) time.Duration {
	p.Helper()
	began := time.Now()
	<-one.Context().Done()
	require.ErrorIs(p, one.Err(), cause)
	return time.Since(began)
}

func (p *permits) free(want int) {
	p.Helper()
	assert.Equal(p, want, must(p.there.AvailablePermits(p.Ctx)))
}

func TestCloseEndsPermits(t *testing.T) {
	withPermits(t, 3, func(p *permits) {
		all := []*redisson.Permit{p.take(0), p.take(time.Hour), p.take(0)}
		require.True(p, must(p.here.UpdateLease(p.Ctx, all[2].ID(), 0)))
		require.NoError(p, p.client.Close())
		for _, one := range all {
			assert.Zero(p, p.ends(one, rlock.ErrClosed))
			require.ErrorIs(p, one.Release(p.Ctx), rlock.ErrClosed)
		}
		assert.Positive(p, p.left(all[1]), "it is left to its lease")
		next := must(p.there.Acquire(p.Ctx, time.Minute)) // the watchdog renews none
		require.NoError(p, next.Release(p.Ctx))
	})
}

// A permit whose answer comes when the client is closed has no watchdog: its caller does not get
// it.
func TestNoPermitBeginsAfterClose(t *testing.T) {
	withPermits(t, 1, func(p *permits) {
		require.NoError(p, p.take(0).Release(p.Ctx)) // the scripts are known
		p.client.Net.Rule(network.All(network.Hold, network.Reply, "EVALSHA"))
		taken := result(func() error { _, err := p.here.Acquire(p.Ctx, 0); return err })
		closed := result(p.client.Close)
		p.client.Net.Heal()
		require.Error(p, <-taken)
		require.NoError(p, <-closed)
	})
}

// What a client does to a permit by its id reaches its own Permit at once.
func TestAPermitFollowsItsClient(t *testing.T) {
	for name, d := range map[string]struct {
		lease, then time.Duration
	}{
		"longer":                {time.Minute, 5 * time.Minute},
		"shorter":               {time.Hour, time.Minute},
		"kept, and then longer": {0, 5 * time.Minute},
		"kept, and shorter":     {0, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withPermits(t, 1, func(p *permits) {
				for _, change := range []func(one *redisson.Permit) error{
					func(one *redisson.Permit) error { _, err := p.here.UpdateLease(p.Ctx, one.ID(), d.then); return err },
					func(one *redisson.Permit) error { return one.Extend(p.Ctx, d.then) },
				} {
					one := p.take(d.lease)
					require.NoError(p, change(one))
					left := p.left(one)
					assert.InDelta(p, d.then, left, float64(time.Millisecond))
					ends := p.ends(one, rlock.ErrLost)
					assert.Less(p, ends, left, "before it ends in Redis")
					assert.Greater(p, ends, d.then*9/10, "and not long before")
					time.Sleep(left - ends)
					p.free(1)
				}
			})
		})
	}
	withPermits(t, 2, func(p *permits) {
		one := p.take(time.Minute)
		require.True(p, must(p.here.UpdateLease(p.Ctx, one.ID(), 0)))
		time.Sleep(10 * time.Minute)
		require.NoError(p, one.Err(), "it does not end")
		require.NoError(p, one.Extend(p.Ctx, time.Minute))
		require.NoError(p, one.Extend(p.Ctx, time.Hour))
		time.Sleep(10 * time.Minute)
		p.AnswerScripts("NOPERM no permission")
		require.ErrorIs(p, one.Extend(p.Ctx, time.Minute), rlock.ErrNoPermission)
		p.AnswerScripts("")
		time.Sleep(10 * time.Minute)
		require.NoError(p, one.Err(), "its lease is the one before")
		require.NoError(p, one.Extend(p.Ctx, 0)) // the watchdog keeps it
		time.Sleep(10 * time.Minute)
		require.NoError(p, one.Err())
		assert.LessOrEqual(p, p.left(one), 30*time.Second)

		require.True(p, must(p.here.Release(p.Ctx, one.ID())))
		require.False(p, must(p.here.Release(p.Ctx, one.ID())), "it has no permit any more")
		assert.Zero(p, p.ends(one, rlock.ErrNotHeld))
		require.ErrorIs(p, one.Release(p.Ctx), rlock.ErrNotHeld)
		sent := p.client.Stats().Commands
		require.ErrorIs(p, one.Extend(p.Ctx, time.Minute), rlock.ErrNotHeld)
		assert.Equal(p, sent, p.client.Stats().Commands, "Redis need not be asked")
		p.free(2)

		two, three := p.take(0), p.take(time.Hour)
		require.True(p, must(p.here.Delete(p.Ctx)))
		assert.Zero(p, p.ends(two, rlock.ErrLost)+p.ends(three, rlock.ErrLost))
		_ = must(p.ZAdd("{p}:timeout", float64(time.Now().Add(time.Hour).UnixMilli()), string(must(hex.DecodeString(two.ID())))))
		assert.True(p, must(p.here.UpdateLease(p.Ctx, two.ID(), 0)), "Redis is asked about a permit that has ended here")
	})
}

// Another process changes a permit that the watchdog keeps: it does not cut a longer lease, and
// finds one that has ended.
func TestAPermitThatAnotherProcessChanges(t *testing.T) {
	withPermits(t, 2, func(p *permits) {
		longer, gone, shorter := p.take(0), p.take(0), time.Second
		require.True(p, must(p.there.UpdateLease(p.Ctx, longer.ID(), 10*time.Hour)))
		require.True(p, must(p.there.UpdateLease(p.Ctx, gone.ID(), shorter)))
		assert.LessOrEqual(p, p.ends(gone, rlock.ErrLost), 10*time.Second+time.Second, "at the next renewal")
		time.Sleep(10 * time.Minute)
		require.NoError(p, longer.Err())
		assert.Greater(p, p.left(longer), 8*time.Hour)
		require.NoError(p, longer.Release(p.Ctx))
	})
}

// The release of a permit and the change of its lease are sent again if the answer is lost.
func TestACommandAboutAPermitIsRepeated(t *testing.T) {
	withPermits(t, 2, func(p *permits) {
		for _, stage := range []network.Stage{network.Request, network.Reply} {
			one := p.take(time.Hour)
			require.NoError(p, one.Extend(p.Ctx, time.Hour)) // the scripts are known
			p.client.Net.Rule(network.Nth(1, network.Cut, stage, "EVALSHA"))
			require.NoError(p, one.Extend(p.Ctx, time.Minute))
			assert.InDelta(p, time.Minute, p.left(one), float64(time.Second))
			p.client.Net.Rule(network.Nth(1, network.Cut, stage, "EVALSHA"))
			require.NoError(p, one.Release(p.Ctx))
			p.free(2)

			one = p.take(time.Hour)
			p.client.Net.Rule(network.Nth(1, network.Cut, stage, "EVALSHA"))
			assert.True(p, must(p.here.Release(p.Ctx, one.ID())))
			p.free(2)

			one, two := p.take(time.Hour), p.take(time.Hour)
			p.client.Net.Rule(network.Nth(1, network.Cut, stage, "EVALSHA"))
			assert.Equal(p, 2, must(p.here.ReleaseAll(p.Ctx, one.ID(), two.ID(), one.ID())))
			p.free(2)
		}
	})
}

// A server that is silent for longer than a call waits: a release goes on in the background, and a
// change leaves the permit the shorter lease.
func TestAServerIsSilentAboutAPermit(t *testing.T) {
	withPermits(t, 3, func(p *permits) {
		one, two, three := p.take(time.Hour), p.take(time.Hour), p.take(time.Minute)
		p.client.Net.Rule(network.Silence)
		ctx, cancel := context.WithCancel(p.Ctx)
		cancel()
		began := time.Now()
		require.ErrorIs(p, one.Release(ctx), rlock.ErrUnconfirmed, "it is sent though ctx has ended")
		require.ErrorIs(p, two.Extend(p.Ctx, time.Minute), rlock.ErrUnconfirmed)
		require.ErrorIs(p, three.Extend(p.Ctx, time.Hour), rlock.ErrUnconfirmed)
		assert.Less(p, time.Since(began), time.Minute)
		p.client.Net.Heal()
		synctest.Wait()
		time.Sleep(10 * time.Second)
		p.free(1)
		assert.Less(p, time.Since(began), time.Minute)
		assert.LessOrEqual(p, p.ends(two, rlock.ErrLost)+p.ends(three, rlock.ErrLost), time.Minute)
	})
}

// A renewal that fails is repeated: soon, or after a tenth of the lease if waiting does not cure it.
func TestAPermitOutlastsAServerThatRefuses(t *testing.T) {
	withPermits(t, 2, func(p *permits) {
		for refusal, soon := range map[string]bool{"LOADING Redis is loading the dataset in memory": true, "NOPERM no permission": false} {
			one := p.take(0)
			time.Sleep(9 * time.Second)
			p.AnswerScripts(refusal)
			time.Sleep(5 * time.Second)
			p.AnswerScripts("")
			time.Sleep(1200 * time.Millisecond)
			assert.Equal(p, soon, p.left(one) > 20*time.Second, refusal)
			time.Sleep(time.Minute)
			require.NoError(p, one.Err(), refusal)
		}
	})
}

// A release that the server refuses for now goes on in the background as well.
func TestAPermitIsReleasedOnceItsServerIsReady(t *testing.T) {
	withPermits(t, 1, func(p *permits) {
		one := p.take(time.Hour)
		p.AnswerScripts("LOADING Redis is loading the dataset in memory")
		require.ErrorIs(p, one.Release(p.Ctx), rlock.ErrUnconfirmed)
		p.AnswerScripts("")
		time.Sleep(10 * time.Second)
		p.free(1)

		other := must(p.there.Acquire(p.Ctx, time.Hour))
		p.AnswerScripts("LOADING Redis is loading the dataset in memory")
		time.AfterFunc(time.Second, func() { p.AnswerScripts("") })
		require.True(p, must(p.here.Release(p.Ctx, other.ID())), "of another process, by a call that waits")
	})
}

// Changes of a lease without an answer may be executed after a later one that has an answer: the
// shortest counts.
func TestALateChangeOfAPermit(t *testing.T) {
	withPermits(t, 1, func(p *permits) {
		one := p.take(time.Hour)
		require.NoError(p, one.Extend(p.Ctx, time.Hour)) // the scripts are known
		for _, lease := range []time.Duration{2 * time.Minute, time.Minute} {
			p.client.Net.Rule(network.Nth(1, network.Hold, network.Request, "EVALSHA"))
			require.ErrorIs(p, one.Extend(p.Ctx, lease), rlock.ErrUnconfirmed)
		}
		require.NoError(p, one.Extend(p.Ctx, time.Hour))
		p.client.Net.Heal()
		synctest.Wait()
		left := p.left(one)
		require.LessOrEqual(p, left, 2*time.Minute, "they are executed late, in either order")
		assert.Less(p, p.ends(one, rlock.ErrLost), min(left, time.Minute))

		one = p.take(0)
		p.client.Net.Rule(network.Nth(1, network.Hold, network.Request, "EVALSHA"))
		require.ErrorIs(p, one.Extend(p.Ctx, 6*time.Second), rlock.ErrUnconfirmed)
		require.NoError(p, one.Extend(p.Ctx, 0))
		sent := p.client.Stats().Commands
		time.Sleep(time.Minute)
		require.NoError(p, one.Err())
		assert.InDelta(p, 30, p.client.Stats().Commands-sent, 3, "it is renewed as often as the shortest one needs")
	})
}

// The answer to a renewal that was sent before a change says nothing of the lease after it: until
// the change has an answer, the shorter lease counts.
func TestARenewalBeforeAChangeOfAPermit(t *testing.T) {
	withPermits(t, 1, func(p *permits) {
		one := p.take(0)
		time.Sleep(15 * time.Second)
		p.client.Net.Rule(network.Nth(1, network.Hold, network.Reply, "EVALSHA"))
		time.Sleep(6 * time.Second) // a renewal is under way
		p.client.Net.Rule(network.Silence)
		change := result(func() error { return one.Extend(p.Ctx, 2*time.Second) })
		p.client.Net.Deliver()
		assert.LessOrEqual(p, p.ends(one, rlock.ErrLost), 2*time.Second)
		p.client.Net.Heal()
		require.Error(p, <-change)
	})
}

func TestSeveralPermitsAtOnce(t *testing.T) {
	withPermits(t, 3, func(p *permits) {
		assert.Empty(p, must(p.here.AcquireN(p.Ctx, 0, time.Hour)))
		_, err := p.here.AcquireN(p.Ctx, -1, time.Hour)
		require.ErrorIs(p, err, rlock.ErrInvalidConfig)
		_, err = p.here.AcquireN(p.Ctx, 10_001, time.Hour)
		require.ErrorIs(p, err, rlock.ErrInvalidConfig, "Redis would be busy with it")
		two := must(p.here.AcquireN(p.Ctx, 2, 0))
		require.Len(p, two, 2)
		assert.Empty(p, must(p.there.TryAcquireN(p.Ctx, 2, 0, time.Hour)), "all or none")
		assert.Equal(p, 3, must(p.there.Permits(p.Ctx)))
		lease := must(p.there.Lease(p.Ctx, two[0].ID()))
		assert.InDelta(p, 30*time.Second, lease, float64(time.Second))
		waits := result(func() error { _, err := p.there.AcquireN(p.Ctx, 3, time.Hour); return err })
		time.Sleep(10 * time.Minute)
		require.NoError(p, two[0].Err())
		assert.Equal(p, 2, must(p.here.ReleaseAll(p.Ctx, two[0].ID(), two[1].ID(), two[0].ID(), "ab")))
		require.NoError(p, <-waits)
		_, err = p.here.Lease(p.Ctx, two[0].ID())
		require.ErrorIs(p, err, rlock.ErrNotHeld)
	})
}

// A call that waits for a Semaphore takes no permit by a command that has waited in a silent
// server.
func TestAWaiterLosesNoPermitToASilentServer(t *testing.T) {
	for _, silent := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		t.Run(silent.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *testbed.World) {
				client := w.NewClient()
				here, there := redisson.New(client.Client).Semaphore("s"), redisson.New(w.NewClient().Client).Semaphore("s")
				taken := result(func() error { return here.Acquire(w.Ctx, 1) })
				time.Sleep(1500 * time.Millisecond)
				client.Net.Rule(network.Silence)
				time.Sleep(silent / 2)
				require.NoError(t, there.Release(w.Ctx, 1))
				time.Sleep(silent / 2)
				client.Net.Heal()
				require.NoError(t, <-taken)
				assert.Zero(t, must(there.AvailablePermits(w.Ctx)), "it has the one")
				require.NoError(t, here.Release(w.Ctx, 1))
				time.Sleep(time.Minute)
				assert.Equal(t, 1, must(there.AvailablePermits(w.Ctx)))
			})
		})
	}
}
