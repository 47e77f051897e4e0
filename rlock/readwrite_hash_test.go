package rlock_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for an owner
// of the client and "<id>:write" for its write lock, and when exactly the keys of these
// readers exist. All keys have a lease.
func (s *site) awaitRW(client *rlock.Client, mode string, want map[string]string) {
	s.t.Helper()
	var last map[string]string
	require.Eventually(s.t, func() bool {
		hash, err := s.do("HGETALL", key).AsStrMap()
		last = hash
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			if field == "mode" {
				continue
			}
			lives, err := s.do("PTTL", "{"+key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, client.ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.t, s.number("PTTL", key))
	keys := 1
	for field := range last {
		if field != "mode" && !strings.HasSuffix(field, ":write") {
			keys++
		}
	}
	var found int
	for _, node := range s.nodes() {
		names, err := node.Do(s.ctx, node.B().Keys().Pattern("*orders*").Build()).AsStrSlice()
		require.NoError(s.t, err)
		for _, name := range names {
			if strings.HasPrefix(name, key) || strings.HasPrefix(name, "{"+key+"}") {
				found++
			}
		}
	}
	if s.Kind != redistest.KindSentinel && s.Kind != redistest.KindCluster { // whose replicas have the keys as well
		require.Equal(s.t, keys, found, "keys")
	}
}

func TestTheHashShowsModeReadersAndWriterAsRedissonDoes(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client(withLease(time.Hour))
		l := client.NewReadWriteLock(key)
		me, other := rlock.NewOwner(), rlock.NewOwner()
		mine, theirs := rlock.WithOwner(s.ctx, me), rlock.WithOwner(s.ctx, other)
		id, write := fmt.Sprint(me), fmt.Sprint(me)+":write"

		require.NoError(t, l.Read().Lock(mine))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Lock(theirs))
		require.NoError(t, l.Read().Lock(theirs))
		heard := s.listen(s.family(), rwChannel) // for the client it is a guest that waits: readers would not join
		s.awaitRW(client, "read", map[string]string{id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Read().Unlock(theirs))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		assert.Empty(t, heard.heard())
		require.NoError(t, l.Read().Unlock(theirs))
		assert.Equal(t, []string{"00"}, heard.heard())
		assert.Zero(t, s.number("EXISTS", key))

		require.NoError(t, l.Write().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "1"})
		require.NoError(t, l.Write().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "2"})
		require.NoError(t, l.Read().Lock(mine))
		require.NoError(t, l.Read().Lock(mine))
		s.awaitRW(client, "write", map[string]string{write: "2", id: "1"})
		require.NoError(t, l.Read().Unlock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		s.awaitRW(client, "write", map[string]string{write: "1", id: "1"})
		assert.Empty(t, heard.heard())
		require.NoError(t, l.Write().Unlock(mine))
		s.awaitRW(client, "read", map[string]string{id: "1"})
		assert.Equal(t, []string{"01"}, heard.heard(), "readers may enter")
		require.NoError(t, l.Read().Unlock(mine))
		assert.Equal(t, []string{"00"}, heard.heard())

		require.NoError(t, l.Write().Lock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		assert.Equal(t, []string{"01"}, heard.heard())
		assert.Zero(t, s.number("EXISTS", key))
	})
}

func TestReadersOfOtherClientsKeepTheHashForTheLongestLease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const java = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
		// The script of Redisson's read lock, twice by one thread, for a minute.
		hold := func(lease time.Duration) {
			t.Helper()
			require.NoError(t, s.do("HSET", key, "mode", "read", java, "2").Error())
			for n := 1; n <= 2; n++ {
				require.NoError(t, s.do("SET", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", key, java, n), "1", "PX", fmt.Sprint(lease.Milliseconds()/int64(n))).Error())
			}
		}
		client := s.client()
		l := client.NewReadWriteLock(key)
		ms := func() int64 { return s.number("PTTL", key) }
		hold(time.Minute)
		require.NoError(t, s.do("PEXPIRE", key, "60000").Error())
		assert.False(t, s.available(l.Write()))
		require.NoError(t, l.Read().Lock(s.ctx))
		assert.Greater(t, ms(), int64(50_000), "a shorter lease must not shorten that of the hash")
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.Greater(t, ms(), int64(50_000))
		require.NoError(t, l.Read().LockFor(s.ctx, time.Hour))
		assert.Greater(t, ms(), int64(3000_000))
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.LessOrEqual(t, ms(), int64(60_000), "the lease of the other reader")
		assert.Greater(t, ms(), int64(50_000))
		assert.Equal(t, int64(2), s.number("HLEN", key))

		// The other client dies. Its field stays as long as a client renews the hash.
		require.NoError(t, l.Read().Lock(s.ctx))
		for n := 1; n <= 2; n++ {
			s.number("DEL", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", key, java, n))
		}
		heard := s.listen(s.family(), rwChannel)
		require.NoError(t, l.Read().Unlock(s.ctx))
		assert.Zero(t, s.number("EXISTS", key), "a dead client keeps the hash")
		assert.Equal(t, []string{"00"}, heard.heard())
	})
}

// The watchdog renews the reader's key with the hash, and restores one that is gone.
func TestAReadersKeyIsRenewedWithTheHash(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.write.Lock(me))
		require.NoError(t, l.read.Lock(me))
		look := func() {
			t.Helper()
			for range 200 {
				time.Sleep(time.Second)
				keys := w.Keys()
				require.Len(t, keys, 2)
				for _, k := range keys {
					require.GreaterOrEqual(t, w.ttl(k), 20*time.Second-50*time.Millisecond)
				}
			}
		}
		look()
		require.NoError(t, l.write.Unlock(me))
		look()
		for _, k := range w.Keys() {
			if k != key {
				w.Del(k)
			}
		}
		time.Sleep(11 * time.Second)
		look()
		require.NoError(t, l.read.Unlock(me))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}

// The other way round: the client that leaves has the longer lease.
func TestAReaderThatLeavesKeepsTheLeaseOfTheOtherReaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		short, long, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, short.read.LockFor(me, 3*time.Second))
		require.NoError(t, long.read.LockFor(me, 10*time.Second))
		assert.Equal(t, 10*time.Second, w.ttl(key))
		require.NoError(t, long.read.Unlock(me))
		assert.Equal(t, 3*time.Second, w.ttl(key))
		require.NoError(t, short.read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAShorterRenewalLeavesTheHashToTheLongerLeaseOfAnotherReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		renewing, long, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, renewing.read.Lock(me))
		require.NoError(t, long.read.LockFor(me, time.Hour))
		long.net.Refuse() // it cannot renew its lease
		time.Sleep(10 * time.Minute)
		assert.Greater(t, w.ttl(key), 49*time.Minute)
		require.NoError(t, renewing.read.Unlock(me))
		assert.Greater(t, w.ttl(key), 49*time.Minute)
		w.FlushAll()
	})
}

func TestALongerFixedLeaseOfALaterReaderIsShownInRedis(t *testing.T) {
	redistest.Slow(t)
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		l, short, long := w.rwClient(), w.caller(), w.caller()
		begin := time.Now()
		require.NoError(t, l.read.LockFor(short, time.Second))
		require.NoError(t, l.read.LockFor(long, time.Hour))
		synctest.Wait()
		assert.Equal(t, time.Hour, w.ttl(key))
		time.Sleep(10 * time.Minute)
		assert.False(t, l.read.IsHeld(short))
		assert.True(t, l.read.IsHeld(long))
		time.Sleep(time.Until(begin.Add(time.Hour)))
		assert.False(t, l.read.IsHeld(long))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}
