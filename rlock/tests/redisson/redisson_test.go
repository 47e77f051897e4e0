package redisson_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys, fields, channels and messages that other clients of the same lock see, above all
// Redisson.

func TestTheHashShowsTheOwnerItsDepthAndTheNextOneAfterAHandOff(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient(testbed.WithLease(time.Hour))
		lock, owner := client.NewLock(testbed.Key), rlock.NewOwner()
		require.NoError(t, lock.Lock(s.Ctx))
		mine := s.AwaitHash(client, testbed.GoroutineID(), "1")
		ctx, queued := testbed.Queueing(rlock.WithOwner(s.Ctx, owner))
		next := testbed.Start(func() error { return lock.Lock(ctx) })
		<-queued
		require.NoError(t, lock.Unlock(s.Ctx))
		require.NoError(t, s.Await(next))
		theirs := s.AwaitHash(client, fmt.Sprint(owner), "1")
		assert.Equal(t, uuidOf(mine), uuidOf(theirs), "one tenure")
		require.NoError(t, lock.Lock(ctx))
		require.NoError(t, lock.Lock(ctx))
		for depth := 3; depth > 0; depth-- {
			s.AwaitHash(client, fmt.Sprint(owner), fmt.Sprint(depth))
			require.NoError(t, lock.Unlock(ctx))
		}
		assert.Zero(t, s.Number("EXISTS", testbed.Key))

		require.NoError(t, lock.Lock(s.Ctx))
		again := s.AwaitHash(client, testbed.GoroutineID(), "1")
		assert.NotEqual(t, uuidOf(mine), uuidOf(again), "a late command of one tenure must not touch the next")
		require.NoError(t, lock.Unlock(s.Ctx))
	})
}

func uuidOf(field string) string {
	uuid, _, _ := strings.Cut(field, ":")
	return uuid
}

func TestEveryReleasePublishesOneZeroAndNothingElseIsPublished(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		foreign := s.Listen(s.Family(), testbed.Channel)
		lock := s.NewLock(func(c *rlock.Config) { c.Advanced.HandoffLimit, c.Advanced.HandoffTime = 1000, time.Hour })
		for range 3 {
			require.NoError(t, lock.Lock(s.Ctx))
		}
		require.NoError(t, lock.Unlock(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
		assert.ErrorIs(t, lock.Unlock(rlock.WithOwner(s.Ctx, rlock.NewOwner())), rlock.ErrNotHeld)
		assert.Empty(t, foreign.Heard(), "nested unlocks, and unlocks of other owners")
		require.NoError(t, lock.Unlock(s.Ctx))
		assert.Equal(t, []string{"00"}, foreign.Heard())

		require.NoError(t, lock.Lock(s.Ctx))
		var others sync.WaitGroup
		for range 5 {
			ctx, queued := testbed.Queueing(s.Ctx)
			others.Go(func() {
				assert.NoError(t, lock.Lock(ctx))
				assert.NoError(t, lock.Unlock(ctx))
			})
			<-queued
		}
		require.NoError(t, lock.Unlock(s.Ctx))
		others.Wait()
		assert.Equal(t, []string{"00"}, foreign.Heard(), "once, after five hand-offs")

		require.NoError(t, lock.Lock(s.Ctx))
		assert.True(t, testbed.Frees(t, s.Ctx, lock))
		assert.False(t, testbed.Frees(t, s.Ctx, lock))
		assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrLost)
		assert.Equal(t, []string{"00"}, foreign.Heard(), "by force")
	})
}

func TestAForeignOwnerKeepsUsOutAndItsMessageWakesUs(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client, w := s.NewClient(), testbed.Awakening{Site: s}
		for round := range 4 {
			name := fmt.Sprintf("orders:%d", round)
			lock, channel := client.NewLock(name), "redisson_lock__channel:{"+name+"}"
			s.Set(name, "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", time.Hour)
			assert.False(t, s.IsFree(lock))
			assert.ErrorIs(t, lock.Unlock(s.Ctx), rlock.ErrNotHeld)

			waiter := testbed.Start(func() error { return lock.Do(s.Ctx, testbed.Nothing) })
			s.AwaitListeners(1, s.Family(), channel)
			w.By(waiter, func() {
				s.Number("DEL", name)
				s.Number(s.Family().Publish, channel, "0")
			})
		}
		w.Check()
	})
}
