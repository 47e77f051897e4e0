package servers_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
)

const (
	doesNotAnswer = "Redis does not answer"
	answersAgain  = "Redis answers again"
	isEmpty       = "Redis was restarted without its data"
)

func TestTheLogSaysWithinTwoSecondsThatRedisDoesNotAnswer(t *testing.T) {
	testbed.EachBubble(t, testbed.Outages, func(t *testing.T, w *testbed.World, fail func(*network.Network)) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		require.NoError(t, lock.Do(w.Caller(), testbed.Nothing))
		time.Sleep(time.Minute)
		assert.Zero(t, p.Logged("Redis"))

		fail(p.Net)
		ctx, cancel := context.WithTimeout(w.Caller(), time.Hour)
		defer cancel()
		waits := testbed.Start(func() error { return lock.Lock(ctx) })
		time.Sleep(2 * time.Second)
		assert.Equal(t, 1, p.Logged(doesNotAnswer))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, p.Logged(doesNotAnswer))
		assert.Zero(t, p.Logged(answersAgain))

		p.Net.Heal()
		testbed.Succeed(t, waits)
		assert.Equal(t, 1, p.Logged(answersAgain))
		assert.Zero(t, p.Logged(isEmpty))
		assert.Equal(t, 1, p.Logged(doesNotAnswer))
	})
}

// A caller that leaves soon, and a connection that is opened again at once, are no outage.
func TestWhatIsNoOutageIsNotLogged(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p := w.NewClient()
		lock := p.NewLock(testbed.Key)
		p.Net.SetRoundTrip(100 * time.Millisecond)
		for range 30 {
			ctx, cancel := context.WithTimeout(w.Caller(), 10*time.Millisecond)
			assert.Error(t, lock.Lock(ctx))
			cancel()
			p.Net.Cut()
			require.NoError(t, lock.Do(w.Caller(), testbed.Nothing))
		}
		assert.Zero(t, p.Logged(doesNotAnswer)+p.Logged(answersAgain))
	})
}

func TestTheLogSaysOnceThatRedisWasRestartedWithoutItsData(t *testing.T) {
	redistest.NeedMajor(t, 7) // before, INFO does not say how much was loaded
	server := redistest.Standalone(t, "--save", "")
	var log testbed.Journal
	client, err := rlock.New(rlock.Config{Redis: server.Options(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	for n := 1; n <= 2; n++ {
		hold, err := client.NewLock(testbed.Key).Acquire(t.Context())
		require.NoError(t, err)
		server.Stop()
		server.Start()
		redistest.Await(t, hold.Context().Done())
		require.Eventually(t, func() bool { return log.Count(isEmpty) >= n }, testbed.Hang, time.Millisecond)
		_ = hold.Release(t.Context())
		assert.Equal(t, n, log.Count(isEmpty), "once for each restart")
	}
}
