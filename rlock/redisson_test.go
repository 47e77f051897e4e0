package rlock_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys, fields, channels and messages that other clients of the same lock see, above all
// Redisson.

// fieldForm is Redisson's "<uuid>:<thread id>".
var fieldForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)

// awaitHash returns the only field of the lock's hash once it belongs to the owner and shows
// the count: nesting and hand-offs are mirrored at once, but not waited for. A renewal
// mirrors them too, so the client's lease should be long.
func (s *site) awaitHash(client *rlock.Client, owner string, count string) (field string) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		hash, err := s.do("HGETALL", key).AsStrMap()
		if err != nil || len(hash) != 1 {
			return false
		}
		var shown string
		for field, shown = range hash {
		}
		return shown == count && strings.HasPrefix(field, client.ID()) && strings.HasSuffix(field, ":"+owner)
	}, hang, time.Millisecond)
	require.Regexp(s.t, fieldForm, field)
	return field
}

func TestTheHashShowsTheOwnerAndItsDepth(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client(withLease(time.Hour))
		lock := client.NewLock(key)
		owner := rlock.NewOwner()
		ctx := rlock.WithOwner(s.ctx, owner)
		for range 3 {
			require.NoError(t, lock.Lock(ctx))
		}
		s.awaitHash(client, fmt.Sprint(owner), "3")
		for depth := 2; depth > 0; depth-- {
			require.NoError(t, lock.Unlock(ctx))
			s.awaitHash(client, fmt.Sprint(owner), fmt.Sprint(depth))
		}
		require.NoError(t, lock.Unlock(ctx))
		assert.Zero(t, s.number("EXISTS", key))
	})
}

func TestTheHashShowsTheIDOfAGoroutineAndTheNewOwnerAfterAHandOff(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client := s.client(withLease(time.Hour))
		lock := client.NewLock(key)
		require.NoError(t, lock.Lock(s.ctx))
		mine := s.awaitHash(client, goroutineID(), "1")

		owner := rlock.NewOwner()
		ctx, queued := queueing(rlock.WithOwner(s.ctx, owner))
		next := background(func() error { return lock.Lock(ctx) })
		<-queued
		require.NoError(t, lock.Unlock(s.ctx))
		require.NoError(t, s.await(next))
		theirs := s.awaitHash(client, fmt.Sprint(owner), "1")
		assert.Equal(t, uuidOf(mine), uuidOf(theirs), "one tenure")
		require.NoError(t, lock.Unlock(ctx))

		require.NoError(t, lock.Lock(s.ctx))
		again := s.awaitHash(client, goroutineID(), "1")
		assert.NotEqual(t, uuidOf(mine), uuidOf(again), "a late command of one tenure must not touch the next")
		require.NoError(t, lock.Unlock(s.ctx))
	})
}

func goroutineID() string {
	var stack [64]byte
	return strings.Fields(string(stack[:runtime.Stack(stack[:], false)]))[1]
}

func uuidOf(field string) string {
	uuid, _, _ := strings.Cut(field, ":")
	return uuid
}

func TestTheKeyNeverHasTwoFieldsNorNoLease(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		const look = "return {redis.call('hlen', KEYS[1]), redis.call('pttl', KEYS[1])}"
		r := new(record)
		for range 2 {
			r.work(s, s.lock(), 4, 10)
		}
		over := background(func() error { r.workers.Wait(); return nil })
		for busy := true; busy; {
			select {
			case <-over:
				busy = false
			default:
			}
			state, err := s.outside.Do(s.ctx, s.outside.B().Eval().Script(look).Numkeys(1).Key(key).Build()).AsIntSlice()
			require.NoError(t, err)
			if state[0] != 0 {
				require.EqualValues(t, 1, state[0], "fields")
				require.Positive(t, state[1], "a key without a lease makes Java waiters wait without end")
			}
		}
		r.check(t, 2*4*10)
	})
}

func TestEveryReleasePublishesOneZeroAndNothingElseIsPublished(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		foreign := s.listen(s.family(), channel)
		lock := s.lock(func(c *rlock.Config) { c.HandoffLimit, c.HandoffTime = 1000, time.Hour })
		for range 3 {
			require.NoError(t, lock.Lock(s.ctx))
		}
		require.NoError(t, lock.Unlock(s.ctx))
		require.NoError(t, lock.Unlock(s.ctx))
		assert.ErrorIs(t, lock.Unlock(rlock.WithOwner(s.ctx, rlock.NewOwner())), rlock.ErrNotHeld)
		assert.Empty(t, foreign.heard(), "nested unlocks, and unlocks of other owners")
		require.NoError(t, lock.Unlock(s.ctx))
		assert.Equal(t, []string{"00"}, foreign.heard())

		require.NoError(t, lock.Lock(s.ctx))
		var others sync.WaitGroup
		for range 5 {
			ctx, queued := queueing(s.ctx)
			others.Go(func() {
				assert.NoError(t, lock.Lock(ctx))
				assert.NoError(t, lock.Unlock(ctx))
			})
			<-queued
		}
		require.NoError(t, lock.Unlock(s.ctx))
		others.Wait()
		assert.Equal(t, []string{"00"}, foreign.heard(), "once, after five hand-offs")

		require.NoError(t, lock.Lock(s.ctx))
		forced, err := lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.True(t, forced)
		forced, err = lock.ForceUnlock(s.ctx)
		require.NoError(t, err)
		assert.False(t, forced)
		assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrLost)
		assert.Equal(t, []string{"00"}, foreign.heard(), "by force")
	})
}

func TestAForeignOwnerKeepsUsOutAndItsMessageWakesUs(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		client, w := s.client(), awakening{s: s}
		for round := range 8 {
			name := fmt.Sprintf("orders:%d", round)
			lock, channel := client.NewLock(name), "redisson_lock__channel:{"+name+"}"
			s.set(name, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", time.Hour)
			assert.False(t, s.isFree(lock))
			assert.ErrorIs(t, lock.Unlock(s.ctx), rlock.ErrNotHeld)

			waiter := background(func() error { return lock.Do(s.ctx, nothing) })
			s.awaitListeners(1, s.family(), channel)
			w.by(waiter, func() {
				s.number("DEL", name)
				s.number(s.family().publish, channel, "0")
			})
		}
		w.check()
	})
}
