package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A desk is a terminal at which the command runs.
type desk struct {
	t      *testing.T
	keys   *os.File // the input of the terminal, and its screen
	screen *bufio.Reader
	cmd    *exec.Cmd
}

// sit starts the command in the foreground of a new terminal.
func sit(t *testing.T, cmd *exec.Cmd) *desk {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer terminal.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &desk{t: t, keys: keys, screen: bufio.NewReader(keys), cmd: cmd}
}

func (d *desk) press(keys string) {
	d.t.Helper()
	_, err := d.keys.WriteString(keys)
	require.NoError(d.t, err)
}

// await returns when a line with the text is on the screen.
func (d *desk) await(text string) {
	d.t.Helper()
	for {
		line, err := d.screen.ReadString('\n')
		if strings.Contains(line, text) && !strings.Contains(line, "echo") {
			return
		}
		require.NoError(d.t, err, "%q never came", text)
	}
}

func (d *desk) wait() int {
	d.t.Helper()
	_ = d.cmd.Wait()
	return d.cmd.ProcessState.ExitCode()
}

func TestACommandReadsFromItsTerminalAndTheShellHasItBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	cmd := s.command("exec", "terminal", "--", "sh", "-c", `echo ready; read name; echo "got $name"`)
	// After rlock the shell reads from the terminal itself.
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@"; read again; echo "then $again"; exit 5`}, cmd.Args...)
	d := sit(t, cmd)
	d.await("ready")
	d.press("Ada\n")
	d.await("got Ada")
	d.press("Grace\n")
	d.await("then Grace")
	assert.Equal(t, 5, d.wait())
}

// The kernel refuses a file without "#!" when the command's group is in the foreground already.
func TestTheShellHasItsTerminalBackFromACommandThatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("echo hello\n"), 0o700))
	cmd := s.command("exec", "terminal", "--", script)
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@"; code=$?; read again; echo "then $again"; exit $code`}, cmd.Args...)
	d := sit(t, cmd)
	d.await("cannot be executed")
	d.press("Grace\n")
	d.await("then Grace")
	assert.Equal(t, 126, d.wait())
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	needsSignal(t, syscall.SIGINT)
	t.Parallel()
	s := newSite(t)
	d := sit(t, s.command("exec", "interrupt", "--", "sh", "-c", `trap 'echo heard; exit 7' INT; echo ready; while :; do sleep 0.02; done`))
	d.await("ready")
	d.press("\x03")
	d.await("heard")
	assert.Equal(t, 7, d.wait())
}

func TestCtrlZDoesNotSuspendACommandThatHoldsALock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := sit(t, s.command("exec", "suspend", "--", "sh", "-c", `echo ready; cat; exit 8`))
	d.await("ready")
	// A shell that is in vfork does not stop before cat has begun: wait until it has.
	d.press("cat\n")
	d.await("cat") // by the terminal
	d.await("cat") // by cat
	d.press("\x1a")
	d.await("not suspended")
	d.press("\x04") // the end of the input: cat goes on to read
	assert.Equal(t, 8, d.wait())
}

func TestLsPrintsTheTableAnew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.hold(s.client.NewLock("orders:42"))
	d := sit(t, s.command("ls", "--watch"))
	d.awaitText("orders:42")
	s.hold(s.client.NewLock("orders:43"))
	d.awaitText("\x1b[H") // from the first line of the screen
	d.awaitText("orders:43")
}

// A person takes time to answer.
func TestUnlockLeavesTheLockOfAHolderThatItHasNotShown(t *testing.T) {
	t.Parallel()
	for how, arguments := range map[string]func(owner string) []string{
		"by its name":    func(string) []string { return []string{"orders:42"} },
		"by a pattern":   func(string) []string { return []string{"orders:*"} },
		"by its process": func(owner string) []string { return []string{"--process", owner} },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			take := func() *rlock.Hold {
				hold, err := s.connect(rlock.Config{}).NewLock("orders:42").Acquire(s.ctx)
				require.NoError(t, err)
				return hold
			}
			first := take()
			shown, err := inspect.Of(s.client).Lock(s.ctx, "orders:42")
			require.NoError(t, err)
			d := sit(t, s.command(append([]string{"unlock"}, arguments(shown.Holders[0].Owner)...)...))
			d.awaitText("[y/N] ")
			require.NoError(t, first.Release(s.ctx))
			next := take()
			d.press("y\n")
			d.awaitText("orders:42 was left alone")
			assert.Equal(t, 1, d.wait())
			require.NoError(t, next.Release(s.ctx), "it has not lost the lock")
		})
	}
}

// awaitText returns when the text is on the screen, in whatever line.
func (d *desk) awaitText(text string) {
	d.t.Helper()
	var all strings.Builder
	for !strings.HasSuffix(all.String(), text) {
		c, err := d.screen.ReadByte()
		require.NoError(d.t, err, "%q never came: %q", text, all.String())
		all.WriteByte(c)
	}
}
