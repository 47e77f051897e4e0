//go:build unix

package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	ossignal "os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A holder holds the lock of a case while its command runs.
type holder func(c *rlock.Client, name string) *rlock.Lock

var (
	byOne    holder = (*rlock.Client).NewLock
	byPermit holder = func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 2) }
	byReader holder = func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Read() }
	byWriter holder = func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() }
)

// A trial is a command under a lock.
type trial struct {
	flags  []string
	run    []string // the command; nil: the child, or sh -c script
	script string
	child  string // the role of the test's binary, "$0" of the script
	stdin  string
	held   holder // the holder of the lock before; nil if it is free

	// play runs during the command, if it is set, and returns its fate.
	play func(g *game) string

	code   int
	fate   string
	stdout string
	stderr string // a part of it
}

// fragile loses its lock soon, and leaves its command time to say so.
var fragile = []string{"--lease=6s", "--grace=2s"}

// Where flock does otherwise, docs/cli.md has the case.
var trials = map[string]trial{
	"a command that succeeds":                              {script: "true"},
	"a command that fails":                                 {script: "exit 3", code: 3},
	"a command that KILL ends":                             {script: "kill -KILL $$", code: 137},
	"a command that TERM ends":                             {script: "kill -TERM $$", code: 143},
	"a command that is not found":                          {run: []string{"no-such-command"}, code: 127},
	"a command that cannot be executed":                    {run: []string{"/etc/passwd"}, code: 126, stderr: "cannot be executed"},
	"no such path":                                         {run: []string{"./no/such/path"}, code: 127, stderr: "not found"},
	"flags of the command":                                 {run: []string{"echo", "-n", "-w", "--", "-s"}, stdout: "-w -- -s"},
	"arguments with spaces":                                {run: []string{"printf", "%s|", "a b", ""}, stdout: "a b||"},
	"standard input":                                       {script: "wc -c | tr -d ' '", stdin: strings.Repeat("x", 1<<20), stdout: "1048576\n"},
	"a folder and a variable of the caller":                {script: `[ "$PWD" = "$FOLDER" ] && [ "$(pwd)" = "$FOLDER" ]`},
	"the outputs":                                          {script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
	"the lock's name":                                      {script: `echo "$RLOCK_NAME"`, stdout: "NAME\n"},
	"no token":                                             {script: `echo "${RLOCK_TOKEN-none}"`, stdout: "none\n"},
	"a token":                                              {flags: []string{"--fenced"}, script: `echo "$RLOCK_TOKEN"`, stdout: "1\n"},
	"a fair lock":                                          {flags: []string{"--fair"}, script: "echo ran", stdout: "ran\n"},
	"a write lock":                                         {flags: []string{"-x"}, script: "echo ran", stdout: "ran\n"},
	"`-n`, and the lock is held":                           {flags: []string{"-n"}, script: "echo ran", held: byOne, code: 1},
	"`-w 0`, and the lock is held":                         {flags: []string{"-w", "0"}, script: "echo ran", held: byOne, code: 1},
	"`-w 0.05`, and the lock is held":                      {flags: []string{"-w", "0.05"}, script: "echo ran", held: byOne, code: 1},
	"`-w 50ms`, and the lock is held":                      {flags: []string{"-w", "50ms"}, script: "echo ran", held: byOne, code: 1},
	"`-n -E 75`, and the lock is held":                     {flags: []string{"-n", "-E", "75"}, script: "echo ran", held: byOne, code: 75},
	"`-w soon`":                                            {flags: []string{"-w", "soon"}, script: "true", code: 2, stderr: "seconds"},
	"`-n -s` beside a reader":                              {flags: []string{"-n", "-s"}, script: "echo ran", held: byReader, stdout: "ran\n"},
	"`-n -s` beside a writer":                              {flags: []string{"-n", "-s"}, script: "echo ran", held: byWriter, code: 1},
	"`-n -x` beside a reader":                              {flags: []string{"-n", "-x"}, script: "echo ran", held: byReader, code: 1},
	"the last permit":                                      {flags: []string{"-n", "--permits", "2"}, script: "echo ran", held: byPermit, stdout: "ran\n"},
	"no permit left":                                       {flags: []string{"-n", "--permits", "1"}, script: "echo ran", held: byPermit, code: 1},
	"a lease that is too short":                            {flags: []string{"--lease", "500ms"}, script: "echo ran", code: 2, stderr: "at least 1s"},
	"a grace that is too long":                             {flags: []string{"--lease", "2s", "--grace", "1s"}, script: "echo ran", code: 2, stderr: "at most 960ms"},
	"a lease in seconds":                                   {flags: []string{"--lease", "10", "--grace", "1"}, script: "echo ran", stdout: "ran\n"},
	"a grace below nothing":                                {flags: []string{"--grace", "-1s"}, script: "echo ran", code: 2, stderr: "seconds"},
	"an address without a port":                            {flags: []string{"--addr", "127.0.0.1"}, script: "echo ran", code: 2, stderr: "host:port"},
	"a slash in a URL's password":                          {flags: []string{"--url", "redis://:se/secret@127.0.0.1:1"}, script: "echo ran", code: 2, stderr: "%2F"},
	"a URL that is none":                                   {flags: []string{"--url", "redis://me:secret@[host"}, script: "echo ran", code: 2, stderr: "URL"},
	"the server is not there; the folder of the file":      {flags: []string{"--addr", "127.0.0.1:1"}, script: "echo ran", code: 69, stderr: "cannot connect"},
	"a reader of the output that leaves":                   {run: []string{"yes", isReady}, play: closeOutput, code: 141},
	"the lock is released while it waits":                  {script: "echo ran", held: byOne, play: releaseWhileItWaits, fate: "ran"},
	"INT while it waits":                                   {script: "echo ran", held: byOne, play: interruptTheWait, code: 130},
	"TERM, and the command traps it":                       {child: childHear, play: signalled(syscall.SIGTERM), code: 42, fate: hears},
	"INT, and the command traps it":                        {child: childHear, play: signalled(syscall.SIGINT), code: 42, fate: hears},
	"HUP, and the command traps it":                        {child: childHear, play: signalled(syscall.SIGHUP), code: 42, fate: hears},
	"QUIT, and the command traps it":                       {child: childHear, play: signalled(syscall.SIGQUIT), code: 42, fate: hears},
	"USR1, and the command traps it":                       {child: childHear, play: signalled(syscall.SIGUSR1), code: 42, fate: hears},
	"USR2, and the command traps it":                       {child: childHear, play: signalled(syscall.SIGUSR2), code: 42, fate: hears},
	"TERM, and the command has no trap":                    {child: childEasy, play: signalled(syscall.SIGTERM), code: 143},
	"TERM, and the command ignores it":                     {child: childDeaf, play: ignored, code: 6, fate: goesOn + " with the lock"},
	"KILL":                                                 {child: childEasy, play: signalled(syscall.SIGKILL), code: 137},
	"TERM, as the process 1 of a container":                {script: `(sh -c "exit 1" &); exec "$0"`, child: childHear, play: inContainer, code: 42, fate: hears},
	"the connection is cut while the command runs":         {child: childEasy, play: outage, code: 6, fate: goesOn},
	"the network is cut":                                   {flags: []string{"--lease=10s", "--grace=4s"}, child: childHear, play: cutOff, code: 75, fate: hears},
	"the lock is taken away, and the command ignores TERM": {flags: fragile, child: childDeaf, play: takenAway, code: 75},
	"the lock is taken away: `rlock unlock --force`, or the file is deleted": {flags: fragile, child: childHear, play: takenAway, code: 75, fate: hears},

	"a process that the command leaves behind":           {script: "sleep 600 >/dev/null 2>&1 & echo $!; exit 4", play: leftBehind, code: 4, fate: "it is ended"},
	"one that ignores TERM":                              {flags: []string{"--grace=100ms"}, script: "(trap '' TERM; echo x >&3; exec sleep 600) 3>&1 >/dev/null 2>&1 & read -r _ <&0; echo $!; exit 4", play: leftBehind, code: 4, fate: "it is ended"},
	"one of a grandchild":                                {script: "sh -c 'sleep 600 >/dev/null 2>&1 & echo $!'; exit 4", play: leftBehind, code: 4, fate: "it is ended"},
	"one that is stopped":                                {flags: []string{"--lease=1h", "--grace=20m"}, script: "sleep 600 >/dev/null 2>&1 & kill -STOP $!; echo $!; exit 4", play: leftBehind, code: 4, fate: "it is ended"},
	"one of a command that is killed":                    {script: "sleep 600 >/dev/null 2>&1 & echo $!; kill -KILL $$", play: leftBehind, code: 137, fate: "it is ended"},
	"a daemon (`setsid`) that the command leaves behind": {script: "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & read line; exit 4", play: leftBehind, code: 4, fate: "it goes on without the lock"},
}

func TestExecPassesOnTheOutputAndTheExitCodeOfItsCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for what, c := range trials {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.t = t
			name := "exec:" + strings.ReplaceAll(what, " ", "-")
			release := func() {}
			if c.held != nil {
				hold, err := c.held(s.client, name).Acquire(s.ctx)
				require.NoError(t, err)
				release = func() { assert.NoError(t, hold.Release(s.ctx)) }
			}
			run := c.run
			switch {
			case c.script != "":
				run = []string{"sh", "-c", c.script, os.Args[0]}
			case c.child != "":
				run = []string{os.Args[0]}
			}
			cmd := s.command(slices.Concat([]string{"exec"}, c.flags, []string{name, "--"}, run)...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(cmd.Env, "RLOCK_TOKEN=inherited", "RLOCK_NAME=inherited", "FOLDER="+cmd.Dir, asChild+"="+c.child)
			if c.play != nil {
				g := &game{player: &player{t: t, cmd: cmd}, s: &s, name: name, release: release}
				fate := c.play(g)
				assert.Equal(t, c.code, g.code)
				assert.Equal(t, c.fate, fate)
				return
			}
			code, stdout, stderr := finish(t, cmd, c.stdin)
			release()
			assert.Equal(t, c.code, code, stderr)
			assert.Equal(t, strings.ReplaceAll(c.stdout, "NAME", name), stdout)
			assert.Contains(t, stderr, c.stderr)
			assert.NotContains(t, stderr, "secret")
			assert.NotContains(t, stderr, "Config", "a shell has flags")
			i, err := inspect.Of(s.client).Lock(s.ctx, name)
			require.NoError(t, err)
			assert.Zero(t, i.HolderCount, "the lock is released")
		})
	}
}

