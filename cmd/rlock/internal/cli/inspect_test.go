//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

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
