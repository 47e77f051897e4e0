//go:build unix

package cli_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// The [golden.Steps] of a transcript are those of perform, and commands after a "$". They show what
// they print: the standard output, the lines of the standard error after a "!", and the exit code
// if it is not 0. What differs from run to run has a word instead.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	golden.Each(t, func(t *testing.T, transcript string) string {
		t.Parallel()
		return newSite(t).perform(transcript)
	})
}

// perform carries out the steps of a transcript, and returns it with what the commands print.
func (s *site) perform(transcript string) string {
	holds, passes := make(map[string]*rlock.Hold), make(map[string]string)
	var waiter *player
	queue := make(map[string]*player) // by their notes
	return golden.Steps(transcript, func(line string, out *strings.Builder) (prints bool) {
		step := strings.Fields(strings.ReplaceAll(line, `\x1b`, "\x1b"))
		if len(step) == 0 {
			return false
		}
		last := step[len(step)-1]
		switch step[0] {
		case "hold":
			holds[last] = s.hold(s.kind(step[1], last))
		case "note": // and hold with it
			hold, err := s.kind(step[1], last).Acquire(s.ctx, rlock.WithNote(strings.Join(step[2:len(step)-1], " ")))
			require.NoError(s.t, err)
			holds[last] = hold
		case "release":
			require.NoError(s.t, holds[last].Release(s.ctx))
		case "pass":
			pass, err := holds[last].Pass(s.ctx, time.Minute)
			require.NoError(s.t, err)
			passes[last] = pass
		case "resume":
			_, err := s.client.Resume(s.ctx, passes[last])
			require.NoError(s.t, err)
		case "set":
			s.set(step[1], strings.Join(step[2:], " "))
		case "wait": // by another process
			waiter = s.start(append(append([]string{"exec"}, step[1:len(step)-1]...), last, "--", "true")...)
			s.awaitWaiters(last, 1)
		case "queue": // as well, with a note and a command that goes on
			queue[step[1]] = s.start("exec", "--note", step[1], last, "--", "cat")
			s.awaitWaiters(last, len(queue))
		case "end":
			require.NoError(s.t, queue[last].stdin.Close())
			assert.Zero(s.t, queue[last].wait())
		case "held": // by the one with the note
			i, err := inspect.Of(s.client).Lock(s.ctx, last)
			require.NoError(s.t, err)
			assert.Equal(s.t, step[1], i.Holders[0].Note)
		case "lost": // by a takeover
			assert.ErrorIs(s.t, context.Cause(holds[last].Context()), rlock.ErrTakenOver)
		case "have": // what it has waited for
			assert.Zero(s.t, waiter.wait())
		case "permits", "take", "free", "acquire", "count", "await":
			s.synchronize(step[0], step[1], last)
		case "start":
			p := s.start("exec", "--permits", "5", "--take", step[1], last, "--", "sh", "-c", "echo ready; cat")
			p.expect("ready")
		case "$":
			code, stdout, stderr := s.run("y\n", step[2:]...) // from a pipe
			out.WriteString(normal(stdout))
			for line := range strings.Lines(normal(stderr)) {
				out.WriteString("! " + line)
			}
			if code != 0 {
				fmt.Fprintf(out, "exit %d\n", code)
			}
			return true
		default:
			require.FailNow(s.t, "no such step", line)
		}
		return false
	})
}

// kind returns the lock of a kind.
func (s *site) kind(kind, name string) *rlock.Lock {
	switch kind {
	case "fenced":
		return s.client.NewFencedLock(name)
	case "read":
		return s.client.NewReadWriteLock(name).Read()
	case "write":
		return s.client.NewReadWriteLock(name).Write()
	case "permit":
		return s.client.NewSemaphore(name, 5)
	}
	return s.client.NewLock(name)
}

// synchronize calls a method of one of Redisson's synchronizers. Calls that wait go on until the
// test ends.
func (s *site) synchronize(what, value, name string) {
	c, n := redisson.New(s.client), 0
	_, _ = fmt.Sscan(value, &n)
	waits := func(call func() error) {
		go func() { _ = call() }()
		require.Eventually(s.t, func() bool {
			_, stdout, _ := s.run("", "ls", "--waiting")
			return strings.Contains(stdout, name)
		}, redistest.Hang, time.Millisecond)
	}
	var err error
	switch what {
	case "permits":
		err = c.PermitSemaphore(name).SetPermits(s.ctx, n)
	case "take":
		_, err = c.PermitSemaphore(name).Acquire(s.ctx, time.Hour)
	case "free":
		err = c.Semaphore(name).Release(s.ctx, n)
	case "acquire":
		waits(func() error { return c.Semaphore(name).Acquire(s.ctx, n) })
	case "count":
		_, err = c.CountDownLatch(name).TrySetCount(s.ctx, int64(n))
	case "await":
		waits(func() error { return c.CountDownLatch(name).Await(s.ctx) })
	}
	require.NoError(s.t, err)
}

// normals are what differs from run to run, or with the embedded server, which knows no
// connections.
var normals = []struct {
	what *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:\d+`), "OWNER"},
	{regexp.MustCompile(`[0-9a-f]{32}`), "PERMIT"},
	{regexp.MustCompile(`\S+@\S+\[[1-9]\d*\]|client [0-9a-f]{8}`), "PROCESS"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "CLOCK"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`), "TIME"},
	{regexp.MustCompile(`"lease_ms":([12]\d|30)\d\d\d\b`), `"lease_ms":LEASE`}, // the default one, 30 s
	{regexp.MustCompile(`_ms":\d+`), `_ms":N`},
	{regexp.MustCompile(`\d+-\d+-\d+TCLOCK[^"]*`), "CLOCK"},
	{regexp.MustCompile(`,"program":[^}]*"pid":[1-9][^}]*|,"unresolved":"[^"]*"`), ""},
	{regexp.MustCompile(` {2,}`), "  "},
	{regexp.MustCompile(`(ADDRESS|-)  OWNER`), "ADDRESS  OWNER"},
	{regexp.MustCompile(`not known  -`), "PROCESS  ADDRESS"},
	{regexp.MustCompile(` by 1 process\b|The processes are not known: .*\n`), ""},
	{regexp.MustCompile(`(?m) +$`), ""},
	{regexp.MustCompile(`\n{2,}`), "\n"},
}

// normal returns what does not differ from run to run.
func normal(text string) string {
	for _, n := range normals {
		text = n.what.ReplaceAllString(text, n.word)
	}
	return text
}
