//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A player is a command that runs during the test.
type player struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output io.Closer
	stdout *bufio.Reader // of the output
	stderr bytes.Buffer
}

// start starts the command rlock with these arguments.
func (s *site) start(args ...string) *player {
	s.t.Helper()
	return s.play(s.command(args...))
}

func (s *site) play(cmd *exec.Cmd) *player {
	s.t.Helper()
	p := &player{t: s.t, cmd: cmd}
	if cmd.Stderr == nil {
		cmd.Stderr = &p.stderr
	}
	var err error
	p.stdin, err = cmd.StdinPipe()
	require.NoError(s.t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	end, _ := s.ctx.Deadline()
	require.NoError(s.t, stdout.(*os.File).SetReadDeadline(end)) // a process that is left behind may keep it open
	p.output, p.stdout = stdout, bufio.NewReader(stdout)
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return p
}

// line returns the next line of the output.
func (p *player) line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	require.NoError(p.t, err, "the output has ended: %s", &p.stderr)
	return strings.TrimSpace(line)
}

func (p *player) expect(line string) {
	p.t.Helper()
	require.Equal(p.t, line, p.line())
}

// pid returns the next line, which is the id of a process.
func (p *player) pid() int {
	p.t.Helper()
	pid, err := strconv.Atoi(p.line())
	require.NoError(p.t, err)
	return pid
}

func (p *player) write(text string) {
	p.t.Helper()
	_, err := io.WriteString(p.stdin, text)
	require.NoError(p.t, err)
}

func (p *player) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// wait returns the exit code, as a shell reports it, when all that could write to the output have
// ended.
func (p *player) wait() int {
	p.t.Helper()
	_, _ = io.Copy(io.Discard, p.stdout)
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(p.t, err)
	}
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// awaitWaiter returns when a client waits for the lock.
func (s *site) awaitWaiter(name string) { s.awaitWaiters(name, 1) }

// awaitWaiters returns when at least n clients wait for the lock.
func (s *site) awaitWaiters(name string, n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		i, err := inspect.Of(s.client).Lock(s.ctx, name)
		return err == nil && i.Waiting >= n
	}, redistest.Hang, time.Millisecond)
}

// runs reports whether the process exists and is not a zombie.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

// The command and what it has started are ended, and not only what the kernel would kill
// with rlock.
func TestALockThatIsLostEndsTheCommandThoughTheStandardErrorIsNotRead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for what, leaves := range map[string]bool{"and its reader has left": true, "and it is full": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			name := "unread:" + strings.ReplaceAll(what, " ", "-")
			reader, errs, err := os.Pipe()
			require.NoError(t, err)
			defer reader.Close()
			if leaves {
				require.NoError(t, reader.Close())
			} else {
				fill(t, errs)
			}
			cmd := s.command("exec", "--lease", "6s", "--grace", "2s", name, "--",
				"sh", "-c", `trap 'echo heard; exit 0' TERM; sleep 600 >/dev/null 2>&1 & echo $!; wait`)
			cmd.Stderr = errs
			p := s.play(cmd)
			require.NoError(t, errs.Close())
			pid := p.pid()
			released, err := s.client.NewLock(name).ForceUnlock(s.ctx)
			require.NoError(t, err)
			require.True(t, released)
			p.expect("heard")
			assert.Equal(t, 75, p.wait())
			assert.False(t, runs(pid))
		})
	}
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	fd := int(pipe.Fd())
	require.NoError(t, syscall.SetNonblock(fd, true))
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			_, err = syscall.Write(fd, make([]byte, size))
		}
	}
	require.NoError(t, syscall.SetNonblock(fd, false))
}

func TestNohupIsPassedOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cmd := s.command("exec", "nohup", "--", "sh", "-c", "echo ready; read line; echo alive")
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`}, cmd.Args...)
	p := s.play(cmd)
	p.expect("ready")
	p.signal(syscall.SIGHUP)
	p.write("\n")
	p.expect("alive")
	assert.Equal(t, 0, p.wait())
}
