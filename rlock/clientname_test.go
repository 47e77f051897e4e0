package rlock_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// clientNames returns the names of the connections, without those that have none.
func (s *site) clientNames() (names []string) {
	s.t.Helper()
	list, err := s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	require.NoError(s.t, err)
	for _, word := range strings.Fields(list) {
		if name, ok := strings.CutPrefix(word, "name="); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestTheConnectionsOfAClientTellItsProcess(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	client := s.client()
	me := thisProcess(t)
	assert.Equal(t, []string{fmt.Sprintf("rlock:%s:%s:%d:%s", me.Program, me.Host, os.Getpid(), client.ID())}, s.clientNames())
}

func TestTheConfigSetsOrRemovesTheNameOfAClient(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	s.client(func(c *rlock.Config) { c.NoClientName = true })
	assert.Empty(t, s.clientNames())
	named := s.client(func(c *rlock.Config) { c.Redis.ClientName = "billing" })
	assert.Equal(t, []string{"billing"}, s.clientNames())

	require.NoError(t, named.NewLock(key).Lock(s.ctx))
	i, err := named.Inspect(s.ctx, key)
	require.NoError(t, err)
	require.NoError(t, i.Unresolved)
	assert.Nil(t, i.Holders[0].Process, "the name does not identify a process")
	require.NoError(t, named.NewLock(key).Unlock(s.ctx))
}

// In RESP2 a separate command sets the name, and it needs a right.
func TestAClientThatMayNotNameItselfWorksWithoutAName(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	for _, old := range []bool{false, true} {
		config := s.limited(s.rights(s.aclLines()...)...)
		config.Redis.AlwaysRESP2 = old
		client, err := rlock.New(config)
		require.NoError(t, err)
		if old {
			assert.Empty(t, s.clientNames())
		} else {
			assert.Len(t, s.clientNames(), 1, "HELLO needs no right")
		}
		require.NoError(t, client.NewLock(key).Lock(s.ctx))
		require.NoError(t, client.NewLock(key).Unlock(s.ctx))
		require.NoError(t, client.Close())
	}
}

func TestASharedClientKeepsItsName(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	option := s.Options()
	option.ClientName = "shared"
	shared, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer shared.Close()
	client, err := rlock.New(rlock.Config{Client: shared})
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, []string{"shared"}, s.clientNames())
}
