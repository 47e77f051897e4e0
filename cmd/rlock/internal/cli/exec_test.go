//go:build unix

package cli_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A holder holds the lock of a case while its command runs.
type holder func(c *rlock.Client, name string) *rlock.Lock

var (
	byOne    holder = (*rlock.Client).NewLock
	byPermit holder = func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 2) }
)

// TestExecBesideFlock has what flock has too.
func TestExecPassesOnTheOutputAndTheExitCodeOfItsCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for what, c := range map[string]struct {
		flags  []string
		run    []string // the command; nil: sh -c script
		script string
		held   holder
		code   int
		stdout string
		stderr string // a part of it
	}{
		"no such path":                {run: []string{"./no/such/path"}, code: 127, stderr: "not found"},
		"a folder":                    {run: []string{"/"}, code: 126, stderr: "cannot be executed"},
		"the outputs":                 {script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		"the lock's name":             {script: `echo "$RLOCK_NAME"`, stdout: "NAME\n"},
		"no token":                    {script: `echo "${RLOCK_TOKEN-none}"`, stdout: "none\n"},
		"a token":                     {flags: []string{"--fenced"}, script: `echo "$RLOCK_TOKEN"`, stdout: "1\n"},
		"a fair lock":                 {flags: []string{"--fair"}, script: "echo ran", stdout: "ran\n"},
		"a read lock":                 {flags: []string{"-s"}, script: "echo ran", stdout: "ran\n"},
		"a write lock":                {flags: []string{"-x"}, script: "echo ran", stdout: "ran\n"},
		"a wait with a unit":          {flags: []string{"-w", "50ms"}, script: "echo ran", held: byOne, code: 1},
		"the holder, when asked for":  {flags: []string{"-n", "-v"}, script: "echo ran", held: byOne, code: 1, stderr: "is held by "},
		"the last permit":             {flags: []string{"-n", "--permits", "2"}, script: "echo ran", held: byPermit, stdout: "ran\n"},
		"no permit left":              {flags: []string{"-n", "--permits", "1"}, script: "echo ran", held: byPermit, code: 1},
		"several permits":             {flags: []string{"-n", "--permits", "3", "--take", "2"}, script: "echo ran", held: byPermit, stdout: "ran\n"},
		"all permits":                 {flags: []string{"--permits", "3", "--take", "3"}, script: "echo ran", stdout: "ran\n"},
		"fewer permits left":          {flags: []string{"-n", "--permits", "3", "--take", "3"}, script: "echo ran", held: byPermit, code: 1},
		"no permits":                  {flags: []string{"--permits", "0"}, script: "echo ran", code: 2, stderr: "at least 1"},
		"a wait that is no time":      {flags: []string{"-w", "soon"}, script: "echo ran", code: 2, stderr: "seconds"},
		"a lease that is too short":   {flags: []string{"--lease", "500ms"}, script: "echo ran", code: 2, stderr: "at least 1s"},
		"a grace that is too long":    {flags: []string{"--lease", "2s", "--grace", "1s"}, script: "echo ran", code: 2, stderr: "at most 960ms"},
		"a lease in seconds":          {flags: []string{"--lease", "10", "--grace", "1"}, script: "echo ran", stdout: "ran\n"},
		"a grace below nothing":       {flags: []string{"--grace", "-1s"}, script: "echo ran", code: 2, stderr: "seconds"},
		"an address without a port":   {flags: []string{"--addr", "127.0.0.1"}, script: "echo ran", code: 2, stderr: "host:port"},
		"a slash in a URL's password": {flags: []string{"--url", "redis://:se/secret@127.0.0.1:1"}, script: "echo ran", code: 2, stderr: "%2F"},
		"no server there":             {flags: []string{"--addr", "127.0.0.1:1"}, script: "echo ran", code: 69, stderr: "cannot connect"},
		"a URL that is none":          {flags: []string{"--url", "redis://me:secret@[host"}, script: "echo ran", code: 2, stderr: "URL"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := "exec:" + strings.ReplaceAll(what, " ", "-")
			if c.held != nil {
				hold, err := c.held(s.client, name).Acquire(s.ctx)
				require.NoError(t, err)
				defer func() { assert.NoError(t, hold.Release(s.ctx)) }()
			}
			run := c.run
			if run == nil {
				run = []string{"sh", "-c", c.script}
			}
			cmd := s.command(append(append(append([]string{"exec"}, c.flags...), name, "--"), run...)...)
			cmd.Env = append(cmd.Env, "RLOCK_TOKEN=inherited", "RLOCK_NAME=inherited")
			code, stdout, stderr := finish(t, cmd, "")
			assert.Equal(t, c.code, code, stderr)
			assert.Equal(t, strings.ReplaceAll(c.stdout, "NAME", name), stdout)
			assert.Contains(t, stderr, c.stderr)
			assert.NotContains(t, stderr, "secret")
			assert.NotContains(t, stderr, "Config", "a shell has flags")
			if c.held == nil {
				i, err := inspect.Of(s.client).Lock(s.ctx, name)
				require.NoError(t, err)
				assert.Zero(t, i.HolderCount, "the lock is released")
			}
		})
	}
}

func TestExecHoldsTheLockWhileItsCommandRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "held"
	p := s.start("exec", name, "--", "sh", "-c", "echo ready; read line")
	p.expect("ready")
	_, err := s.client.NewLock(name).Acquire(s.ctx, rlock.WithWait(0))
	require.ErrorIs(t, err, rlock.ErrNotAcquired)
	p.write("\n")
	assert.Equal(t, 0, p.wait())
	hold, err := s.client.NewLock(name).Acquire(s.ctx, rlock.WithWait(0))
	require.NoError(t, err)
	require.NoError(t, hold.Release(s.ctx))
}

func TestExecNamesTheHolderAsLongAsItWaits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "told"
	hold, err := s.client.NewLock(name).Acquire(s.ctx)
	require.NoError(t, err)
	cmd := s.command("exec", "-v", name, "--", "echo", "ran")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	p := s.play(cmd)
	log := bufio.NewReader(stderr)
	for line := ""; !strings.Contains(line, "told is held by "); {
		line, err = log.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, hold.Release(s.ctx))
	p.expect("ran")
	_, _ = io.Copy(io.Discard, log)
	assert.Equal(t, 0, p.wait())
}
