package rlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	results "github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/rlocktest"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain fails if a goroutine of the kit outlives its test.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asserting runs a test of the assertions: their errors go to r.
func asserting(t *testing.T, run func(t *testing.T, r *recorder, server *rlocktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		defer r.end()
		run(t, r, rlocktest.NewServer(r))
	})
}

func TestAssertFreeNamesTheHolder(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		server.Client()
		client := server.Client()
		assert.True(t, server.AssertFree(key))
		owner := rlock.NewOwner()
		require.NoError(t, client.NewLock(key).Lock(rlock.WithOwner(t.Context(), owner)))
		assert.False(t, server.AssertFree(key))
		assert.Equal(t, `rlocktest: the lock "orders:42" is not free: it is held by client 2, owner `+fmt.Sprint(owner)+
			`, for 25.001s unless it is renewed`, r.told())
		require.NoError(t, client.NewLock(key).Unlock(rlock.WithOwner(t.Context(), owner)))
		assert.True(t, server.AssertFree(key))
		assert.Empty(t, r.told())
	})
}

func TestAssertFreeWaitsForAReleaseThatIsUnderWay(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		hold, err := client.NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		server.Silence(client)
		require.ErrorIs(t, hold.Release(t.Context()), rlock.ErrUnconfirmed)
		healed := time.AfterFunc(time.Second, func() { server.Heal() })
		defer healed.Stop()
		assert.True(t, server.AssertFree(key), r.told())
	})
}

func TestNoAssertionWaitsForTheEndOfALease(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for name, free := range map[string]func() bool{
			"AssertFree":        func() bool { return server.AssertFree(key) },
			"AssertNothingHeld": server.AssertNothingHeld,
		} {
			hold, err := client.NewLock(key).Acquire(t.Context(), rlock.WithLease(2*time.Second))
			require.NoError(t, err)
			assert.False(t, free(), name)
			assert.True(t, hold.Valid(), name)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

func TestAssertHeldNamesTheHolder(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		a, b := server.Client(), server.Client()
		assert.False(t, server.AssertHeld(key, a))
		assert.Equal(t, `rlocktest: the lock "orders:42" is not held by client 1: it is free; no lock is held`, r.told())
		require.NoError(t, b.NewLock(key).Lock(rlock.WithOwner(t.Context(), rlock.NewOwner())))
		assert.True(t, server.AssertHeld(key, b))
		assert.Empty(t, r.told())
		assert.False(t, server.AssertHeld(key, a))
		assert.Contains(t, r.told(), `the lock "orders:42" is not held by client 1: it is held by client 2, owner `)
		server.Steal(key, time.Minute)
		assert.False(t, server.AssertHeld(key, b))
		assert.Contains(t, r.told(), `is not held by client 2: it is held by the client of Steal, owner 1`)
	})
}

func TestAssertNothingHeldFindsEachKindOfLock(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			hold, err := acquire(t.Context())
			require.NoError(t, err)
			assert.False(t, server.AssertNothingHeld(), kind)
			assert.Contains(t, r.told(), `the lock "orders:42" is left: it is held by client 1, owner `, kind)
			require.NoError(t, hold.Release(t.Context()))
			assert.True(t, server.AssertNothingHeld(), kind)
		}
	})
}

// A call of package once waits with a ticket of its own sort.
func TestAssertNothingHeldFindsWaiters(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		group := results.New(client, results.Options{})
		defer group.Close()
		for _, waits := range []func(context.Context) error{
			client.NewLock(key).Lock,
			func(ctx context.Context) error { _, _, err := group.Do(ctx, key, nil); return err },
		} {
			server.Steal(key, time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			waited := make(chan error)
			go func() { waited <- waits(ctx) }()
			synctest.Wait()
			assert.False(t, server.AssertNothingHeld())
			assert.Contains(t, r.told(), `a client waits for the lock of the queue "rlock_queue:{orders:42}"`)
			cancel()
			require.ErrorIs(t, <-waited, context.Canceled)
			server.Lose(key)
			assert.True(t, server.AssertNothingHeld(), r.told())
		}
	})
}

func TestAssertNothingHeldPassesByOtherData(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		m := server.Miniredis()
		require.NoError(t, m.Set("stock", "3"))
		m.HSet("session:7", "user", "ada")
		m.HSet("times", "12:30", "1")
		assert.True(t, server.AssertNothingHeld(), r.told())
		assert.False(t, server.AssertFree("stock"))
		assert.Equal(t, `rlocktest: the lock "stock" is not free: its key is not that of a lock`, r.told())
	})
}

