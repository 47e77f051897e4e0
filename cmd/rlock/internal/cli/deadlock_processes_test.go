//go:build unix

package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A step is a wait of a cycle in the command's output.
type step struct {
	Lock     string
	Waiter   string
	WaiterMS int64 `json:"waiter_ms"`
	Holder   string
	HolderMS int64 `json:"holder_ms"`
}

// theCycle returns the cycle that the command has found. All clients have answered.
func theCycle(t *testing.T, stdout string) []step {
	t.Helper()
	var found struct {
		Deadlocks [][]step
		Asked     int
		Silent    []any
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found), stdout)
	require.Len(t, found.Deadlocks, 1, stdout)
	assert.Equal(t, 3, found.Asked)
	assert.Empty(t, found.Silent)
	return found.Deadlocks[0]
}

// A ticket in Redis stands for the first waiter of its process, and here the owner of that
// waiter holds nothing. Each process has one or two owners in the cycle, and in two processes
// the wait of the cycle is the second in its line.
func TestACycleThroughWaitersThatRedisDoesNotShowIsFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var players []*player
	for _, plan := range []string{"lock:1>lock:2 lock:4>lock:5", "lock:2>lock:3 lock:5>lock:1", "lock:3>lock:4"} {
		p := s.play(s.locker(plan))
		p.expect(isReady)
		players = append(players, p)
	}
	// The first in the line of the process, which waits before the owner in the cycle.
	for at, first := range []string{"lock:2", "lock:3", "lock:4"} {
		players[at].write("first " + first + "\n")
		s.awaitWaiter(first)
	}
	for _, p := range players {
		p.write("\n")
	}
	s.awaitWaiter("lock:5")
	s.awaitWaiter("lock:1")
	var stdout string
	require.Eventually(t, func() bool { // the last wait may not have reached Redis
		var code int
		code, stdout, _ = s.run("", "deadlocks", "--json")
		return code == 1
	}, hang, time.Millisecond)
	cycle := theCycle(t, stdout)
	tickets := make(map[string]bool) // the owners that wait, as Redis shows them
	var locks []string
	for at, wait := range cycle {
		locks = append(locks, wait.Lock)
		i, err := s.client.Inspect(s.ctx, wait.Lock)
		require.NoError(t, err)
		for _, w := range i.Queue {
			tickets[w.Owner] = true
		}
		next := cycle[(at+1)%len(cycle)]
		assert.Equal(t, wait.Holder[:clientOfOwner], next.Waiter[:clientOfOwner], "the holder is the next to wait")
		assert.GreaterOrEqual(t, wait.HolderMS, next.WaiterMS, "the owner held its lock before it waited")
	}
	assert.ElementsMatch(t, []string{"lock:1", "lock:2", "lock:3", "lock:4", "lock:5"}, locks)
	hidden := 0
	for _, wait := range cycle {
		if !tickets[wait.Waiter] {
			hidden++
		}
	}
	assert.Equal(t, 3, hidden, "Redis alone does not show the cycle")
	for _, p := range players {
		require.NoError(t, p.stdin.Close())
	}
	for _, p := range players {
		assert.Zero(t, p.wait())
	}
}

// clientOfOwner is the length of the part of an owner's text that names the client.
const clientOfOwner = 19

// Processes that take locks in one order never wait for each other, however many they hold.
func TestNoDeadlockIsFoundWhereThereIsNone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var players []*player
	for range 3 {
		p := s.play(s.locker(inOrder))
		p.expect(isReady)
		players = append(players, p)
	}
	waiting := 0
	for range 25 {
		code, stdout, stderr := s.run("", "deadlocks", "--pause", "1ms")
		require.Zero(t, code, "%s%s", stdout, stderr)
		for name := range s.client.Locks(s.ctx, "busy:*") {
			if i, err := s.client.Inspect(s.ctx, name); err == nil {
				waiting += i.Waiting
			}
		}
	}
	assert.Positive(t, waiting, "no client waited")
	for _, p := range players {
		require.NoError(t, p.stdin.Close())
		assert.Zero(t, p.wait())
	}
	left := 0
	for range s.client.Locks(s.ctx, "busy:*") {
		left++
	}
	assert.Zero(t, left, "all processes have released their locks")
}
