package kinds_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys, fields and messages of a ReadWriteLock that Redisson sees.

// awaitRW returns when the hash shows the mode and exactly these fields, "<id>" for an owner
// of the client and "<id>:write" for its write lock, and when exactly the keys of these
// readers exist. All keys have a lease.
func awaitRW(s *testbed.Site, client *rlock.Client, mode string, want map[string]string) {
	s.T.Helper()
	var last map[string]string
	require.Eventually(s.T, func() bool {
		hash, err := s.Do("HGETALL", testbed.Key).AsStrMap()
		last = hash
		if err != nil || len(hash) != len(want)+1 || hash["mode"] != mode {
			return false
		}
		for field, count := range hash {
			uuid, id, _ := strings.Cut(field, ":")
			if field == "mode" {
				continue
			}
			lives, err := s.Do("PTTL", "{"+testbed.Key+"}:"+field+":rwlock_timeout:1").AsInt64()
			reads := !strings.HasSuffix(field, ":write")
			if want[id] != count || !strings.HasPrefix(uuid, client.ID()) || err != nil || reads != (lives > 0) {
				return false
			}
		}
		return true
	}, testbed.Hang, time.Millisecond, "%s %v", mode, want)
	require.Positive(s.T, s.Number("PTTL", testbed.Key))
	keys := 1
	for field := range last {
		if field != "mode" && !strings.HasSuffix(field, ":write") {
			keys++
		}
	}
	var found int
	for _, node := range s.EachNode() {
		names, err := node.Do(s.Ctx, node.B().Keys().Pattern("*orders*").Build()).AsStrSlice()
		require.NoError(s.T, err)
		for _, name := range names {
			if strings.HasPrefix(name, testbed.Key) || strings.HasPrefix(name, "{"+testbed.Key+"}") {
				found++
			}
		}
	}
	if s.Kind != redistest.KindSentinel && s.Kind != redistest.KindCluster { // whose replicas have the keys as well
		require.Equal(s.T, keys, found, "keys")
	}
}

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

		require.NoError(t, l.Write().Lock(mine))
		require.NoError(t, l.Write().Unlock(mine))
		assert.Equal(t, []string{"01"}, heard.Heard())
		assert.Zero(t, s.Number("EXISTS", testbed.Key))
	})
}

func TestReadersOfOtherClientsKeepTheHashForTheLongestLease(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		const java = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"
		// The script of Redisson's read lock, twice by one thread, for a minute.
		hold := func(lease time.Duration) {
			t.Helper()
			require.NoError(t, s.Do("HSET", testbed.Key, "mode", "read", java, "2").Error())
			for n := 1; n <= 2; n++ {
				require.NoError(t, s.Do("SET", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", testbed.Key, java, n), "1", "PX", fmt.Sprint(lease.Milliseconds()/int64(n))).Error())
			}
		}
		client := s.NewClient()
		l := client.NewReadWriteLock(testbed.Key)
		ms := func() int64 { return s.Number("PTTL", testbed.Key) }
		hold(time.Minute)
		require.NoError(t, s.Do("PEXPIRE", testbed.Key, "60000").Error())
		assert.False(t, s.Available(l.Write()))
		require.NoError(t, l.Read().Lock(s.Ctx))
		assert.Greater(t, ms(), int64(50_000), "a shorter lease must not shorten that of the hash")
		require.NoError(t, l.Read().Unlock(s.Ctx))
		assert.Greater(t, ms(), int64(50_000))
		require.NoError(t, l.Read().LockFor(s.Ctx, time.Hour))
		assert.Greater(t, ms(), int64(3000_000))
		require.NoError(t, l.Read().Unlock(s.Ctx))
		assert.LessOrEqual(t, ms(), int64(60_000), "the lease of the other reader")
		assert.Greater(t, ms(), int64(50_000))
		assert.Equal(t, int64(2), s.Number("HLEN", testbed.Key))

		// The other client dies. Its field stays as long as a client renews the hash.
		require.NoError(t, l.Read().Lock(s.Ctx))
		for n := 1; n <= 2; n++ {
			s.Number("DEL", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", testbed.Key, java, n))
		}
		heard := s.Listen(s.Family(), testbed.RWChannel)
		require.NoError(t, l.Read().Unlock(s.Ctx))
		assert.Zero(t, s.Number("EXISTS", testbed.Key), "a dead client keeps the hash")
		assert.Equal(t, []string{"00"}, heard.Heard())
	})
}

// The watchdog renews the reader's key with the hash, and restores one that is gone.
func TestAReadersKeyIsRenewedWithTheHash(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, me := w.NewRWClient(), w.Caller()
		require.NoError(t, l.Write.Lock(me))
		require.NoError(t, l.Read.Lock(me))
		look := func() {
			t.Helper()
			for range 200 {
				time.Sleep(time.Second)
				keys := w.Keys()
				require.Len(t, keys, 2)
				for _, k := range keys {
					require.GreaterOrEqual(t, w.Remaining(k), 20*time.Second-50*time.Millisecond)
				}
			}
		}
		look()
		require.NoError(t, l.Write.Unlock(me))
		look()
		for _, k := range w.Keys() {
			if k != testbed.Key {
				w.Del(k)
			}
		}
		time.Sleep(11 * time.Second)
		look()
		require.NoError(t, l.Read.Unlock(me))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}

// The other way round: the client that leaves has the longer lease.
func TestAReaderThatLeavesKeepsTheLeaseOfTheOtherReaders(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		short, long, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, short.Read.LockFor(me, 3*time.Second))
		require.NoError(t, long.Read.LockFor(me, 10*time.Second))
		assert.Equal(t, 10*time.Second, w.Remaining(testbed.Key))
		require.NoError(t, long.Read.Unlock(me))
		assert.Equal(t, 3*time.Second, w.Remaining(testbed.Key))
		require.NoError(t, short.Read.Unlock(me))
		assert.Empty(t, w.Keys())
	})
}

func TestAShorterRenewalLeavesTheHashToTheLongerLeaseOfAnotherReader(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		renewing, long, me := w.NewRWClient(), w.NewRWClient(), w.Caller()
		require.NoError(t, renewing.Read.Lock(me))
		require.NoError(t, long.Read.LockFor(me, time.Hour))
		long.Net.Refuse() // it cannot renew its lease
		time.Sleep(10 * time.Minute)
		assert.Greater(t, w.Remaining(testbed.Key), 49*time.Minute)
		require.NoError(t, renewing.Read.Unlock(me))
		assert.Greater(t, w.Remaining(testbed.Key), 49*time.Minute)
		w.FlushAll()
	})
}

func TestALongerFixedLeaseOfALaterReaderIsShownInRedis(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		l, short, long := w.NewRWClient(), w.Caller(), w.Caller()
		begin := time.Now()
		require.NoError(t, l.Read.LockFor(short, time.Second))
		require.NoError(t, l.Read.LockFor(long, time.Hour))
		synctest.Wait()
		assert.Equal(t, time.Hour, w.Remaining(testbed.Key))
		time.Sleep(10 * time.Minute)
		assert.False(t, l.Read.IsHeld(short))
		assert.True(t, l.Read.IsHeld(long))
		time.Sleep(time.Until(begin.Add(time.Hour)))
		assert.False(t, l.Read.IsHeld(long))
		synctest.Wait()
		assert.Empty(t, w.Keys())
	})
}
