package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
)

// A tool runs a command under a lock: rlock exec, or flock with a file of its own.
type tool struct {
	*site
	flock bool
	name  string // of the lock
	file  string // of flock
}

// command returns the tool with these flags and that command.
func (l *tool) command(flags []string, run ...string) *exec.Cmd {
	if !l.flock {
		return l.site.command(append(append(append([]string{"exec"}, flags...), l.name, "--"), run...)...)
	}
	return exec.CommandContext(l.ctx, "flock", append(append(append([]string{}, flags...), l.file), run...)...)
}

// hold takes the lock for the test until the returned function is called.
func (l *tool) hold(shared, readWrite bool) (release func()) {
	l.t.Helper()
	if !l.flock {
		lock := l.client.NewLock(l.name)
		switch rw := l.client.NewReadWriteLock(l.name); {
		case shared:
			lock = rw.Read()
		case readWrite:
			lock = rw.Write()
		}
		hold, err := lock.Acquire(l.ctx)
		require.NoError(l.t, err)
		return func() { assert.NoError(l.t, hold.Release(l.ctx)) }
	}
	file, err := os.OpenFile(l.file, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(l.t, err)
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	require.NoError(l.t, syscall.Flock(int(file.Fd()), how))
	return func() { _ = file.Close() }
}

// free reports whether another process is granted the lock at once.
func (l *tool) free() bool {
	l.t.Helper()
	code, _, _ := finish(l.t, l.command([]string{"-n"}, "true"), "")
	return code == 0
}

// A game is a command that a tool runs during a step of the test.
type game struct {
	*player
	l       *tool
	output  io.Closer
	release func() // of the lock that the test holds
}

// begin starts the tool.
func (g *game) begin() {
	g.t.Helper()
	stdin, err := g.cmd.StdinPipe()
	require.NoError(g.t, err)
	stdout, err := g.cmd.StdoutPipe()
	require.NoError(g.t, err)
	g.stdin, g.output, g.stdout = stdin, stdout, bufio.NewReader(stdout)
	require.NoError(g.t, g.cmd.Start())
	g.t.Cleanup(func() {
		_ = g.cmd.Process.Kill()
		_, _ = stdin.Close(), stdout.Close()
	})
}

// over returns the exit code of the tool, as a shell reports it. The command may go on.
func (g *game) over() int {
	g.t.Helper()
	state, err := g.cmd.Process.Wait()
	require.NoError(g.t, err)
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// rest returns the rest of the output, when all processes that could write to it have ended.
func (g *game) rest() string {
	g.t.Helper()
	text, err := io.ReadAll(g.stdout)
	require.NoError(g.t, err)
	return strings.TrimSpace(string(text))
}

// end returns how the game ends. A command that goes on without flock gets the end of its
// input; one that rlock does not end would wait for ever.
func (g *game) end() ending {
	g.t.Helper()
	if !g.l.flock {
		text := g.rest()
		return ending{g.over(), text}
	}
	code := g.over()
	_ = g.stdin.Close()
	return ending{code, g.rest()}
}

// awaitWaiter returns when the tool waits for the lock.
func (g *game) awaitWaiter() {
	g.t.Helper()
	if !g.l.flock {
		g.l.awaitWaiter(g.l.name)
		return
	}
	waits := regexp.MustCompile(fmt.Sprintf(`-> FLOCK .* %d `, g.cmd.Process.Pid))
	require.Eventually(g.t, func() bool {
		locks, err := os.ReadFile("/proc/locks")
		return err == nil && waits.Match(locks)
	}, hang, time.Millisecond)
}

func closeOutput(g *game) ending {
	g.begin()
	g.expect(isReady)
	_ = g.output.Close()
	return ending{code: g.over()}
}

func releaseWhileItWaits(g *game) ending {
	g.begin()
	g.awaitWaiter()
	g.release()
	e := g.end()
	if e.what == "ran" {
		e.what = "the command runs"
	}
	return e
}

func interruptTheWait(g *game) ending {
	g.begin()
	g.awaitWaiter()
	g.signal(syscall.SIGINT)
	e := g.end()
	g.release()
	if e.what == "" {
		e.what = "nothing runs"
	}
	return e
}

func signalled(by syscall.Signal) func(g *game) ending {
	return func(g *game) ending {
		g.begin()
		g.expect(isReady)
		g.signal(by)
		return g.end()
	}
}

func ignored(g *game) (e ending) {
	g.begin()
	g.expect(isReady)
	g.signal(syscall.SIGTERM)
	if g.l.flock {
		e.code = g.over()
	}
	free := g.l.free()
	_ = g.stdin.Close()
	if e.what = g.rest(); !free {
		e.what += " with the lock"
	}
	if !g.l.flock {
		e.code = g.over()
	}
	return e
}

func leftBehind(g *game) ending {
	g.begin()
	pid := g.pid()
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	_ = g.stdin.Close()
	e := ending{g.over(), "it is ended"}
	switch free := g.l.free(); {
	case runs(pid) && free:
		e.what = "it goes on without the lock"
	case runs(pid):
		e.what = "it goes on with the lock"
	}
	return e
}

func inContainer(g *game) ending {
	if err := exec.Command("unshare", "--pid", "--fork", "--kill-child", "true").Run(); err != nil {
		g.t.Skipf("this user may not make a PID namespace: %v", err)
	}
	g.cmd.Args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "sh", "-c", `exec "$0" "$@"`}, g.cmd.Args...)
	path, err := exec.LookPath("unshare")
	require.NoError(g.t, err)
	g.cmd.Path = path
	g.begin()
	g.expect(isReady)
	// unshare forwards nothing: the signal is for its child.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", g.cmd.Process.Pid, g.cmd.Process.Pid))
	require.NoError(g.t, err)
	first, err := strconv.Atoi(strings.TrimSpace(string(children)))
	require.NoError(g.t, err)
	require.NoError(g.t, syscall.Kill(first, syscall.SIGTERM))
	if g.l.flock { // the kernel has dropped the signal
		_ = g.stdin.Close()
	}
	return g.end()
}

func takenAway(g *game) ending {
	g.begin()
	g.expect(isReady)
	if g.l.flock {
		require.NoError(g.t, os.Remove(g.l.file))
		require.True(g.t, g.l.free())
		_ = g.stdin.Close()
		require.Equal(g.t, goesOn, g.rest())
		return ending{g.over(), "two hold it"}
	}
	released, err := g.l.client.NewLock(g.l.name).ForceUnlock(g.l.ctx)
	require.NoError(g.t, err)
	require.True(g.t, released)
	return g.end()
}

func cutOff(g *game) ending {
	wire, err := network.Listen(g.l.addr)
	require.NoError(g.t, err)
	defer wire.Close()
	g.cmd.Env = append(g.cmd.Env, "RLOCK_ADDR="+wire.Addr())
	g.begin()
	g.expect(isReady)
	wire.Rule(network.Silence)
	return g.end()
}

func noServer(g *game) ending {
	g.cmd.Env = append(g.cmd.Env, "RLOCK_ADDR=127.0.0.1:1")
	if at := slices.Index(g.cmd.Args, g.l.file); at >= 0 {
		g.cmd.Args[at] = filepath.Join(g.cmd.Dir, "no", "lock")
	}
	g.begin()
	return g.end()
}
