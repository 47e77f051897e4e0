package rlocktest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/rlocktest"
)

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

func TestAStolenLockEndsWithItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client()
		for kind, acquire := range acquirers(client) {
			if kind == "semaphore" { // only permits that are held can be stolen
				held, err := acquire(t.Context())
				require.NoError(t, err)
				defer func() { require.ErrorIs(t, held.Release(t.Context()), rlock.ErrLost) }()
			}
			server.Steal(key, 2*time.Minute)
			began := time.Now()
			_, err := acquire(t.Context(), rlock.WithWait(0))
			require.ErrorIs(t, err, rlock.ErrNotAcquired, kind)
			hold, err := acquire(t.Context()) // waits
			require.NoError(t, err, kind)
			assert.InDelta(t, 2*time.Minute, time.Since(began), float64(3*time.Second), kind)
			require.NoError(t, hold.Release(t.Context()))
		}
	})
}

func TestAStolenReadWriteLockIsAWriters(t *testing.T) {
	bubble(t, func(t *testing.T, server *rlocktest.Server) {
		client := server.Client()
		lock := client.NewReadWriteLock(key)
		hold, err := lock.Read().Acquire(t.Context())
		require.NoError(t, err)
		server.Steal(key, time.Minute)
		<-hold.Context().Done()
		fields, err := server.Miniredis().HKeys(key)
		require.NoError(t, err)
		assert.Equal(t, []string{"ffffffff-ffff-8fff-bfff-ffffffffffff:1:write", "mode"}, fields)
		_, err = lock.Read().Acquire(t.Context(), rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		_, err = lock.Write().Acquire(t.Context(), rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
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

func TestAFaultOfOneClientIsNotOneOfAnother(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			eachClock(t, func(t *testing.T) {
				server := rlocktest.NewServer(t)
				a, b := server.Client(), server.Client()
				fault(server, a)
				require.NoError(t, b.NewLock(key).Lock(t.Context()))
				require.NoError(t, b.NewLock(key).Unlock(t.Context()))
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

func TestAFaultOfAnUnknownClientFailsTheTest(t *testing.T) {
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
		require.NoError(t, other.NewLock(key).Lock(t.Context()))
	})
}