func TestALockThatWasPassedOnIsHeldByNone(t *testing.T) {
	asserting(t, func(t *testing.T, r *recorder, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			hold, err := acquire(t.Context())
			require.NoError(t, err)
			pass, err := hold.Pass(t.Context(), time.Minute)
			if errors.Is(err, rlock.ErrPass) { // of several
				require.NoError(t, hold.Release(t.Context()))
				continue
			}
			require.NoError(t, err)
			assert.False(t, server.AssertHeld(key, client), kind)
			assert.Contains(t, r.told(), "it is passed on by client 1, and not resumed yet", kind)
			assert.False(t, server.AssertNothingHeld(), kind)
			assert.Contains(t, r.told(), "it is passed on by client 1, and not resumed yet", kind)
			hold, err = client.Resume(t.Context(), pass)
			require.NoError(t, err)
			assert.True(t, server.AssertHeld(key, client), kind)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

// A recorder stands for the testing.T of an inner test. The outer test reads its errors.
type recorder struct {
	testing.TB

	mu       sync.Mutex // guards the fields below
	errors   []string
	log      []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Log(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprint(args...))
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

// end ends the inner test.
func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	r.cleanups = nil
}

// told returns the errors since the last call, as one text.
func (r *recorder) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.errors, "\n")
	r.errors = nil
	return text
}

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
		assert.Regexp(t, `client 1, goroutine \d+, holds "orders:42" since 1h0m0s, at \S*kit_test.go:\d+`, text)
		assert.Regexp(t, `client 2, goroutine \d+, waits for "orders:42" since 1h0m0s, at \S*kit_test.go:\d+`, text)
		users, libraries, found := strings.Cut(text, " goroutines of libraries:")
		require.True(t, found)
		assert.Contains(t, users, "rlocktest_test.proceedWith(", "where it hangs")
		assert.NotContains(t, users, "miniredis", "the goroutines of the kit come later")
		assert.Contains(t, libraries, "miniredis")
		return
	}
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		_, err := server.Client().NewLock(key).Acquire(t.Context())
		require.NoError(t, err)
		proceedWith(server.Client())
	})
}

func proceedWith(client *rlock.Client) { _, _ = client.NewLock(key).Acquire(context.Background()) }

// acquirers returns the Acquire method of a lock of each kind that has one key.
func acquirers(c *rlock.Client) map[string]func(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error) {
	return map[string]func(context.Context, ...rlock.AcquireOption) (*rlock.Hold, error){
		"lock":        c.NewLock(key).Acquire,
		"fair lock":   c.NewFairLock(key).Acquire,
		"fenced lock": c.NewFencedLock(key).Acquire,
		"semaphore":   c.NewSemaphore(key, 1).Acquire,
		"read lock":   c.NewReadWriteLock(key).Read().Acquire,
		"write lock":  c.NewReadWriteLock(key).Write().Acquire,
	}
}

func TestAHolderNoticesALossAtOnce(t *testing.T) {
	for name, lose := range map[string]func(s *rlocktest.Server){
		"gone":      func(s *rlocktest.Server) { s.Lose(key) },
		"another's": func(s *rlocktest.Server) { s.Steal(key, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			eachClock(t, func(t *testing.T) {
				server := rlocktest.NewServer(t)
				client := server.Client(hasLease(24 * time.Hour)) // a renewal would notice after 8 hours
				for kind, acquire := range acquirers(client) {
					hold, err := acquire(t.Context())
					require.NoError(t, err, kind)
					lose(server)
					arrives(t, hold.Context().Done())
					require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost, kind)
					require.ErrorIs(t, hold.Release(t.Context()), rlock.ErrLost, kind)
					if server.Miniredis().Exists(key) {
						server.Lose(key)
					}
				}
				server.AssertNothingHeld()
			})
		})
	}
}

func TestTheNextWaiterHasALostLockAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		a, b := server.Client(), server.Client()
		kinds := acquirers(b)
		for kind, acquire := range acquirers(a) {
			lost, err := acquire(t.Context())
			require.NoError(t, err, kind)
			if kind == "read lock" {
				kind = "write lock" // another reader would not wait
			}
			granted := make(chan *rlock.Hold, 1)
			go func() {
				hold, err := kinds[kind](t.Context())
				assert.NoError(t, err)
				granted <- hold
			}()
			synctest.Wait()
			began := time.Now()
			server.Lose(key)
			hold := <-granted
			require.Less(t, time.Since(began), 10*time.Millisecond, kind) // of virtual time
			server.AssertHeld(key, b)
			require.ErrorIs(t, lost.Release(t.Context()), rlock.ErrLost)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

func TestLosingAFreeLockFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		defer r.end()
		server := rlocktest.NewServer(r)
		server.Lose("order:42")
		assert.Equal(t, `rlocktest: Lose: the lock "order:42" is free; no lock is held`, r.told())
		require.NoError(t, server.Client().NewLock(key).Lock(t.Context()))
		server.Lose("order:42")
		assert.Equal(t, `rlocktest: Lose: the lock "order:42" is free; the locks that are held are ["orders:42"]`, r.told())
	})
}

