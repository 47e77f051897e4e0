//go:build unix

package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACycleOfThreeProcessesAndFiveLocksIsFound(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var players []*player
	for _, plan := range []string{"lock:1>lock:2 lock:4>lock:5", "lock:2>lock:3 lock:5>lock:1", "lock:3>lock:4 beside>lock:3"} {
		p := s.play(s.locker(plan))
		p.expect(isReady)
		players = append(players, p)
	}
	waits := func(names ...string) {
		for _, name := range names {
			s.awaitWaiter(name)
		}
	}
	players[0].write("\n")
	players[1].write("\n")
	waits("lock:1", "lock:2", "lock:3", "lock:5")
	code, stdout, _ := s.run("", "deadlocks")
	assert.Zero(t, code, "the last of them does not wait yet: %s", stdout)

	players[2].write("\n")
	waits("lock:4")
	code, stdout, stderr := s.run("", "deadlocks", "--json")
	assert.Equal(t, 1, code, stderr)
	var cycle []struct {
		Lock          string
		Waiter        string
		WaiterProcess string `json:"waiter_process"`
		Holder        string
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &cycle), "there is one: %s", stdout)
	var locks []string
	processes := make(map[string]bool)
	for at, wait := range cycle {
		locks = append(locks, wait.Lock)
		processes[wait.Waiter[:clientOfOwner]] = true
		next := cycle[(at+1)%len(cycle)]
		assert.Equal(t, wait.Holder[:clientOfOwner], next.Waiter[:clientOfOwner], "its holder is the next to wait")
	}
	assert.ElementsMatch(t, []string{"lock:1", "lock:2", "lock:3", "lock:4", "lock:5"}, locks)
	assert.Len(t, processes, 3)

	// A lock that is taken from its holder resolves it.
	released, err := s.client.NewLock("lock:3").ForceUnlock(s.ctx)
	require.NoError(t, err)
	require.True(t, released)
	require.Eventually(t, func() bool {
		code, _, _ := s.run("", "deadlocks")
		return code == 0
	}, hang, 1)
	for _, p := range players {
		require.NoError(t, p.stdin.Close())
	}
	for _, p := range players {
		assert.Zero(t, p.wait())
	}
}

// clientOfOwner is the length of the part of an owner's text that names the client.
const clientOfOwner = 19

// Those who take locks in an order never wait for each other, however much is locked.
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
	assert.Positive(t, waiting, "there was something to look at")
	for _, p := range players {
		require.NoError(t, p.stdin.Close())
		assert.Zero(t, p.wait())
	}
	left := 0
	for range s.client.Locks(s.ctx, "busy:*") {
		left++
	}
	assert.Zero(t, left, "all of them have released what they held")
}
