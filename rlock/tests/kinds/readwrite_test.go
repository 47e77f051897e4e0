package kinds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a ReadWriteLock adds to other locks. The tests over all kinds cover each of its two
// locks.

func TestReadersOfAllClientsReadAtOnceAndAWriterIsAlone(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		here, there := s.NewClient().NewReadWriteLock(testbed.Key), s.NewClient().NewReadWriteLock(testbed.Key)
		a, b, c := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
		available := func(read, write bool) {
			t.Helper()
			for _, lock := range []*rlock.ReadWriteLock{here, there} {
				assert.Equal(t, read, s.IsFree(lock.Read()))
				assert.Equal(t, write, s.IsFree(lock.Write()))
			}
		}
		require.NoError(t, here.Read().Lock(a))
		require.NoError(t, here.Read().Lock(b))
		require.NoError(t, there.Read().Lock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(a))
		require.NoError(t, there.Read().Unlock(c))
		available(true, false)
		require.NoError(t, here.Read().Unlock(b))
		available(true, true)
		require.NoError(t, here.Write().Lock(a))
		available(false, false)
		require.NoError(t, here.Write().Unlock(a))
		available(true, true)
	})
}

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for a reader of the client and
// "<id>:write" for a writer. Each reader has a key with a lease, and so has the hash.
func awaitRW(s *testbed.Site, client *rlock.Client, mode string, want map[string]string) {
	s.T.Helper()
	require.Eventually(s.T, func() bool {
		hash, err := s.Do("HGETALL", testbed.Key).AsStrMap()
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		delete(hash, "mode")
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			lives, err := s.Do("PTTL", "{"+testbed.Key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, inspect.Of(client).ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, testbed.Hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.T, s.Number("PTTL", testbed.Key))
}

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

func TestTheHashShowsModeReadersAndWriterAsRedissonDoes(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient(testbed.WithLease(time.Hour))
		l := client.NewReadWriteLock(testbed.Key)
		me, other := rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(s.Ctx, me), rlock.WithOwner(s.Ctx, other)
		id, write := fmt.Sprint(me), fmt.Sprint(me)+":write"

		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Lock(theirs))
		require.NoError(t, l.Read().Lock(theirs))
		heard := s.Listen(s.Family(), testbed.RWChannel) // for the client it is a guest that waits: readers would not join
		awaitRW(s, client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Read().Unlock(theirs))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Read().Unlock(theirs))
		assert.Equal(t, []string{"00"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))

		require.NoError(t, l.Write().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "1"})
		require.NoError(t, l.Write().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2"})
		require.NoError(t, l.Read().Lock(mine))
		require.NoError(t, l.Read().Lock(mine))
		awaitRW(s, client, "write", map[string]string{write: "2", id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "write", map[string]string{write: "1", id: "1"})
		assert.Empty(t, heard.Heard())
		require.NoError(t, l.Write().Unlock(mine))
		awaitRW(s, client, "read", map[string]string{id: "1"})
		assert.Equal(t, []string{"01"}, heard.Heard(), "readers may enter")
		require.NoError(t, l.Read().Unlock(mine))
		assert.Equal(t, []string{"00"}, heard.Heard())

		require.NoError(t, l.Write().Do(mine, testbed.Nothing))
		assert.Equal(t, []string{"01"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}
