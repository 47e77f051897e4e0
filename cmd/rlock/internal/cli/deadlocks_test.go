//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

func TestDeadlocksNamesTheOwnersThatWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	code, stdout, _ := s.run("", "deadlocks")
	assert.Zero(t, code)
	assert.Equal(t, "no deadlock is seen in Redis\n", stdout)

	other, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{s.addr}, ForceSingleClient: true}})
	require.NoError(t, err)
	defer other.Close()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	me, them := rlock.WithOwner(ctx, rlock.NewOwner()), rlock.WithOwner(ctx, rlock.NewOwner())
	require.NoError(t, s.client.NewLock("orders").Lock(me))
	require.NoError(t, other.NewLock("stock").Lock(them))
	results := make(chan error, 2)
	go func() { results <- other.NewLock("orders").Lock(them) }()
	s.awaitWaiter("orders")
	code, _, _ = s.run("", "deadlocks")
	assert.Zero(t, code, "a wait is no deadlock")
	go func() { results <- s.client.NewLock("stock").Lock(me) }()
	s.awaitWaiter("stock")

	code, stdout, _ = s.run("", "deadlocks")
	assert.Equal(t, 1, code)
	assert.Contains(t, stdout, "deadlock 1 of 1:\n")
	assert.Equal(t, 1, strings.Count(stdout, "waits for orders, which"), stdout)
	assert.Equal(t, 1, strings.Count(stdout, "waits for stock, which"), stdout)

	_, stdout, _ = s.run("", "deadlocks", "--json")
	var cycle []struct{ Lock, Waiter, Holder string }
	require.NoError(t, json.Unmarshal([]byte(stdout), &cycle))
	require.Len(t, cycle, 2)
	assert.Equal(t, "orders", cycle[0].Lock)
	assert.True(t, strings.HasPrefix(cycle[0].Waiter, other.ID()))
	assert.True(t, strings.HasPrefix(cycle[0].Holder, s.client.ID()))

	_, stdout, _ = s.run("", "deadlocks", "nothing:*")
	assert.Equal(t, "no deadlock is seen in Redis\n", stdout)
	cancel()
	for range 2 {
		require.ErrorIs(t, <-results, context.Canceled)
	}
	require.NoError(t, s.client.NewLock("orders").Unlock(me))
	require.NoError(t, other.NewLock("stock").Unlock(them))
}
