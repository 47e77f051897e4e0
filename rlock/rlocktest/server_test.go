package rlocktest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

const key = "orders:42"

// bubble runs a test in virtual time, with a server.
func bubble(t *testing.T, run func(t *testing.T, server *rlocktest.Server)) {
	synctest.Test(t, func(t *testing.T) { run(t, rlocktest.NewServer(t)) })
}

// eachClock runs a test in a bubble and outside of one.
func eachClock(t *testing.T, run func(t *testing.T)) {
	t.Run("virtual", func(t *testing.T) { synctest.Test(t, run) })
	t.Run("real", run)
}

// hasLease makes a client with that Config.Lease.
func hasLease(lease time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Lease = lease }
}

// arrives waits for an event. The limit ends a test that fails.
func arrives(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(time.Minute):
		require.FailNow(t, "it did not happen")
	}
}

func TestTheEndOfATestReleasesHeldLocksAndStopsTheServer(t *testing.T) {
	eachClock(t, func(t *testing.T) {
		r := &recorder{TB: t}
		server := rlocktest.NewServer(r)
		client := server.Client()
		hold, err := client.NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		r.end()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		_, err = rueidis.NewClient(server.Options())
		require.Error(t, err)
		assert.Empty(t, r.told())
	})
}

func TestTheEndOfATestDoesNotWaitForClientsThatFailed(t *testing.T) {
	for name, fault := range map[string]func(s *rlocktest.Server){
		"dead":    func(s *rlocktest.Server) { s.Kill() },
		"cut":     func(s *rlocktest.Server) { s.Cut() },
		"silent":  func(s *rlocktest.Server) { s.Silence() },
		"refused": func(s *rlocktest.Server) { s.Refuse("OOM command not allowed") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{TB: t}
				server := rlocktest.NewServer(r)
				client := server.Client()
				_, err := client.NewLock(key).Acquire(t.Context())
				require.NoError(t, err)
				fault(server)
				time.Sleep(5 * time.Second) // shorter than the lease: there is a lock to release
				began := time.Now()
				r.end()
				// In virtual time. A node that failed is asked again after at most a second.
				assert.LessOrEqual(t, time.Since(began), time.Second)
			})
		})
	}
}

func TestAConfigThatCannotWorkFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rlocktest.New(r, hasLease(time.Millisecond))
	}()
	<-ended
	r.end()
	assert.Contains(t, r.told(), "rlocktest: client 1: rlock: invalid config: Lease is 1ms")
}

func TestClientsLogToTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		server := rlocktest.NewServer(r)
		server.Client()
		require.NoError(t, server.Client().NewLock(key).Lock(t.Context()))
		server.Lose(key)
		synctest.Wait()
		r.end()
		require.Len(t, r.log, 1)
		assert.Contains(t, r.log[0], "client=2 lock=orders:42")
		assert.False(t, strings.HasSuffix(r.log[0], "\n"))
	})
}

const child = "RLOCKTEST_CHILD"

func TestATestInABubbleThatHangsPanics(t *testing.T) {
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1")
		output, err := cmd.CombinedOutput()
		require.Error(t, err)
		text := string(output)
		assert.Contains(t, text, "panic: rlocktest: "+t.Name()+" hangs: 1h0m0s have passed (a longer test calls Server.HangAfter)")
		assert.Regexp(t, `client 1, goroutine \d+, holds "orders:42" since 1h0m0s, at \S*server_test.go:\d+`, text)
		assert.Regexp(t, `client 2, goroutine \d+, waits for "orders:42" since 1h0m0s, at \S*server_test.go:\d+`, text)
		users, libraries, found := strings.Cut(text, " goroutines of libraries:")
		require.True(t, found)
		assert.Contains(t, users, "rlocktest_test.proceedWith(", "where it hangs")
		assert.NotContains(t, users, "inmemory", "the goroutines of the kit come later")
		assert.Contains(t, libraries, "miniredis")
		return
	}
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		_, err := server.Client().NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		proceedWith(server.Client())
	})
}

func proceedWith(client *rlock.Client) {
	hold, _ := client.NewLock(key).Acquire(context.Background())
	proceed(hold)
}

// proceed stands for code that gets a Hold.
func proceed(hold *rlock.Hold) bool { return hold.Valid() && hold.Context().Err() == nil }

func TestCodeThatIsGivenAHoldIsTestedWithARealOne(t *testing.T) {
	eachClock(t, func(t *testing.T) {
		assert.Panics(t, func() { proceed(new(rlock.Hold)) }, "a zero Hold panics")
		hold, err := rlocktest.New(t).NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		assert.True(t, proceed(hold))
		require.NoError(t, hold.Release(t.Context()))
		assert.False(t, proceed(hold))
	})
}
