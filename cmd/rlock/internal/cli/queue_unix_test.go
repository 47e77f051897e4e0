//go:build unix

package cli_test

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// Processes wait for one lock. The command shows the holder and the queue by their process ids, and
// so it does when the holder was killed.
func TestTheCommandShowsWhichProcessesHoldAndWait(t *testing.T) {
	t.Parallel()
	needsServer(t) // the embedded server cannot distinguish processes
	s := newSite(t)
	const name = "jam"
	awaits := func(line []*exec.Cmd) {
		t.Helper()
		require.Eventually(t, func() bool {
			code, stdout, stderr := s.run("", "show", "--json", name)
			require.Zero(t, code, stderr)
			shown := locks(t, stdout)[0]
			if len(shown.Holders) != 1 || shown.Waiting != len(line)-1 || shown.Holders[0].PID != line[0].Process.Pid {
				return false
			}
			var queue, pids []int
			for _, waiter := range shown.Queue {
				queue = append(queue, waiter.PID)
			}
			for _, cmd := range line[1:] {
				pids = append(pids, cmd.Process.Pid)
			}
			return assert.ObjectsAreEqual(pids, queue)
		}, redistest.Hang, time.Millisecond)
	}
	var line []*exec.Cmd
	var inputs []io.Closer
	for range 4 {
		cmd := s.command("exec", "--fair", "--lease", "2s", "--grace", "500ms", name, "--", "cat")
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		line, inputs = append(line, cmd), append(inputs, stdin)
		awaits(line)
	}
	require.NoError(t, line[0].Process.Kill())
	awaits(line[1:])
	for i, cmd := range line {
		require.NoError(t, inputs[i].Close()) // cat ends
		assert.Equal(t, i > 0, cmd.Wait() == nil)
	}
}
