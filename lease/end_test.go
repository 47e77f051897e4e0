package lease_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The end of a keeper: Close, or a panic.

func TestCloseEndsTheCommandsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		k := lease.NewKeeper(lease.Config{Send: func(ctx context.Context, _ uint32, _ []lease.Renewable) bool {
			<-ctx.Done()
			ended <- ctx.Err()
			return false
		}})
		a := &asking{due: func(time.Time) bool { return true }}
		k.Nudge(a)
		synctest.Wait()
		k.Close()
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestCloseInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(k *lease.Keeper, s *server){
		"new":       func(*lease.Keeper, *server) {},
		"scheduled": func(k *lease.Keeper, s *server) { newHeld(k, 1, 30*time.Second) },
		"paced": func(k *lease.Keeper, s *server) {
			h := newHeld(k, 1, 30*time.Second)
			h.set(1)
			synctest.Wait()
			h.set(2)
		},
		"node down": func(k *lease.Keeper, s *server) {
			s.set(1, true, 0)
			newHeld(k, 1, 30*time.Second).set(1)
			synctest.Wait()
		},
		"in flight": func(k *lease.Keeper, s *server) {
			s.set(1, false, time.Hour)
			newHeld(k, 1, 30*time.Second).set(1)
			synctest.Wait()
		},
		"about to ask": func(k *lease.Keeper, s *server) { newHeld(k, 1, 30*time.Second).set(1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *lease.Keeper, s *server) {
				prepare(k, s)
				start := time.Now()
				k.Close()
				k.Close()
				assert.Zero(t, time.Since(start), "Close waits for nothing")
				sent, scheduled := len(s.sizes(1)), k.Len()

				h := newHeld(k, 1, 30*time.Second)
				assert.Equal(t, scheduled, k.Len(), "a closed keeper schedules nothing")
				h.set(1)
				h.release()
				pass(time.Minute)
				assert.Len(t, s.sizes(1), sent, "a closed keeper sends nothing")
				assert.Zero(t, h.asks, "a closed keeper calls no Due")
			})
		})
	}
}

func TestCloseWaitsForASenderThatDoesNotHeedItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			time.Sleep(time.Second)
			return true
		}})
		k.Nudge(&asking{due: func(time.Time) bool { return true }})
		synctest.Wait()
		k.Close()
		assert.Equal(t, time.Second, time.Since(start))
	})
}

func TestCloseWhileSomeAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := make(chan bool), make(chan bool)
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			t.Error("Close returned early")
			return true
		}})
		n := 0
		at := time.Now().Add(time.Second)
		for range 1000 {
			k.Schedule(&asking{due: func(time.Time) bool {
				if n++; n == 1 {
					asked <- true
					<-answer
				}
				return true
			}}, at)
		}
		<-asked
		go k.Close()
		synctest.Wait()
		close(answer)
		k.Close()
		assert.Less(t, n, 1000, "Close ends the calls of Due")
	})
}

// TestAPanicEndsTheProcess runs itself in another process, where Due or Send panics.
func TestAPanicEndsTheProcess(t *testing.T) {
	const variable = "LEASE_TEST_PANIC_IN"
	if where := os.Getenv(variable); where != "" {
		k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
			panic("a bug in Send")
		}})
		k.Nudge(&asking{due: func(time.Time) bool {
			if where == "Due" {
				panic("a bug in Due")
			}
			return true
		}})
		select {}
	}
	for _, where := range []string{"Due", "Send"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAPanicEndsTheProcess$", "-test.timeout=5m")
		cmd.Env = append(os.Environ(), variable+"="+where)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		assert.Contains(t, string(out), "panic: a bug in "+where)
		assert.NotContains(t, string(out), "fatal error", "a fatal error would hide the panic")
		assert.NotContains(t, string(out), "timed out")
	}
}
