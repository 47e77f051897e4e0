package recipes

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

// An outage takes the pod out of service, and does not restart it: its locks outlive the outage.
func TestAPodThatCannotLockIsNotReadyAndLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		client, mux := server.Client(), http.NewServeMux()
		probes(mux, client)
		ask := func(path string) (status int, text string) {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Code, w.Body.String()
		}
		hold, err := client.NewLock("lock:job").Acquire(t.Context())
		require.NoError(t, err)
		for fault, want := range map[string]struct {
			begin func()
			says  string
		}{
			"a replica":       {func() { server.Refuse("READONLY You can't write against a read only replica.") }, "READONLY"},
			"a full server":   {func() { server.Refuse("OOM command not allowed when used memory > 'maxmemory'.", "hset") }, "OOM"},
			"a missing right": {func() { server.Refuse("NOPERM this user has no permissions to run the 'publish' command", "publish") }, "lacks a permission"},
			"no connection":   {func() { server.Cut() }, ""},
			"silence":         {func() { server.Silence() }, "no answer from Redis in time"},
		} {
			want.begin()
			began := time.Now()
			status, text := ask("/ready")
			assert.Equal(t, http.StatusServiceUnavailable, status, fault)
			assert.Contains(t, text, want.says, fault)
			assert.LessOrEqual(t, time.Since(began), time.Second, fault)
			status, _ = ask("/live")
			assert.Equal(t, http.StatusOK, status, fault)
			server.Heal()
			time.Sleep(5 * time.Second) // the next probe but a few
			status, text = ask("/ready")
			assert.Equal(t, http.StatusOK, status, "%s: %s", fault, text)
		}
		require.NoError(t, hold.Release(t.Context()), "it has outlived them all")
		time.Sleep(5 * time.Second)
		server.AssertNothingHeld()
	})
}

func TestOnePodMigratesAndTheOthersWait(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		var version, runs atomic.Int32
		read := func(context.Context) (int, error) { return int(version.Load()), nil }
		up := func(context.Context) error {
			if runs.Add(1) == 1 {
				return errors.New("the first pod fails")
			}
			time.Sleep(time.Minute)
			version.Store(7)
			return nil
		}
		var pods sync.WaitGroup
		var failed atomic.Int32
		for i := range 6 {
			pods.Go(func() {
				if migrate(t.Context(), []*rlock.Client{here, there}[i%2], 7, read, up) != nil {
					failed.Add(1)
				} else {
					assert.EqualValues(t, 7, version.Load(), "a pod serves before the migration has ended")
				}
			})
		}
		pods.Wait()
		assert.EqualValues(t, 1, failed.Load())
		assert.EqualValues(t, 2, runs.Load())
	})
}

func TestALockOutlastsTheWriteByTheLag(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		began := time.Now()
		require.NoError(t, replicate(t.Context(), here.NewLock("lock:profile"), func(context.Context) error { time.Sleep(time.Second); return nil }, 2*time.Second))
		assert.Equal(t, time.Second, time.Since(began), "it waits for no replica")
		require.NoError(t, there.NewLock("lock:profile").Do(t.Context(), func(context.Context) error { return nil }))
		assert.InDelta(t, 3, time.Since(began).Seconds(), 0.1)
		failure := errors.New("the write failed")
		require.ErrorIs(t, replicate(t.Context(), here.NewLock("lock:profile"), func(context.Context) error { return failure }, time.Hour), failure)
		require.NoError(t, there.NewLock("lock:profile").Do(t.Context(), func(context.Context) error { return nil }, rlock.WithWait(0)))
	})
}

func TestAReservationIsBoughtOnceInItsTime(t *testing.T) {
	inTwo(t, func(t *testing.T, here, there *rlock.Client) {
		sells := func(context.Context) error { return nil }
		mine, err := reserve(t.Context(), here, "7")
		require.NoError(t, err)
		_, err = reserve(t.Context(), there, "7")
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		time.Sleep(9 * time.Minute)
		require.NoError(t, buy(t.Context(), there, mine, sells))
		require.ErrorIs(t, buy(t.Context(), here, mine, sells), rlock.ErrNotPassed)

		late, err := reserve(t.Context(), here, "7")
		require.NoError(t, err)
		time.Sleep(11 * time.Minute)
		require.ErrorIs(t, buy(t.Context(), here, late, sells), rlock.ErrNotPassed)
		_, err = reserve(t.Context(), there, "7")
		require.NoError(t, err)
		time.Sleep(11 * time.Minute)
	})
}

func TestACandidateStandsAgainAfterItsWorkHasFailed(t *testing.T) {
	inTwo(t, func(t *testing.T, here, _ *rlock.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		candidate, failure, told, terms := elect.New(here, "lock:leader"), errors.New("the work failed"), 0, 0
		stand(ctx, func(ctx context.Context) error {
			return candidate.Run(ctx, func(context.Context, *rlock.Hold) error {
				if terms++; terms == 3 {
					cancel()
				}
				return failure
			})
		}, func(err error) {
			assert.ErrorIs(t, err, failure)
			told++
		})
		assert.Equal(t, []int{3, 3}, []int{terms, told})
		require.NoError(t, here.Close())
		stand(t.Context(), func(ctx context.Context) error { return candidate.Run(ctx, nil) }, nil)
	})
}

// The listener is one of TCP, so this test is in real time.
func TestAServiceEndsInOrder(t *testing.T) {
	server := rlocktest.NewServer(t)
	client, other := server.Client(), server.Client()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	working, finish := make(chan bool), make(chan bool)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := client.NewLock("lock:order").Do(r.Context(), func(context.Context) error {
			working <- true
			<-finish
			return nil
		})
		assert.NoError(t, err, "the lock is held to the end of the request")
	})
	guard := idempotent.New(client, idempotent.Options{Who: func(*http.Request) string { return "" }})
	candidate, led := elect.New(client, "lock:leader"), make(chan bool)
	stop, terminate := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- serve(stop, l, &http.Server{Handler: guard.Handler(handler)}, func(ctx context.Context) {
			assert.NoError(t, candidate.Run(ctx, func(ctx context.Context, _ *rlock.Hold) error {
				led <- true
				<-ctx.Done()
				return ctx.Err()
			}))
		}, guard, client)
	}()
	<-led
	status := make(chan int)
	go func() {
		r, _ := http.NewRequest(http.MethodPost, "http://"+l.Addr().String(), nil)
		r.Header.Set("Idempotency-Key", "1")
		response, err := http.DefaultClient.Do(r)
		if assert.NoError(t, err) {
			defer response.Body.Close()
			status <- response.StatusCode
		}
	}()
	<-working
	terminate()
	require.NoError(t, other.NewLock("lock:leader").Do(t.Context(), func(context.Context) error { return nil }), "the next one leads at once")
	server.AssertHeld("lock:order", client)
	finish <- true
	assert.Equal(t, http.StatusOK, <-status)
	assert.NoError(t, <-ended)
	server.AssertNothingHeld()
	http.DefaultClient.CloseIdleConnections()
}
