//go:build unix

package history_test

import (
	"io"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/redistest"
)

func TestAProcessRecordsWhenItCouldNotRun(t *testing.T) {
	child, noted, path := victim(t)
	require.NoError(t, child.Start())
	_, err := io.ReadFull(noted, make([]byte, 1))
	require.NoError(t, err)

	// At first the pulse may not have begun.
	require.Eventually(t, func() bool {
		if child.Process.Signal(syscall.SIGSTOP) != nil {
			return false
		}
		if _, err := syscall.Wait4(child.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil { // until it has stopped
			return false
		}
		stopped := history.Now()
		const stall = 200 * time.Millisecond
		time.Sleep(stall)
		goesOn := history.Now()
		if child.Process.Signal(syscall.SIGCONT) != nil {
			return false
		}
		time.Sleep(stall) // until it is noted
		events, err := history.ReadFiles(path)
		return err == nil && slices.ContainsFunc(events, func(e history.Event) bool {
			return e.Kind == history.Stalled && e.At >= goesOn && e.At.Add(-e.Stall) <= stopped.Add(stall/2)
		})
	}, redistest.Hang, time.Millisecond)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
}