// A game is a command that runs during a trial.
type game struct {
	*player
	s       *site
	name    string
	release func() // of the lock that the test holds
	code    int
}

// begin starts the command.
func (g *game) begin() { g.player = g.s.play(g.cmd) }

// ready starts the command, and returns when it runs under the lock.
func (g *game) ready() {
	g.begin()
	g.expect(isReady)
}

// end returns the rest of the output, when all processes that could write to it have ended.
func (g *game) end() string {
	g.t.Helper()
	text, _ := io.ReadAll(g.stdout)
	g.code = g.wait()
	return strings.TrimSpace(string(text))
}

// free reports whether another process is granted the lock at once.
func (g *game) free() bool {
	code, _, _ := g.s.run("", "exec", "-n", g.name, "--", "true")
	return code == 0
}

func closeOutput(g *game) string {
	g.ready()
	_ = g.output.Close()
	g.code = g.wait()
	return ""
}

func releaseWhileItWaits(g *game) string {
	g.begin()
	g.s.awaitWaiter(g.name)
	g.release()
	return g.end()
}

func interruptTheWait(g *game) string {
	needsSignal(g.t, syscall.SIGINT)
	g.begin()
	g.s.awaitWaiter(g.name)
	g.signal(syscall.SIGINT)
	fate := g.end()
	i, err := inspect.Of(g.s.client).Lock(g.s.ctx, g.name)
	require.NoError(g.t, err)
	assert.Zero(g.t, i.Waiting, "its ticket has left the queue")
	g.release()
	return fate
}

