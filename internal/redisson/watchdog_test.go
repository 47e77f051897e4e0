package redisson_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// shortLease is that of the watchdogs where a test waits for it.
const shortLease = 3 * time.Second

// keptLease is that of the watchdogs where a test waits for longer than it. Redisson
// renews at a third, and on a busy machine seconds late.
const keptLease = 2 * shortLease

// All at once, since all that they do is wait.
func TestTheWatchdogKeepsTheOtherOutUntilItsProcessIsKilled(t *testing.T) {
	withBoth(t, setting{lease: keptLease}, func(s *scene) {
		holder, reader := s.startJava(), s.startJava()
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":          keeping("go", redisson.Plain, redisson.Plain),
			"a lock of Java":        keeping("java", redisson.Plain, redisson.Plain),
			"a fenced lock of Go":   keeping("go", redisson.Fenced, redisson.Fenced),
			"a fenced lock of Java": keeping("java", redisson.Fenced, redisson.Fenced),
			"a reader in Go":        keeping("go", redisson.Read, redisson.Write),
			"a reader in Java":      keeping("java", redisson.Read, redisson.Write),
			"a writer in Go":        keeping("go", redisson.Write, redisson.Read),
			"a writer in Java":      keeping("java", redisson.Write, redisson.Read),

			"a holder in Java that is killed": func(s *scene) {
				lock := s.fresh()
				s.must(&thread{Thread: holder.Thread("one")}, redisson.Plain, lock, "lock")
				s.freeAfterItsLease(lock, holder.Kill, s.newActor("go", lock))
			},
			"a holder in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.freeAfterItsLease(lock, s.startHolder(lock, redisson.Plain), s.newActor("java", lock))
			},
			"a reader in Java that is killed": func(s *scene) {
				lock := s.fresh()
				s.must(&thread{Thread: reader.Thread("one")}, redisson.Read, lock, "lock")
				s.readsOnAlone(lock, reader.Kill, s.newActor("go", lock))
			},
			"a reader in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.readsOnAlone(lock, s.startHolder(lock, redisson.Read), s.newActor("java", lock))
			},
		})
	})
}

func TestInAClusterTheWatchdogKeepsTheOtherOut(t *testing.T) {
	with(t, redistest.Cluster(t), versions[len(versions)-1:], setting{lease: keptLease}, func(s *scene) {
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":   keeping("go", redisson.Plain, redisson.Plain),
			"a lock of Java": keeping("java", redisson.Plain, redisson.Plain),
		})
	})
}

// In keeping the first keeps the second out for longer than a lease that was renewed once lasts.
func keeping(first string, its, others redisson.Kind) func(s *scene) {
	java, golang := others, its
	if first == "java" {
		java, golang = its, others
	}
	return func(s *scene) {
		s.plays(s.fresh(), java, golang, first, "A lock", fmt.Sprintf("B tryLock %v => false", keptLease*3/2), "A isHeldByCurrentThread => true", "A unlock")
	}
}

// must makes a call that succeeds.
func (s *scene) must(a actor, kind redisson.Kind, lock, verb string, args ...string) (got string) {
	s.t.Helper()
	got, err := a.do(kind, lock, verb, args)
	require.NoError(s.t, err)
	return got
}

// freeAfterItsLease kills the holder while another waits for the lock.
func (s *scene) freeAfterItsLease(lock string, kill func(), other actor) {
	s.t.Helper()
	waiter := s.start(func() error {
		_, err := other.do(redisson.Plain, lock, "lock", nil)
		return err
	})
	s.awaitWaiter(redisson.Plain, lock)
	kill()
	looked := time.Now()
	left, err := s.do("PTTL", lock).AsInt64()
	require.NoError(s.t, err)
	require.Positive(s.t, left)
	took := waiter.succeeds().Sub(looked)
	s.t.Logf("killed with %d ms of its lease left, the lock was the other side's after %v", left, took)
	assert.GreaterOrEqual(s.t, took, time.Duration(left-1)*time.Millisecond)
	s.must(other, redisson.Plain, lock, "unlock")
}

// readsOnAlone kills the reader when the other one reads too, which goes when the lease of the dead one is
// over. It need not wait for the dead for ever.
func (s *scene) readsOnAlone(lock string, kill func(), other actor) {
	s.t.Helper()
	s.must(other, redisson.Read, lock, "lock")
	kill()
	// The living one is renewed meanwhile.
	assert.Equal(s.t, "false", s.must(s.newActor("go", lock), redisson.Write, lock, "tryLock", keptLease.String()))
	// Before 4.4 Redisson renews the readers of others too, also dead ones.
	s.must(other, redisson.Read, lock, "unlock")
	left := time.Now()
	s.must(other, redisson.Write, lock, "lock")
	s.t.Logf("the writer enters %v after the living reader left", time.Since(left))
	s.must(other, redisson.Write, lock, "unlock")
}

// Environment variables.
const (
	// holdAt makes this binary a Go process that takes a lock and keeps it until it is
	// killed. Its value is the server's address.
	holdAt = "RLOCK_TEST_HOLD_AT"

	holdName   = "RLOCK_TEST_HOLD_NAME"    // of the lock
	holdToRead = "RLOCK_TEST_HOLD_TO_READ" // if it is not empty the lock is that of a reader
)

func holdUntilKilled(addr string) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: keptLease})
	if err == nil {
		name := os.Getenv(holdName)
		var lock *rlock.Lock = client.NewLock(name)
		if os.Getenv(holdToRead) != "" {
			lock = client.NewReadWriteLock(name).Read()
		}
		err = lock.Lock(context.Background())
	}
	fmt.Println("held:", err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends when the test does
	os.Exit(1)
}

// startHolder starts such a process and returns when it has the lock.
func (s *scene) startHolder(lock string, kind redisson.Kind) (kill func()) {
	s.t.Helper()
	cmd, err := redistest.Self(holdAt + "=" + s.Addr())
	require.NoError(s.t, err)
	cmd.Env = append(cmd.Env, holdName+"="+lock)
	if kind == redisson.Read {
		cmd.Env = append(cmd.Env, holdToRead+"=1")
	}
	holder, err := redistest.Converse(cmd)
	require.NoError(s.t, err)
	s.t.Cleanup(holder.Kill)
	heard, err := holder.Hear(redistest.Hang)
	require.NoError(s.t, err)
	require.Equal(s.t, "held: <nil>", heard)
	return holder.Kill
}
