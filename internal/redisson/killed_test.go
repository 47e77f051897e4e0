package redisson_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/rlock"
)

func TestWhatAKilledHolderHadIsFreeAfterItsLease(t *testing.T) {
	withBoth(t, setting{lease: shortLease}, func(s *scene) {
		java := s.startJava()
		require.NoError(s.t, java.Thread("one").Lock(killedLock, 0))
		s.freeAfterItsLease(java.Kill, s.golang())

		kill := s.startHolder()
		s.freeAfterItsLease(kill, s.java.Thread("one"))
	})
}

const killedLock = "held until killed"

// freeAfterItsLease kills the holder and has another wait for the lock.
func (s *scene) freeAfterItsLease(kill func(), other side) {
	s.t.Helper()
	waiter := s.start(func() error { return other.Lock(killedLock, 0) })
	s.awaitWaiter(killedLock)
	kill()
	looked := time.Now()
	left, err := s.do("PTTL", killedLock).AsInt64()
	require.NoError(s.t, err)
	require.Positive(s.t, left)
	took := waiter.succeeds().Sub(looked)
	s.t.Logf("killed with %d ms of its lease left, the lock was the other side's after %v", left, took)
	assert.GreaterOrEqual(s.t, took, time.Duration(left-1)*time.Millisecond)
	require.NoError(s.t, other.Unlock(killedLock))
}

// holdAt is the environment variable that makes this binary a Go process that takes
// the lock and keeps it until it is killed. Its value is the server's address.
const holdAt = "RLOCK_TEST_HOLD_AT"

// holdToRead makes the lock that of a reader, if it is not empty.
const holdToRead = "RLOCK_TEST_HOLD_TO_READ"

func holdUntilKilled(addr string) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{addr}}, Lease: shortLease})
	if err == nil {
		var lock rlock.Locker = client.NewLock(killedLock)
		if os.Getenv(holdToRead) != "" {
			lock = client.NewReadWriteLock(killedLock).ReadLock()
		}
		err = lock.Lock(context.Background())
	}
	fmt.Println("held:", err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends when the test does
	os.Exit(1)
}

// startHolder starts such a process and returns when it has the lock.
func (s *scene) startHolder() (kill func()) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdAt+"="+s.Addr())
	if s.setting.kind == redisson.Read {
		cmd.Env = append(cmd.Env, holdToRead+"=1")
	}
	cmd.Stderr = s.t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(s.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	kill = func() {
		_ = cmd.Process.Kill() // fails only if it has ended
		_ = cmd.Wait()
	}
	s.t.Cleanup(func() {
		_ = in.Close()
		kill()
	})
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(s.t, err)
	require.Equal(s.t, "held: <nil>\n", said)
	return kill
}
