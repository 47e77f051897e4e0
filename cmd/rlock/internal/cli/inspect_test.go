//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// hold takes a lock until the test ends.
func (s *site) hold(lock *rlock.Lock) *rlock.Hold {
	s.t.Helper()
	hold, err := lock.Acquire(s.ctx)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = hold.Release(context.Background()) })
	return hold
}

// set sets a key.
func (s *site) set(key, value string) {
	s.t.Helper()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, ForceSingleClient: true, DisableCache: true})
	require.NoError(s.t, err)
	defer redis.Close()
	require.NoError(s.t, redis.Do(s.ctx, redis.B().Set().Key(key).Value(value).Build()).Error())
}

func locks(t *testing.T, text string) (read []view.Lock) {
	t.Helper()
	for line := range strings.Lines(text) {
		var lock view.Lock
		require.NoError(t, json.Unmarshal([]byte(line), &lock), line)
		read = append(read, lock)
	}
	return read
}

func TestLsListsTheLocksThatAreHeldByName(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	code, stdout, _ := s.run("", "ls")
	assert.Zero(t, code)
	assert.Equal(t, 1, strings.Count(stdout, "\n"), "only the head: %s", stdout)

	s.hold(s.client.NewLock("orders:2"))
	s.hold(s.client.NewFencedLock("orders:1"))
	s.hold(s.client.NewReadWriteLock("catalogue").Read())
	s.hold(s.client.NewLock("odd \x1b[31mname"))
	code, stdout, stderr := s.run("", "ls")
	require.Zero(t, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 5)
	assert.Regexp(t, `^NAME +KIND +HOLDER +DEPTH +LEASE +WAITING$`, lines[0])
	assert.Regexp(t, `^catalogue +read-write \(read\) +\S.* +1 +\S+ +0$`, lines[1])
	assert.Regexp(t, `^"odd \\x1b\[31mname" +lock `, lines[2], "names must not control the terminal")
	assert.Regexp(t, `^orders:1 +fenced `, lines[3])
	assert.Regexp(t, `^orders:2 +lock `, lines[4])

	_, stdout, _ = s.run("", "ls", "--json", "orders:*")
	read := locks(t, stdout)
	require.Len(t, read, 2)
	assert.Equal(t, "orders:1", read[0].Name)
	assert.NotZero(t, read[0].Token)
	assert.Equal(t, "orders:2", read[1].Name)
	assert.True(t, strings.HasPrefix(read[1].Holders[0].Owner, inspect.Of(s.client).ID()))

	_, stdout, _ = s.run("", "ls", "--json", "--waiting")
	assert.Empty(t, locks(t, stdout))
}

func TestALockThatIsPassedOnHasNoHolderUntilItIsResumed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pass, err := s.hold(s.client.NewLock("orders:1")).Pass(s.ctx, time.Minute)
	require.NoError(t, err)
	const until = `without a holder until \d\d:\d\d:\d\d`
	_, stdout, _ := s.run("", "ls")
	assert.Regexp(t, `orders:1 +lock +`+until+` +1 +\S+ +0`, stdout)
	_, stdout, _ = s.run("", "show", "orders:1")
	assert.Regexp(t, `State: +without a holder: passed on, or held for its least time; the lease ends in \S+ unless it is resumed`, stdout)
	assert.Regexp(t, "\n"+until+` +exclusive`, stdout)
	_, stdout, _ = s.run("", "top", "--plain", "--count", "1")
	assert.Regexp(t, `orders:1 +lock +`+until, stdout)
	_, stdout, _ = s.run("", "top", "--json", "--count", "1")
	assert.Contains(t, stdout, `"passed":true`)
	_, _, stderr := s.run("", "exec", "-n", "-v", "orders:1", "--", "true")
	assert.Regexp(t, `orders:1 is `+until+`, and 0 wait for it`, stderr)

	hold, err := s.client.Resume(s.ctx, pass)
	require.NoError(t, err)
	_, stdout, _ = s.run("", "ls", "--json")
	assert.NotContains(t, stdout, "passed")
	require.NoError(t, hold.Release(s.ctx))
}

