package servers_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Messages of a forger: a user of the same Redis who may publish on a client's channel of a lock.
// It knows the client's id, the lock's name, and tenures that the client has had.

// A forgery is a lock of one kind, and what a forger needs to know of it.
type forgery struct {
	lock  func(*rlock.Client) *rlock.Lock
	turns string // the part behind the lock's tag in the names of its channels
}

// grants publishes that the ticket was granted the lock, with a token.
func (f forgery) grants(w *testbed.World, p *testbed.Client, ticket string) {
	for _, tokens := range []string{" ", "9000000000000000000 1"} {
		w.Publish("rlock_grants:{"+testbed.Key+"}"+f.turns+":"+p.ID(), fmt.Sprintf("+%s %s %s", ticket, tokens, testbed.Key))
	}
	synctest.Wait()
}

// ownerOf returns the owner that Redis shows.
func ownerOf(w *testbed.World) string {
	w.T.Helper()
	for _, field := range w.Fields(testbed.Key) {
		if field != "mode" {
			return strings.TrimSuffix(field, ":write")
		}
	}
	require.Fail(w.T, "there is no owner")
	return ""
}

// neighbours returns the tenures that a counter would give before and after this one, in the name
// of the owner.
func neighbours(tenure, owner string, n int) (near []string) {
	prefix, digits := tenure[:19], strings.ReplaceAll(tenure[19:36], "-", "")
	number, err := strconv.ParseUint(digits, 16, 64)
	if err != nil {
		panic(err)
	}
	for i := -n; i <= n; i++ {
		hex := fmt.Sprintf("%016x", number+uint64(i))
		near = append(near, fmt.Sprintf("%s%s-%s:%s", prefix, hex[:4], hex[4:], owner))
	}
	return near
}

func eachForgery(t *testing.T, run func(t *testing.T, w *testbed.World, f forgery)) {
	forgeries := make(map[string]forgery)
	for kind, lock := range testbed.LocksOf("plain", "fenced", "fair", "write", "semaphore") {
		forgeries[kind] = forgery{lock, testbed.ModeOf(kind)}
	}
	testbed.EachBubble(t, forgeries, run)
}

func TestAForgedMessageGrantsNoLockAndChoosesNoToken(t *testing.T) {
	eachForgery(t, func(t *testing.T, w *testbed.World, f forgery) {
		p, holder, them := w.NewClient(), w.NewClient(), w.Caller()
		me := rlock.NewOwner()
		mine := rlock.WithOwner(w.Ctx, me)
		require.NoError(t, f.lock(p.Client).Lock(mine))
		seen := ownerOf(w)
		require.NoError(t, f.lock(p.Client).Unlock(mine))
		require.NoError(t, f.lock(holder.Client).Lock(them))
		var hold *rlock.Hold
		got := testbed.Waits(t, func() (err error) { hold, err = f.lock(p.Client).Acquire(mine); return err })
		for _, guess := range neighbours(seen, fmt.Sprint(me), 50) {
			f.grants(w, p, guess)
		}
		time.Sleep(time.Second)
		require.True(t, testbed.Pending(got), "a forged message granted the lock")
		require.NoError(t, f.lock(holder.Client).Unlock(them))
		require.NoError(t, <-got)
		if token, err := hold.Token(); err == nil {
			assert.Less(t, token, uint64(100), "the forger chose the token")
		}
		require.NoError(t, hold.Release(w.Ctx))
	})
}

// The key is there until the lease ends, even if messages are forged: the owner can be read in it.
func TestAForgedMessageReleasesNoLockThatStays(t *testing.T) {
	eachForgery(t, func(t *testing.T, w *testbed.World, f forgery) {
		p := w.NewClient()
		hold := testbed.Take(t, w.Caller(), f.lock(p.Client), rlock.WithMinHold(time.Minute))
		require.NoError(t, hold.Release(w.Ctx))
		owner := ownerOf(w)
		me := w.Caller()
		got := testbed.Start(func() error { return f.lock(p.Client).Lock(me) }) // its client listens
		require.True(t, testbed.Pending(got))
		f.grants(w, p, owner)
		time.Sleep(50 * time.Second)
		require.True(t, testbed.Pending(got), "the lock was released before its time")
		require.Equal(t, owner, ownerOf(w))
		require.NoError(t, <-got)
		require.NoError(t, f.lock(p.Client).Unlock(me))
	})
}
