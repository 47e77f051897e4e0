//go:build unix

package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

// The command shows the holder and the queue by their process ids, also after the holder was killed.
func TestTheCommandShowsWhichProcessesHoldAndWait(t *testing.T) {
	t.Parallel()
	needsServer(t) // the embedded server cannot distinguish processes
	s := newSite(t)
	const name = "jam"
	var line []*player
	for range 3 {
		line = append(line, s.start("exec", "--fair", "--lease", "2s", "--grace", "500ms", name, "--", "cat"))
		s.awaitShown(name, line)
	}
	require.NoError(t, line[0].cmd.Process.Kill())
	s.awaitShown(name, line[1:])
	for i, p := range line {
		require.NoError(t, p.stdin.Close()) // cat ends
		assert.Equal(t, i > 0, p.wait() == 0)
	}
}

// awaitShown returns when the first process is shown as the holder, and the others as those that wait.
func (s *site) awaitShown(name string, line []*player) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		code, stdout, stderr := s.run("", "show", "--json", name)
		require.Zero(s.t, code, stderr)
		var shown, want []int
		for _, holder := range locks(s.t, stdout)[0].Holders {
			shown = append(shown, holder.PID)
		}
		for _, waiter := range locks(s.t, stdout)[0].Queue {
			shown = append(shown, waiter.PID)
		}
		for _, p := range line {
			want = append(want, p.cmd.Process.Pid)
		}
		return assert.ObjectsAreEqual(want, shown)
	}, redistest.Hang, time.Millisecond)
}
