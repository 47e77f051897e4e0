package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An ending is the exit code and, if that is not enough, a description, as in the table of
// docs/cli.md.
type ending struct {
	code int
	what string
}

func (e ending) String() string {
	if e.what == "" {
		return strconv.Itoa(e.code)
	}
	return fmt.Sprintf("%d, %s", e.code, e.what)
}

// A trial is one case for both tools.
type trial struct {
	what   string // the text in docs/cli.md
	flags  []string
	run    []string // the command; nil: the child, or sh -c script
	script string
	child  string // the role of the test's binary
	stdin  string
	held   string // by another process: "", "exclusive" or "shared"

	// play runs during the command, if it is set.
	play func(g *game) ending

	rlock  ending
	flock  *ending // nil: the same as for rlock
	stdout string
	only   bool // flock does not have this
}

func otherwise(code int, what string) *ending { return &ending{code, what} }

// trials are the cases, in the order of docs/cli.md.
var trials = []trial{
	{what: "a command that succeeds", script: "true"},
	{what: "a command that fails", script: "exit 3", rlock: ending{code: 3}},
	{what: "a command that exits with 200", script: "exit 200", rlock: ending{code: 200}},
	{what: "a command that KILL ends", script: "kill -KILL $$", rlock: ending{code: 137}},
	{what: "a command that TERM ends", script: "kill -TERM $$", rlock: ending{code: 143}},
	{what: "a command that is not found", run: []string{"no-such-command"}, rlock: ending{code: 127}, flock: otherwise(69, "")},
	{what: "a command that cannot be executed", run: []string{"/etc/passwd"}, rlock: ending{code: 126}, flock: otherwise(69, "")},
	{what: "no command", flags: []string{"-n"}, run: []string{}, rlock: ending{code: 2}, flock: otherwise(64, "")},
	{what: "a flag that does not exist", flags: []string{"--nosuch"}, script: "true", rlock: ending{code: 2}, flock: otherwise(64, "")},
	{what: "flags of the command", run: []string{"echo", "-n", "-w", "--", "-s"}, stdout: "-w -- -s"},
	{what: "arguments with spaces", run: []string{"printf", "%s|", "a b", ""}, stdout: "a b||"},
	{what: "standard input", script: "wc -c | tr -d ' '", stdin: strings.Repeat("x", 1<<20), stdout: "1048576"},
	{what: "a folder and a variable of the caller", script: `[ "$PWD" = "$FOLDER" ] && [ "$(pwd)" = "$FOLDER" ]`},
	{what: "a reader of the output that leaves", run: []string{"yes", "ready"}, play: closeOutput, rlock: ending{code: 141}},
	{what: "`-n`, and the lock is held", flags: []string{"-n"}, script: "echo ran", held: "exclusive", rlock: ending{code: 1}},
	{what: "`-w 0`, and the lock is held", flags: []string{"-w", "0"}, script: "echo ran", held: "exclusive", rlock: ending{code: 1}},
	{what: "`-w 0.05`, and the lock is held", flags: []string{"-w", "0.05"}, script: "echo ran", held: "exclusive", rlock: ending{code: 1}},
	{what: "`-n -E 75`, and the lock is held", flags: []string{"-n", "-E", "75"}, script: "echo ran", held: "exclusive", rlock: ending{code: 75}},
	{what: "`-n -E 0`, and the lock is held", flags: []string{"-n", "-E", "0"}, script: "echo ran", held: "exclusive"},
	{what: "`-E 256`", flags: []string{"-E", "256"}, script: "true", rlock: ending{code: 2}, flock: otherwise(64, "")},
	{what: "`-w soon`", flags: []string{"-w", "soon"}, script: "true", rlock: ending{code: 2}, flock: otherwise(64, "")},
	{what: "`-n -s` beside a reader", flags: []string{"-n", "-s"}, script: "echo ran", held: "shared", stdout: "ran"},
	{what: "`-n -s` beside a writer", flags: []string{"-n", "-s"}, script: "echo ran", held: "exclusive", rlock: ending{code: 1}},
	{what: "`-n -x` beside a reader", flags: []string{"-n", "-x"}, script: "echo ran", held: "shared", rlock: ending{code: 1}},
	{what: "the lock is released while it waits", script: "echo ran", held: "exclusive", play: releaseWhileItWaits, rlock: ending{0, "the command runs"}},
	{what: "INT while it waits", script: "echo ran", held: "exclusive", play: interruptTheWait, rlock: ending{130, "nothing runs"}},
	{what: "TERM, and the command traps it", child: childHear, play: signalled(syscall.SIGTERM),
		rlock: ending{42, hears}, flock: otherwise(143, goesOn)},
	{what: "INT, and the command traps it", child: childHear, play: signalled(syscall.SIGINT),
		rlock: ending{42, hears}, flock: otherwise(130, goesOn)},
	{what: "TERM, and the command has no trap", child: childEasy, play: signalled(syscall.SIGTERM),
		rlock: ending{143, ""}, flock: otherwise(143, goesOn)},
	{what: "TERM, and the command ignores it", child: childDeaf, play: ignored,
		rlock: ending{6, goesOn + " with the lock"}, flock: otherwise(143, goesOn+" with the lock")},
	{what: "KILL", child: childEasy, play: signalled(syscall.SIGKILL), rlock: ending{137, ""}, flock: otherwise(137, goesOn)},
	{what: "a process that the command leaves behind", script: "sleep 600 >/dev/null 2>&1 & echo $!; read line; exit 4", play: leftBehind,
		rlock: ending{4, "it is ended"}, flock: otherwise(4, "it goes on with the lock")},
	{what: "a daemon (`setsid`) that the command leaves behind", script: "setsid sh -c 'echo $$; exec sleep 600 >/dev/null 2>&1' & read line; exit 4", play: leftBehind,
		rlock: ending{4, "it goes on without the lock"}, flock: otherwise(4, "it goes on with the lock")},
	{what: "TERM, as the process 1 of a container", child: childHear, play: inContainer,
		rlock: ending{42, hears}, flock: otherwise(6, goesOn)},
	{what: "the lock is taken away: `rlock unlock --force`, or the file is deleted", flags: []string{"--lease=6s", "--grace=2s"}, child: childHear, play: takenAway,
		rlock: ending{75, hears}, flock: otherwise(6, "two hold it")},
	{what: "the lock is taken away, and the command ignores TERM", flags: []string{"--lease=6s", "--grace=2s"}, child: childDeaf, play: takenAway,
		rlock: ending{75, ""}, only: true},
	{what: "the network is cut", flags: []string{"--lease=10s", "--grace=4s"}, child: childHear, play: cutOff,
		rlock: ending{75, hears}, only: true},
	{what: "the server is not there; the folder of the file", flags: nil, script: "true", play: noServer, rlock: ending{code: 69}, flock: otherwise(66, "")},
}

