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
		fenced := s.of(redisson.Fenced)
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":          keeping(s.golang(), s.thread("1")),
			"a lock of Java":        keeping(s.thread("2"), s.golang()),
			"a fenced lock of Go":   keeping(fenced.golang(), fenced.thread("3")),
			"a fenced lock of Java": keeping(fenced.thread("4"), fenced.golang()),
			"a reader in Go":        keeping(s.goBoth().read, s.javaBoth("5").write),
			"a reader in Java":      keeping(s.javaBoth("6").read, s.goBoth().write),
			"a writer in Go":        keeping(s.goBoth().write, s.javaBoth("7").read),
			"a writer in Java":      keeping(s.javaBoth("8").write, s.goBoth().read),

			"a holder in Java that is killed": func(s *scene) {
				lock := s.fresh()
				require.NoError(s.t, holder.Thread("one").Lock(lock, 0))
				s.freeAfterItsLease(lock, holder.Kill, s.golang())
			},
			"a holder in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.freeAfterItsLease(lock, s.startHolder(lock), s.thread("9"))
			},
			"a reader in Java that is killed": func(s *scene) {
				lock := s.fresh()
				require.NoError(s.t, reader.Thread("one").With(redisson.Read).Lock(lock, 0))
				s.readsOnAlone(lock, reader.Kill, s.goBoth())
			},
			"a reader in Go that is killed": func(s *scene) {
				lock := s.fresh()
				s.readsOnAlone(lock, s.of(redisson.Read).startHolder(lock), s.javaBoth("10"))
			},
		})
	})
}

func TestInAClusterTheWatchdogKeepsTheOtherOut(t *testing.T) {
	withNewestInACluster(t, setting{lease: keptLease}, func(s *scene) {
		s.atOnce(map[string]func(s *scene){
			"a lock of Go":   keeping(s.golang(), s.thread("1")),
			"a lock of Java": keeping(s.thread("2"), s.golang()),
		})
	})
}

// In keeping the first keeps the second out for longer than a lease that was renewed once
// lasts.
func keeping(first, second side) func(s *scene) {
	return func(s *scene) {
		lock := s.fresh()
		require.NoError(s.t, first.Lock(lock, 0))
		gives(s.t, false)(second.TryLock(lock, keptLease*3/2, 0))
		gives(s.t, true)(first.IsHeld(lock))
		require.NoError(s.t, first.Unlock(lock))
	}
}

// The locks of a killed process, of which TestTheWatchdogKeepsTheOtherOutUntilItsProcessIsKilled
// has the rows.

// freeAfterItsLease kills the holder while another waits for the lock.
func (s *scene) freeAfterItsLease(lock string, kill func(), other side) {
	s.t.Helper()
	waiter := s.start(func() error { return other.Lock(lock, 0) })
	s.awaitWaiter(lock)
	kill()
	looked := time.Now()
	left, err := s.do("PTTL", lock).AsInt64()
	require.NoError(s.t, err)
	require.Positive(s.t, left)
	took := waiter.succeeds().Sub(looked)
	s.t.Logf("killed with %d ms of its lease left, the lock was the other side's after %v", left, took)
	assert.GreaterOrEqual(s.t, took, time.Duration(left-1)*time.Millisecond)
	require.NoError(s.t, other.Unlock(lock))
}

// readsOnAlone kills the reader when the other one reads too, which goes when the lease of the
// dead one is over.
func (s *scene) readsOnAlone(lock string, kill func(), other couple) {
	s.t.Helper()
	require.NoError(s.t, other.read.Lock(lock, 0))
	kill()
	gives(s.t, false)(s.goBoth().write.TryLock(lock, keptLease, 0)) // the living one is renewed meanwhile
	// Before 4.4 Redisson renews the readers of others too, also dead ones.
	require.NoError(s.t, other.read.Unlock(lock))
	left := time.Now()
	require.NoError(s.t, other.write.Lock(lock, 0), "it need not wait for the dead for ever")
	s.t.Logf("the writer enters %v after the living reader left", time.Since(left))
	require.NoError(s.t, other.write.Unlock(lock))
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
func (s *scene) startHolder(lock string) (kill func()) {
	s.t.Helper()
	cmd, err := redistest.Self(holdAt + "=" + s.Addr())
	require.NoError(s.t, err)
	cmd.Env = append(cmd.Env, holdName+"="+lock)
	if s.setting.kind == redisson.Read {
		cmd.Env = append(cmd.Env, holdToRead+"=1")
	}
	holder, err := redistest.Converse(cmd)
	require.NoError(s.t, err)
	s.t.Cleanup(holder.Kill)
	gives(s.t, "held: <nil>")(holder.Hear(redistest.Hang))
	return holder.Kill
}
