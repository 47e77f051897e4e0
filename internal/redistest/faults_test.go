package redistest_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestAServerIsPausedAndStoppedAndComesBackEmptyAtTheSameAddress(t *testing.T) {
	s := redistest.Standalone(t)
	c, addr := s.Client(t), s.Addr()
	set(t, c, key, "1")
	s.Pause()
	assert.Error(t, ping(t, c))
	s.Resume()
	eventually(t, func() bool { return ping(t, c) == nil })
	s.Pause()
	s.Stop()
	assert.Error(t, ping(t, c))
	_, err := net.Dial("tcp", addr)
	assert.Error(t, err, "no server listens")
	s.Start()
	assert.Equal(t, addr, s.Addr())
	eventually(t, func() bool { return ping(t, c) == nil })
	assert.True(t, absent(t, c))
}

func TestASentinelFailsOverAndComesBackInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinel(t)
	old := s.Primary(key).Addr()
	s.Failover(key)
	assert.NotEqual(t, old, s.Primary(key).Addr())
	assert.Equal(t, "master", role(t, s.Primary(key)))
	c := s.Client(t)
	set(t, c, key, "1")
	assert.Equal(t, "1", get(t, s.Primary(key).Client(t), key), "clients are redirected to it")

	s.TakeForDead(time.Second)
	dead := s.Primary(key)
	dead.Stop()
	eventually(t, func() bool { return s.Primary(key).Addr() != dead.Addr() })
	eventually(t, func() bool { return ping(t, c) == nil })
	dead.Start()
	eventually(t, func() bool { return role(t, dead) == "slave" })

	s.Stop()
	assert.Error(t, ping(t, c))
	s.Start()
	assert.Equal(t, "master", role(t, s.Primary(key)))
	assert.True(t, absent(t, s.Client(t)), "servers keep nothing on disk")
}

func TestAClusterFailsOverMovesASlotAndComesBackInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.Cluster(t)
	c := s.Client(t)
	for i := range 150 { // more than one MIGRATE takes
		set(t, c, fmt.Sprintf("{%s}:%d", key, i), "1")
	}
	home, neighbour := s.Primary(key).Addr(), s.Primary(other).Addr()
	require.NotEqual(t, home, neighbour)
	s.Failover(key)
	assert.NotEqual(t, home, s.Primary(key).Addr())
	assert.Equal(t, "master", role(t, s.Primary(key)))
	assert.Equal(t, neighbour, s.Primary(other).Addr())
	s.Failover(key)
	assert.Equal(t, home, s.Primary(key).Addr(), "and back")

	movesAndComesBack(t, s, c, s.MoveSlot)

	s.TakeForDead(2 * time.Second)
	dead := s.Primary(key)
	dead.Stop()
	eventually(t, func() bool { return s.Primary(key).Addr() != dead.Addr() })
	dead.Start()
	eventually(t, func() bool { return role(t, dead) == "slave" })

	s.TakeForDead(time.Minute)
	s.MoveSlot(key)
	away := s.Primary(key)
	s.Stop()
	s.Start()
	assert.Equal(t, away.Addr(), s.Primary(key).Addr(), "the nodes remember the owners of slots")
	set(t, s.Client(t), key, "1")
}

func TestTheAddressOfAStoppedServerIsReservedUntilTheTestEnds(t *testing.T) {
	var s *redistest.Server
	t.Run("a server", func(t *testing.T) {
		s = redistest.Standalone(t)
		s.Stop()
		assert.False(t, mayChoose(t, s))
	})
	if s == nil {
		t.Skip("no server is installed")
	}
	assert.True(t, mayChoose(t, s))
}

// mayChoose reports whether another test may choose the port of the server: no socket
// listens at its guard.
func mayChoose(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", s.Addr())
	require.NoError(t, err)
	addr.Port += 16000
	l, err := net.ListenTCP("tcp", addr)
	return err == nil && l.Close() == nil
}

func TestStopCutsTheConnectionsOfAnEmbedded(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T, s *redistest.Server) {
		c := s.Client(t)
		set(t, c, key, "1")
		s.Stop()
		assert.Error(t, ping(t, c))
		late, err := rueidis.NewClient(s.Options())
		late.Close()
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		s.Start()
		for ping(t, c) != nil { // Bubble ends a hang
		}
		assert.Equal(t, "1", get(t, c, key))
		calls := s.CountCalls(t, func() { get(t, c, key) })
		assert.EqualValues(t, 1, calls["get"], "the count outlasts the restart")
	})
}