// A lock of readers is stolen by a writer.
func TestAStolenLockEndsWithItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			for _, held := range []bool{true, false} {
				if !held && kind == "semaphore" {
					continue // only permits that are held can be stolen
				}
				if held {
					lost, err := acquire(t.Context())
					require.NoError(t, err)
					server.Steal(key, 2*time.Minute)
					<-lost.Context().Done()
					require.ErrorIs(t, lost.Release(t.Context()), rlock.ErrLost)
					if fields, _ := server.Miniredis().HKeys(key); kind == "read lock" {
						assert.Equal(t, []string{"ffffffff-ffff-8fff-bfff-ffffffffffff:1:write", "mode"}, fields)
					}
				} else {
					server.Steal(key, 2*time.Minute)
				}
				began := time.Now()
				_, err := acquire(t.Context(), rlock.WithWait(0))
				require.ErrorIs(t, err, rlock.ErrNotAcquired, kind)
				hold, err := acquire(t.Context()) // waits
				require.NoError(t, err, kind)
				assert.InDelta(t, 2*time.Minute, time.Since(began), float64(3*time.Second), kind)
				require.NoError(t, hold.Release(t.Context()))
			}
		}
	})
}

// Two clients may have permits in the name of one owner, and permits may be stolen again.
func TestAllPermitsOfASemaphoreAreStolen(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		owner := rlock.WithOwner(t.Context(), rlock.NewOwner())
		for range 2 {
			require.NoError(t, server.Client().NewSemaphore(key, 4).Lock(owner))
		}
		two, err := server.Client().NewSemaphore(key, 4).Acquire(t.Context(), rlock.WithPermits(2))
		require.NoError(t, err)
		for range 2 {
			server.Steal(key, time.Minute)
			_, err = server.Client().NewSemaphore(key, 4).Acquire(t.Context(), rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired)
		}
		require.ErrorIs(t, two.Release(t.Context()), rlock.ErrLost)
	})
}

func TestRefusedCommandsGetTheError(t *testing.T) {
	eachClock(t, func(t *testing.T) {
		server := rlocktest.NewServer(t)
		lock := server.Client().NewLock(key)
		for _, commands := range [][]string{nil, {"EVALSHA", "EVAL"}, {"hset"}} { // an acquire is a script that calls HSET
			server.Refuse("OOM command not allowed when used memory > 'maxmemory'.", commands...)
			_, err := lock.TryLock(t.Context())
			require.ErrorContains(t, err, "OOM command not allowed", commands)
			server.Heal()
			ok, err := lock.TryLock(t.Context())
			require.NoError(t, err)
			require.True(t, ok)
			require.NoError(t, lock.Unlock(t.Context()))
		}
		server.Refuse("OOM", "PUBLISH")
		ok, err := lock.TryLock(t.Context())
		require.NoError(t, err)
		assert.True(t, ok)
	})
}

// faults are those of the network that end a hold if they last.
var faults = map[string]func(*rlocktest.Server, ...*rlock.Client){
	"cut":    (*rlocktest.Server).Cut,
	"silent": (*rlocktest.Server).Silence,
}

func TestAFaultOfTheNetworkIsThatOfOneClient(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			eachClock(t, func(t *testing.T) {
				server := rlocktest.NewServer(t)
				a, b := server.Client(hasLease(100*time.Millisecond)), server.Client()
				held, err := a.NewLock("held").Acquire(t.Context())
				require.NoError(t, err)
				fault(server, a)
				require.NoError(t, b.NewLock(key).Lock(t.Context()))
				require.NoError(t, b.NewLock(key).Unlock(t.Context()))
				arrives(t, held.Context().Done()) // it is not renewed
				require.NoError(t, b.NewLock("held").Lock(t.Context()))
				server.Heal(a)
				require.NoError(t, a.NewLock(key).Lock(t.Context()))
			})
		})
	}
}

func TestAKilledClientStaysDead(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		a, b := server.Client(), server.Client()
		server.Kill(a)
		server.Heal()
		server.Heal(a)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		require.ErrorIs(t, a.NewLock(key).Lock(ctx), context.DeadlineExceeded)
		require.NoError(t, b.NewLock(key).Lock(t.Context()))
	})
}

func TestArgumentsThatCannotBeFailTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		defer r.end()
		server, other := rlocktest.NewServer(r), rlocktest.New(t)
		for name, fault := range map[string]func(*rlocktest.Server, ...*rlock.Client){
			"Cut": (*rlocktest.Server).Cut, "Silence": (*rlocktest.Server).Silence,
			"Heal": (*rlocktest.Server).Heal, "Kill": (*rlocktest.Server).Kill,
		} {
			fault(server, other)
			assert.Equal(t, "rlocktest: "+name+": a client was not made by Client of this server", r.told())
		}
		server.Refuse("", "evalsha")
		assert.Equal(t, "rlocktest: Refuse: the error is empty", r.told())
		assert.False(t, server.AssertHeld("x", nil))
		assert.Equal(t, `rlocktest: AssertHeld("x"): the client is nil`, r.told())
		require.NoError(t, other.NewLock(key).Lock(t.Context()))
	})
}
