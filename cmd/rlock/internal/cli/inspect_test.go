//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/cli"
	"github.com/go-rlock/rlock/cmd/rlock/internal/view"
	"github.com/go-rlock/rlock/rlock"
)

// hold takes a lock until the test ends.
func (s *site) hold(lock *rlock.Lock) *rlock.Hold {
	s.t.Helper()
	hold, err := lock.Acquire(s.ctx)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = hold.Release(context.Background()) })
	return hold
}

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

// The exit code 69 is for a server that cannot be reached.
func TestAnOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	s := newSite(t)
	s.hold(s.client.NewLock("orders:42"))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	require.NoError(t, out.Close())
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"show", "orders:42"}, {"show", "--json", "orders:42"}, {"unlock", "--force", "orders:42"}} {
		var errs bytes.Buffer
		assert.Equal(t, 1, cli.Main(append(args, "--addr", s.addr), os.Stdin, out, &errs), args)
		assert.Contains(t, errs.String(), os.ErrClosed.Error(), args)
	}
}
