//go:build unix

package cli_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A player is a command that runs during the test.
type player struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
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
	p.stdout = bufio.NewReader(stdout)
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

// wait returns the exit code. The rest of the output must have been read.
func (p *player) wait() int {
	p.t.Helper()
	_, _ = io.Copy(io.Discard, p.stdout)
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(p.t, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// awaitWaiter returns when a client waits for the lock.
func (s *site) awaitWaiter(name string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		i, err := inspect.Of(s.client).Lock(s.ctx, name)
		return err == nil && i.Waiting > 0
	}, hang, time.Millisecond)
}

// runs reports whether the process exists and is not a zombie.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}

func TestExecForwardsEachSignal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			if ossignal.Ignored(signal) {
				t.Skip("the test was started with the signal ignored, as by nohup, and so is the command")
			}
			s := *s
			s.t = t
			name := fmt.Sprintf("signal:%d", signal)
			cmd := s.command("exec", name, "--", os.Args[0])
			cmd.Env = append(cmd.Env, asChild+"="+childHear)
			p := s.play(cmd)
			p.expect(isReady)
			p.signal(signal)
			p.expect(hears)
			assert.Equal(t, 42, p.wait())
		})
	}
}

func TestASignalWhileExecWaitsEndsTheWaitAndRunsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const name = "waits"
	hold, err := s.client.NewLock(name).Acquire(s.ctx)
	require.NoError(t, err)
	p := s.start("exec", name, "--", "echo", "ran")
	s.awaitWaiter(name)
	p.signal(syscall.SIGINT)
	rest, err := io.ReadAll(p.stdout)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, 128+2, p.wait())
	i, err := inspect.Of(s.client).Lock(s.ctx, name)
	require.NoError(t, err)
	assert.Zero(t, i.Waiting, "its ticket has left the queue")
	require.NoError(t, hold.Release(s.ctx))
}

func TestGrandchildrenThatOutliveTheCommandEndBeforeTheLockIsReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for what, script := range map[string]string{
		"a polite one":            "sleep 600 >/dev/null 2>&1 & echo $!; exit 4",
		"one that ignores TERM":   "(trap '' TERM; echo x >&3; exec sleep 600) 3>&1 >/dev/null 2>&1 & read -r _ <&0; echo $!; exit 4",
		"one of a grandchild":     "sh -c 'sleep 600 >/dev/null 2>&1 & echo $!'; exit 4",
		"one that is stopped":     "sleep 600 >/dev/null 2>&1 & kill -STOP $!; echo $!; exit 4",
		"with the command killed": "sleep 600 >/dev/null 2>&1 & echo $!; kill -KILL $$",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			name := "orphans:" + strings.ReplaceAll(what, " ", "-")
			p := s.start("exec", "--grace", "100ms", name, "--", "sh", "-c", script)
			if strings.Contains(what, "ignores") {
				p.expect("x") // it has set its trap
				p.write("\n")
			}
			pid := p.pid()
			granted := make(chan bool, 1) // whether the grandchild ran when another client had the lock
			go func() {
				hold, err := s.client.NewLock(name).Acquire(s.ctx)
				granted <- err != nil || runs(pid)
				if err == nil {
					_ = hold.Release(s.ctx)
				}
			}()
			code := p.wait()
			if strings.Contains(what, "killed") {
				assert.Equal(t, 137, code)
			} else {
				assert.Equal(t, 4, code)
			}
			assert.False(t, runs(pid))
			assert.False(t, <-granted)
		})
	}
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

// The tests of package guard check the margin between KILL and the end of the lease in
// virtual time.
func TestACutNetworkEndsTheCommandBeforeAnotherHasTheLock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wire, err := network.Listen(s.addr)
	require.NoError(t, err)
	defer wire.Close()
	const name = "cut"
	p := s.start("exec", "--addr", wire.Addr(), "--lease", "10s", "--grace", "4s", name, "--",
		"sh", "-c", `trap 'echo heard; exit 0' TERM; sleep 600 >/dev/null 2>&1 & echo $$; echo $!; wait`)
	pids := []int{p.pid(), p.pid()}
	running := make(chan bool, 1) // whether one of them ran when another client had the lock
	go func() {
		hold, err := s.client.NewLock(name).Acquire(s.ctx)
		running <- err != nil || runs(pids[0]) || runs(pids[1])
		if err == nil {
			_ = hold.Release(s.ctx)
		}
	}()
	wire.Rule(network.Silence)
	p.expect("heard")
	assert.Equal(t, 75, p.wait())
	assert.False(t, <-running)
}

func TestAnOutageWhileTheCommandRunsIsNoLoss(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	wire, err := network.Listen(s.addr)
	require.NoError(t, err)
	defer wire.Close()
	p := s.start("exec", "--addr", wire.Addr(), "outage", "--", "sh", "-c", "echo ready; read line; exit 6")
	p.expect("ready")
	wire.Cut()
	p.write("\n")
	assert.Equal(t, 6, p.wait())
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

func TestTheLockIsHeldOnBehalfOfTheCommandAndNamesIt(t *testing.T) {
	t.Parallel()
	needsServer(t)
	s := newSite(t)
	p := s.start("exec", "named", "--", "sh", "-c", "echo ready; read line")
	p.expect("ready")
	i, err := inspect.Of(s.client).Lock(s.ctx, "named")
	require.NoError(t, err)
	require.Len(t, i.Holders, 1)
	require.NotNil(t, i.Holders[0].Process)
	assert.Equal(t, p.cmd.Process.Pid, i.Holders[0].Process.PID)
	p.write("\n")
	assert.Equal(t, 0, p.wait())
	_, err = s.client.NewLock("named").Acquire(s.ctx, rlock.WithWait(0), rlock.WithLease(time.Second))
	require.NoError(t, err)
}