func TestLsListsTheOtherLocksIfTheQueueOfOneHoldsSomethingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"orders:1", "orders:2", "orders:3", "orders:4"} {
		s.hold(s.client.NewLock(name))
	}
	for _, wrong := range []string{"orders:2", "orders:4"} {
		s.set("rlock_queue:{"+wrong+"}", "no queue")
	}
	code, stdout, stderr := s.run("", "ls", "--json")
	assert.Equal(t, 1, code)
	read := locks(t, stdout)
	require.Len(t, read, 2, stdout)
	assert.Equal(t, "orders:1", read[0].Name)
	assert.Equal(t, "orders:3", read[1].Name)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	require.Len(t, lines, 2, stderr)
	for i, wrong := range []string{"orders:2", "orders:4"} {
		assert.True(t, strings.HasPrefix(lines[i], "rlock: "), lines[i])
		assert.Contains(t, lines[i], "rlock_queue:{"+wrong+"}")
		assert.Contains(t, lines[i], rlock.ErrWrongType.Error())
	}

	code, stdout, _ = s.run("", "ls", "orders:[1-3]")
	assert.Equal(t, 1, code)
	assert.Equal(t, 3, strings.Count(stdout, "\n"), "the head and two locks: %s", stdout)
	code, stdout, stderr = s.run("", "ls", "orders:2")
	assert.Equal(t, 1, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "orders:2")
	code, _, stderr = s.run("", "ls", "orders:3")
	assert.Zero(t, code, stderr)
}

func TestShowShowsTheHolderAndTheQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "orders:42"
	hold := s.hold(s.client.NewLock(name))
	p := s.start("exec", name, "--", "true")
	s.awaitWaiter(name)

	code, stdout, _ := s.run("", "show", "--json", name)
	assert.Zero(t, code)
	lock := locks(t, stdout)[0]
	assert.True(t, lock.Held)
	assert.Equal(t, "lock", lock.Kind)
	require.Len(t, lock.Holders, 1)
	assert.Equal(t, "exclusive", lock.Holders[0].Mode)
	require.NotNil(t, lock.LeaseMS)
	assert.Positive(t, *lock.LeaseMS)
	require.Len(t, lock.Queue, 1)
	assert.Equal(t, 1, lock.Waiting)
	if lock.Unresolved == "" { // the embedded server has no CLIENT LIST
		assert.Equal(t, p.cmd.Process.Pid, lock.Queue[0].PID)
	}

	_, stdout, _ = s.run("", "show", name)
	assert.Regexp(t, `Name: +orders:42\n`, stdout)
	assert.Contains(t, stdout, "held; the lease ends in")
	assert.Contains(t, stdout, "1 of rlock")
	assert.Contains(t, stdout, lock.Holders[0].Owner)
	assert.Contains(t, stdout, lock.Queue[0].Owner)
	require.NoError(t, hold.Release(s.ctx))
	assert.Zero(t, p.wait())
	_, stdout, _ = s.run("", "show", name)
	assert.Contains(t, stdout, "free")
}

func TestThePermitsOfAHolderAreShownIfTheyAreSeveral(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "encode"
	one := s.hold(s.client.NewSemaphore(name, 5))
	_, stdout, _ := s.run("", "ls")
	assert.NotContains(t, stdout, "permits")
	takes := func(k string) *player {
		return s.start("exec", "--permits", "5", "--take", k, name, "--", "sh", "-c", "echo ready; read line")
	}
	three := takes("3")
	three.expect("ready")
	code, stdout, stderr := s.run("", "ls")
	assert.Zero(t, code, stderr)
	assert.Regexp(t, `(?m)^encode +semaphore +2 holders \(4 permits\) +- +\S+ +0$`, stdout)
	_, _, stderr = s.run("", "exec", "-n", "-v", "--permits", "5", "--take", "2", name, "--", "true")
	assert.Contains(t, stderr, "encode is held by 2 holders (4 permits), and 0 wait for it")
	require.NoError(t, one.Release(s.ctx))
	four := takes("4")
	s.awaitWaiter(name)

	_, stdout, _ = s.run("", "ls")
	assert.Regexp(t, `(?m)^encode +semaphore +\S.* \(3 permits\) +1 +\S+ +1$`, stdout)
	_, stdout, _ = s.run("", "top", "--plain", "--count", "1")
	assert.Regexp(t, `(?m)^encode +semaphore +\S.* \(3 permits\) +\S+ +\S+ +1 +-$`, stdout)
	_, stdout, _ = s.run("", "show", name)
	assert.Regexp(t, `State: +3 permits are held; `, stdout)
	assert.Regexp(t, `HOLDER .*\n\S.* +3 permits +1 `, stdout)
	assert.Regexp(t, `WAITER .*\n\S.* +4 permits +by message `, stdout)
	_, stdout, _ = s.run("", "ls", "--json")
	lock := locks(t, stdout)[0]
	require.Len(t, lock.Holders, 1)
	require.Len(t, lock.Queue, 1)
	assert.Equal(t, []int{3, 4}, []int{lock.Holders[0].Permits, lock.Queue[0].Permits})

	three.write("\n")
	assert.Zero(t, three.wait())
	four.expect("ready")
	four.write("\n")
	assert.Zero(t, four.wait())
}