func TestAReplicaDoesNotRiseWithOldData(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinel(t)
	replica := s.Nodes()[1]
	require.NotEqual(t, replica.Addr(), s.Primary(key).Addr())
	replica.Stop()
	primary := s.Primary(key).Client(t)
	set(t, primary, key, "1")
	// Otherwise the replica gets the missing data as commands, and not as a file.
	require.NoError(t, primary.Do(t.Context(), primary.B().Arbitrary("DEBUG", "CHANGE-REPL-ID").Build()).Error())
	replica.Start()
	c := replica.Client(t)
	eventually(t, func() bool { return !absent(t, c) })
	s.Stop()
	replica.Start()
	assert.True(t, absent(t, replica.Client(t)))
}

func TestASlotMovesAtOnceAndBack(t *testing.T) {
	t.Parallel()
	redistest.NeedValkey(t, 9)
	s := redistest.Cluster(t)
	c := s.Client(t)
	for i := range 150 {
		set(t, c, fmt.Sprintf("{%s}:%d", key, i), "1")
	}
	movesAndComesBack(t, s, c, s.MoveSlotAtomically)
}

// movesAndComesBack moves the slot of the key, which has 150 keys, there and back.
func movesAndComesBack(t *testing.T, s *redistest.Server, c rueidis.Client, move func(key string)) {
	t.Helper()
	home := s.Primary(key).Addr()
	move(key)
	away := s.Primary(key)
	assert.NotEqual(t, home, away.Addr())
	assert.EqualValues(t, 150, keysInSlot(t, away))
	assert.Equal(t, "1", get(t, c, "{"+key+"}:149"), "clients follow")
	move(key)
	assert.Equal(t, home, s.Primary(key).Addr())
	assert.EqualValues(t, 150, keysInSlot(t, s.Primary(key)))
}

// role returns the node's role, "" while it does not answer: sentinels cut the connections of
// a node whose role they change.
func role(t *testing.T, node *redistest.Server) string {
	t.Helper()
	c, err := rueidis.NewClient(node.Options())
	if c != nil {
		defer c.Close()
	}
	if err != nil {
		return ""
	}
	answer, err := c.Do(t.Context(), c.B().Role().Build()).ToArray()
	if err != nil {
		return ""
	}
	name, err := answer[0].ToString()
	require.NoError(t, err)
	return name
}

// absent reports whether the server does not have the key.
func absent(t *testing.T, c rueidis.Client) bool {
	t.Helper()
	return rueidis.IsRedisNil(c.Do(t.Context(), c.B().Get().Key(key).Build()).Error())
}

// keysInSlot returns how many keys the node has in the slot of key.
func keysInSlot(t *testing.T, node *redistest.Server) int64 {
	t.Helper()
	c := node.Client(t)
	slot, err := c.Do(t.Context(), c.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	require.NoError(t, err)
	n, err := c.Do(t.Context(), c.B().ClusterCountkeysinslot().Slot(slot).Build()).AsInt64()
	require.NoError(t, err)
	return n
}

func TestAFaultThatAKindDoesNotHaveFailsTheTest(t *testing.T) {
	redistest.WithoutServer(t)
	for name, fault := range faults {
		if name == "Stop" || name == "Start" {
			continue
		}
		err := redistest.Attempt(func() { fault(redistest.Embedded(new(redistest.Program))) })
		assert.EqualError(t, err, "redistest: a server of kind embedded has no "+name)
	}
}

func TestASharedServerCannotBeBroken(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindSentinel, redistest.KindCluster}, func(t *testing.T, s *redistest.Server) {
		before := s.Primary(key).Addr()
		shared := s.For(new(redistest.Program))
		for name, fault := range faults {
			err := redistest.Attempt(func() { fault(shared) })
			assert.ErrorContains(t, err, name+" of a server that other tests share")
		}
		assert.ErrorContains(t, redistest.Attempt(shared.Primary(key).Stop), "Stop of a server that other tests share")
		assert.Equal(t, before, s.Primary(key).Addr())
	})
}

var faults = map[string]func(*redistest.Server){
	"Stop":     (*redistest.Server).Stop,
	"Start":    (*redistest.Server).Start,
	"Pause":    (*redistest.Server).Pause,
	"Resume":   (*redistest.Server).Resume,
	"Failover": func(s *redistest.Server) { s.Failover(key) },
	"MoveSlot": func(s *redistest.Server) { s.MoveSlot(key) },

	"MoveSlotAtomically": func(s *redistest.Server) { s.MoveSlotAtomically(key) },
}