func TestExecBesideFlock(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	version, _ := exec.Command("flock", "--version").Output()
	hasFlock := strings.Contains(string(version), "util-linux")
	for i, c := range trials {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			for _, isFlock := range []bool{false, true} {
				want := c.rlock
				switch {
				case isFlock && (c.only || !hasFlock):
					continue
				case isFlock && c.flock != nil:
					want = *c.flock
				}
				site := *s
				site.t = t
				l := &tool{site: &site, flock: isFlock, name: fmt.Sprintf("trial:%d", i), file: filepath.Join(t.TempDir(), "lock")}
				assert.Equal(t, want.String(), c.with(l).String(), "flock: %v", isFlock)
			}
		})
	}
}

// with makes the trial with a tool.
func (c trial) with(l *tool) ending {
	run := c.run
	switch {
	case c.child != "":
		run = []string{os.Args[0]}
	case run == nil:
		run = []string{"sh", "-c", c.script}
	}
	flags := c.flags
	if l.flock {
		flags = nil
		for _, flag := range c.flags {
			if !strings.HasPrefix(flag, "--lease") && !strings.HasPrefix(flag, "--grace") { // flock has neither flag
				flags = append(flags, flag)
			}
		}
	}
	cmd := l.command(flags, run...)
	cmd.Dir = filepath.Dir(l.file)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "FOLDER="+cmd.Dir, asChild+"="+c.child)
	release := func() {}
	if c.held != "" {
		release = l.hold(c.held == "shared", slices.Contains(flags, "-s") || slices.Contains(flags, "-x"))
	}
	if c.play != nil {
		return c.play(&game{player: &player{t: l.t, cmd: cmd}, l: l, release: release})
	}
	defer release()
	code, stdout, stderr := finish(l.t, cmd, c.stdin)
	assert.Equal(l.t, c.stdout, strings.TrimSpace(stdout), stderr)
	return ending{code: code}
}

// The document has the results of the test, where the two tools differ.
func TestTheDocumentsTableOfFlockShowsTheResultsOfTheTrials(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/cli.md")
	require.NoError(t, err)
	var table strings.Builder
	for _, c := range trials {
		switch {
		case c.only:
			fmt.Fprintf(&table, "| %s | %s | - |\n", c.what, c.rlock)
		case c.flock != nil:
			fmt.Fprintf(&table, "| %s | %s | %s |\n", c.what, c.rlock, c.flock)
		}
	}
	assert.True(t, strings.Contains(string(text), table.String()), "the table is to be:\n%s", &table)
}