// needsSignal skips a test of a signal that this process ignores, and with it the command.
func needsSignal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if ossignal.Ignored(s) {
		t.Skip("the test was started with the signal ignored, as by nohup, or by a script in the background")
	}
}

func signalled(by syscall.Signal) func(g *game) string {
	return func(g *game) string {
		needsSignal(g.t, by)
		g.ready()
		g.signal(by)
		return g.end()
	}
}

func ignored(g *game) string {
	g.ready()
	g.signal(syscall.SIGTERM)
	free := g.free()
	_ = g.stdin.Close()
	fate := g.end()
	if !free {
		fate += " with the lock"
	}
	return fate
}

func leftBehind(g *game) string {
	if _, err := exec.LookPath("setsid"); err != nil && strings.Contains(g.cmd.String(), "setsid") {
		g.t.Skip(err)
	}
	g.begin()
	line := g.line()
	if line == "x" { // the script has set its trap
		g.write("\n")
		line = g.line()
	}
	pid, err := strconv.Atoi(line)
	require.NoError(g.t, err)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	goesOn := make(chan bool, 1) // when another client has the lock
	go func() {
		hold, err := g.s.client.NewLock(g.name).Acquire(g.s.ctx)
		goesOn <- err != nil || runs(pid)
		if err == nil {
			_ = hold.Release(g.s.ctx)
		}
	}()
	_ = g.stdin.Close()
	_ = g.end()
	if <-goesOn {
		return "it goes on without the lock"
	}
	return "it is ended"
}

