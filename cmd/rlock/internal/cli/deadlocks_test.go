//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestDeadlocksNamesTheOwnersThatWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	code, stdout, _ := s.run("", "deadlocks")
	assert.Zero(t, code)
	assert.Equal(t, "no deadlock is seen\n", stdout)

	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	me, them := rlock.WithOwner(ctx, rlock.NewOwner()), rlock.WithOwner(ctx, rlock.NewOwner())
	other := s.connect(rlock.Config{})
	require.NoError(t, s.client.NewLock("orders").Lock(me))
	require.NoError(t, other.NewLock("stock").Lock(them))
	results := make(chan error, 2)
	go func() { results <- other.NewLock("orders").Lock(them) }()
	s.awaitWaiter("orders")
	code, _, _ = s.run("", "deadlocks")
	assert.Zero(t, code, "a wait is not a deadlock")
	go func() { results <- s.client.NewLock("stock").Lock(me) }()
	s.awaitWaiter("stock")

	code, stdout, _ = s.run("", "deadlocks")
	assert.Equal(t, 1, code)
	assert.Contains(t, stdout, "deadlock 1 of 1:\n")
	assert.Equal(t, 1, strings.Count(stdout, "waits for orders, which"), stdout)
	assert.Equal(t, 1, strings.Count(stdout, "waits for stock, which"), stdout)

	text := stdout
	_, stdout, _ = s.run("", "deadlocks", "--json")
	var found struct {
		Deadlocks [][]struct{ Lock, Waiter, Holder string }
		Silent    []any
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Len(t, found.Deadlocks, 1)
	assert.Empty(t, found.Silent)
	cycle := found.Deadlocks[0]
	require.Len(t, cycle, 2)
	assert.Equal(t, "orders", cycle[0].Lock)
	assert.True(t, strings.HasPrefix(cycle[0].Waiter, other.ID()))
	assert.True(t, strings.HasPrefix(cycle[0].Holder, s.client.ID()))

	assert.Equal(t, []string{"waiting for", "held for"}, regexp.MustCompile("waiting for|held for").FindAllString(text, 2))

	_, stdout, _ = s.run("", "deadlocks", "nothing:*")
	assert.Equal(t, "no deadlock is seen\n", stdout)
	cancel()
	for range 2 {
		require.ErrorIs(t, <-results, context.Canceled)
	}
	require.NoError(t, s.client.NewLock("orders").Unlock(me))
	require.NoError(t, other.NewLock("stock").Unlock(them))
}

// For a client that does not answer the command uses Redis, and the output says so.
func TestDeadlocksNamesTheClientsThatDidNotAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	me, them := rlock.WithOwner(ctx, rlock.NewOwner()), rlock.WithOwner(ctx, rlock.NewOwner())
	other := s.connect(rlock.Config{NoAnswers: true})
	require.NoError(t, s.client.NewLock("orders").Lock(me))
	require.NoError(t, other.NewLock("stock").Lock(them))
	require.Eventually(t, func() bool { // the other client has subscribed
		code, stdout, _ := s.run("", "deadlocks")
		return code == 0 && strings.Contains(stdout, "no deadlock is seen\n1 of 2 clients that hold locks did not answer; for these only the state in Redis is known:\n")
	}, hang, time.Millisecond)

	results := make(chan error, 2)
	go func() { results <- other.NewLock("orders").Lock(them) }()
	go func() { results <- s.client.NewLock("stock").Lock(me) }()
	s.awaitWaiter("orders")
	s.awaitWaiter("stock")
	code, stdout, _ := s.run("", "deadlocks")
	assert.Equal(t, 1, code, "its waiters are the first in their lines: %s", stdout)
	assert.Contains(t, stdout, "1 of 2 clients that hold locks did not answer")

	_, stdout, _ = s.run("", "deadlocks", "--json")
	var found struct {
		Deadlocks [][]any
		Asked     int
		Silent    []struct{ Client, Process string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	assert.Len(t, found.Deadlocks, 1)
	assert.Equal(t, 2, found.Asked)
	require.Len(t, found.Silent, 1)
	assert.Equal(t, other.ID(), found.Silent[0].Client)
	if redistest.Installed() { // the embedded server has no CLIENT LIST
		assert.NotEmpty(t, found.Silent[0].Process)
	}
	cancel()
	<-results
	<-results
}