func TestUnlockTakesALockAwayOnlyAfterAConfirmation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for what, lock := range map[string]*rlock.Lock{
		"a lock":       s.client.NewLock("orders:1"),
		"a semaphore":  s.client.NewSemaphore("orders:4", 1),
		"a write lock": s.client.NewReadWriteLock("orders:2").Write(),
		"a read lock":  s.client.NewReadWriteLock("orders:3").Read(),
	} {
		t.Run(what, func(t *testing.T) {
			s.hold(lock)
			mine := inspect.Of(s.client).Held()
			owner := ":" + strconv.FormatUint(uint64(mine[len(mine)-1].Owner), 10)
			code, _, stderr := s.run("", "unlock", lock.Name())
			assert.Equal(t, 2, code)
			assert.Contains(t, stderr, "--force")
			code, stdout, stderr := s.run("y\n", "unlock", lock.Name())
			assert.Equal(t, 2, code, "a pipe cannot be asked")
			assert.Contains(t, stderr, "rlock unlock: no terminal to ask on: use --force\n")
			assert.Contains(t, stdout, owner, "the holder is shown")
			silent := s.command("unlock", lock.Name()) // its input is /dev/null
			require.Error(t, silent.Run())
			assert.Equal(t, 2, silent.ProcessState.ExitCode(), "nor can /dev/null")
			locked, err := lock.IsLocked(s.ctx)
			require.NoError(t, err)
			require.True(t, locked)

			code, stdout, _ = s.run("", "unlock", "--force", lock.Name())
			assert.Zero(t, code)
			assert.Contains(t, stdout, "is released")
			held, err := inspect.Of(s.client).Lock(s.ctx, lock.Name()) // IsLocked believes the holder until it has seen its loss
			require.NoError(t, err)
			assert.Empty(t, held.Holders)
			code, _, stderr = s.run("", "unlock", "--force", lock.Name())
			assert.Equal(t, 1, code)
			assert.Contains(t, stderr, "is free")
		})
	}
}

func TestTheExitCodeTellsWhyACommandFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, args := range [][]string{{"ls"}, {"show", "a"}, {"top"}, {"unlock", "--force", "a"}} {
		code, _, stderr := s.run("", append(args, "--addr", "127.0.0.1:1")...)
		assert.Equal(t, 69, code, args)
		assert.Contains(t, stderr, "cannot connect", args)
	}
	for _, args := range [][]string{{"help", "nosuch"}, {"ls", "--db", "-1"}, {"show", ""}, {"top", "--count", "-1"}, {"top", "--limit", "0"}, {"top", "--sort", "losses"}} { // and those of args_test.go
		code, _, stderr := s.run("", args...)
		assert.Equal(t, 2, code, args)
		assert.NotEmpty(t, stderr, args)
	}
}

func TestThereIsCompletionForEachShell(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, _ := s.run("", "completion", shell)
		assert.Zero(t, code, shell)
		assert.NotEmpty(t, stdout, shell)
	}
	s.hold(s.client.NewLock("orders:42"))
	s.hold(s.client.NewLock("users:7"))
	code, stdout, _ := s.run("", "__complete", "show", "ord")
	assert.Zero(t, code)
	assert.Contains(t, stdout, "orders:42")
	assert.NotContains(t, stdout, "users:7")
}

func TestAPrefixIsNotTypedAndNotShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.hold(s.client.NewLock("billing:orders:1"))
	s.hold(s.client.NewLock("stock:1"))
	code, stdout, stderr := s.run("", "ls", "--prefix", "billing:")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "orders:1")
	assert.NotContains(t, stdout, "billing:")
	assert.NotContains(t, stdout, "stock:1")
	code, stdout, stderr = s.run("", "unlock", "--force", "--prefix", "billing:", "orders:1")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stdout, "is released")
}