// As the process with the id 1 it has to collect orphans, and no default action of a signal would
// end it.
func inContainer(g *game) string {
	unshare, err := exec.LookPath("unshare")
	if err == nil {
		err = exec.Command(unshare, "--pid", "--fork", "--kill-child", "true").Run()
	}
	if err != nil {
		g.t.Skipf("this user may not make a PID namespace: %v", err)
	}
	g.cmd.Path, g.cmd.Args = unshare, append([]string{"unshare", "--pid", "--fork", "--kill-child", "sh", "-c", `exec "$0" "$@"`}, g.cmd.Args...)
	g.ready()
	// unshare forwards nothing: the signal is for its child.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", g.cmd.Process.Pid, g.cmd.Process.Pid))
	require.NoError(g.t, err)
	first, err := strconv.Atoi(strings.TrimSpace(string(children)))
	require.NoError(g.t, err)
	require.NoError(g.t, syscall.Kill(first, syscall.SIGTERM))
	return g.end()
}

func takenAway(g *game) string {
	g.ready()
	released, err := g.s.client.NewLock(g.name).ForceUnlock(g.s.ctx)
	require.NoError(g.t, err)
	require.True(g.t, released)
	return g.end()
}

// over starts the command over a network of its own.
func (g *game) over() *network.Network {
	wire, err := network.Listen(g.s.addr)
	require.NoError(g.t, err)
	g.t.Cleanup(wire.Close)
	g.cmd.Env = append(g.cmd.Env, "RLOCK_ADDR="+wire.Addr())
	g.ready()
	return wire
}

func cutOff(g *game) string {
	g.over().Rule(network.Silence)
	return g.end()
}

func outage(g *game) string {
	g.over().Cut()
	_ = g.stdin.Close()
	return g.end()
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
