package rlock_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// The readers of one client share a tenure.

func TestReadersThatJoinReadersSendNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, first := w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(first))
		synctest.Wait()
		before := len(l.net.Sent(""))
		for range 50 {
			reader := w.caller()
			require.NoError(t, l.read.Lock(reader))
			require.NoError(t, l.read.Lock(reader))
			hold, err := l.read.Acquire(w.ctx)
			require.NoError(t, err)
			require.NoError(t, l.read.Unlock(reader))
			require.NoError(t, hold.Release(w.ctx))
			require.NoError(t, l.read.Unlock(reader))
		}
		synctest.Wait()
		assert.Len(t, l.net.Sent(""), before)
		require.NoError(t, l.read.Unlock(first))
		assert.Empty(t, w.Keys())
	})
}

func TestTheFirstReaderMayLeaveBeforeTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, first, second := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(first))
		require.NoError(t, l.read.Lock(second))
		require.NoError(t, l.read.Unlock(first))
		require.ErrorIs(t, l.read.Unlock(first), rlock.ErrNotHeld)
		time.Sleep(5 * time.Minute)
		assert.True(t, l.read.IsHeld(second))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(second))
		assert.True(t, w.try(there.write))
	})
}

func TestAWaitingWriterHoldsBackLaterReaders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, reader, writer, late := w.rwClient(), w.caller(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(reader))
		ctx, giveUp := context.WithCancel(writer)
		waiting := start(func() error { return l.write.Lock(ctx) })
		require.True(t, pending(waiting))
		joining := start(func() error { return l.read.Lock(late) })
		require.True(t, pending(joining))
		assert.False(t, w.try(l.read))
		require.NoError(t, l.read.Lock(reader), "an active reader may nest")
		require.NoError(t, l.read.Unlock(reader))

		giveUp()
		require.ErrorIs(t, <-waiting, context.Canceled)
		within(t, 0, 0, func() { require.NoError(t, <-joining) })
		assert.True(t, w.try(l.read))

		waiting = start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(waiting))
		require.NoError(t, l.read.Unlock(reader))
		assert.True(t, pending(waiting))
		within(t, 0, 0, func() {
			require.NoError(t, l.read.Unlock(late))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.write.Unlock(writer))
	})
}

// Readers come and go in every process, so that one always reads.
func TestAWriterElsewhereIsNotStarvedByReadersWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, writers := w.rwClient(), w.rwClient(), w.rwClient()
		end := time.Now().Add(2 * time.Second)
		reading := readWithoutEnd(w, []rwClient{here, there}, 8, [2]time.Duration{8 * time.Millisecond, time.Millisecond}, 5*time.Millisecond, end)
		writes, longest := writeUntil(w, writers, 10*time.Millisecond, end)
		reads := sum(reading())
		commands := evalshas(here.net.Sent("")) + evalshas(there.net.Sent("")) + evalshas(writers.net.Sent(""))
		t.Logf("%d writes, the longest wait %v; %d reads; %d commands", writes, longest, reads, commands)
		assert.Less(t, longest, time.Second)
		assert.Greater(t, writes, 8)
		assert.Greater(t, reads, 700)
		assert.Less(t, commands, reads)
	})
}

// They have met a writer, and stay subscribed for a while. No client waits until the
// subscriptions end.
func TestReadersOfTwoClientsDoNotTakeTurns(t *testing.T) {
	manyCommands(t)
	bubble(t, func(t *testing.T, w *world) {
		here, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, here.write.Lock(me))
		end := time.Now().Add(5 * time.Second)
		var all sync.WaitGroup
		var mu sync.Mutex
		reads, idle, longest := 0, time.Duration(0), time.Duration(0)
		for i, l := range []rwClient{here, there} {
			for j := range 8 {
				reader := w.caller()
				all.Go(func() {
					time.Sleep(time.Duration(i*8+j) * time.Millisecond)
					for time.Now().Before(end) {
						began := time.Now()
						assert.NoError(t, l.read.Lock(reader))
						waited := time.Since(began)
						time.Sleep(5 * time.Millisecond)
						assert.NoError(t, l.read.Unlock(reader))
						mu.Lock()
						reads++
						if reads > 16 { // the first 16 have waited for the writer
							idle += waited
							longest = max(longest, waited)
						}
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, here.write.Unlock(me))
		all.Wait()
		commands := evalshas(here.net.Sent("")) + evalshas(there.net.Sent(""))
		t.Logf("%d reads, %v waited, %v at most; %d commands", reads, idle/16, longest, commands)
		assert.Less(t, idle/16, 2*time.Second)
		assert.Less(t, longest, 200*time.Millisecond)
		assert.Less(t, 10*commands, 2*reads)
	})
}

func TestTheFixedLeaseOfOneReaderEndsForItAlone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there := w.rwClient(), w.rwClient()
		begin := time.Now()
		watched, fixed, nested := w.caller(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(watched))
		require.NoError(t, l.read.LockFor(fixed, 2*time.Second))
		hold, err := l.read.Acquire(w.ctx, rlock.WithLease(time.Second))
		require.NoError(t, err)
		other, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		require.NoError(t, l.read.LockFor(nested, time.Minute))
		require.NoError(t, l.read.LockFor(nested, time.Second))
		assert.Equal(t, begin.Add(time.Second), hold.ValidUntil())

		<-hold.Context().Done()
		assert.Equal(t, time.Second, time.Since(begin).Round(10*time.Millisecond))
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		assert.False(t, hold.Valid())
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrNotHeld)
		assert.Equal(t, 2, l.read.HoldCount(nested), "an owner has the longest lease of its levels")
		assert.True(t, l.read.IsHeld(fixed))

		time.Sleep(time.Until(begin.Add(2 * time.Second)))
		assert.False(t, l.read.IsHeld(fixed))
		require.ErrorIs(t, l.read.Unlock(fixed), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(fixed), rlock.ErrNotHeld)
		assert.True(t, l.read.IsHeld(watched))
		assert.True(t, other.Valid())
		require.NoError(t, l.read.Unlock(watched))
		require.NoError(t, other.Release(w.ctx))

		time.Sleep(30 * time.Second)
		assert.True(t, l.read.IsHeld(nested))
		assert.False(t, w.try(there.write))
		require.NoError(t, l.read.Unlock(nested))
		require.NoError(t, l.read.Unlock(nested))
		assert.True(t, w.try(there.write))
	})
}

// The inner lease ended while an outer level of a reader or a writer kept it, and other
// owners read on.
func TestAnOutlastedFixedLeaseEndsWhenNoOtherLevelKeepsTheLock(t *testing.T) {
	for _, outer := range []func(rwClient) locker{
		func(l rwClient) locker { return l.read },
		func(l rwClient) locker { return l.write },
	} {
		bubbleAlone(t, func(t *testing.T, w *world) {
			l, me, other := w.rwClient(), w.caller(), w.caller()
			require.NoError(t, outer(l).Lock(me))
			hold, err := l.read.Acquire(me, rlock.WithLease(time.Second))
			require.NoError(t, err)
			reads := start(func() error { return l.read.Lock(other) }) // at once, or when no owner writes
			time.Sleep(2 * time.Second)
			require.True(t, hold.Valid())
			require.NoError(t, outer(l).Unlock(me))
			require.NoError(t, <-reads)
			synctest.Wait()
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
			assert.Zero(t, l.read.HoldCount(me))
			assert.True(t, l.read.IsHeld(other))
			require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
			require.NoError(t, l.read.Unlock(other))
			assert.Empty(t, w.Keys())
		})
	}
}

func TestTheFixedLeaseOfOneReaderEndsOnTimeThoughRedisIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, me := w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(me))
		time.Sleep(9 * time.Second)
		hold, err := l.read.Acquire(w.ctx, rlock.WithLease(1500*time.Millisecond))
		require.NoError(t, err)
		l.net.Rule(network.Silence) // the renewal a second later is in flight
		within(t, 1500*time.Millisecond, 1600*time.Millisecond, func() { <-hold.Context().Done() })
		assert.True(t, l.read.IsHeld(me))
		l.net.Heal()
		require.NoError(t, l.read.Unlock(me))
	})
}

func TestALongerFixedLeaseOfALaterReaderIsShownInRedis(t *testing.T) {
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

func TestEveryReaderIsNotifiedOfALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me, other := w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, l.read.Lock(me))
		require.NoError(t, l.read.Lock(other))
		require.NoError(t, l.read.Lock(other))
		hold, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		w.Del(key)
		<-hold.Context().Done()
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
		require.NoError(t, there.write.Lock(me))
		require.ErrorIs(t, l.read.Lock(other), rlock.ErrLost, "a lost lock must be unlocked first")
		require.ErrorIs(t, l.write.Lock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrLost)
		require.ErrorIs(t, l.read.Unlock(other), rlock.ErrNotHeld)
		require.ErrorIs(t, hold.Release(w.ctx), rlock.ErrLost)
		synctest.Wait()
		assert.Equal(t, 1, l.logged("lock lost"), "one line for all readers")
		require.NoError(t, there.write.Unlock(me))
	})
}

// Two clients read. One of them dies; the other renews its own lease only.
func TestTheHoldOfADeadReaderEndsWithItsLeaseWhileAnotherRenews(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		alive, dead, l := w.rwClient(), w.rwClient(), w.rwClient()
		me := w.caller()
		require.NoError(t, dead.read.Lock(w.caller()))
		require.NoError(t, alive.read.Lock(me))
		dead.net.Refuse()
		writer := w.caller()
		waiting := start(func() error { return l.write.Lock(writer) })
		time.Sleep(time.Minute)
		require.True(t, pending(waiting), "the living client reads")
		assert.Len(t, w.Keys(), 3, "the hash, one reader's key, and that of the waiting writer")
		within(t, 0, 0, func() {
			require.NoError(t, alive.read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, l.write.Unlock(writer))
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

func TestCloseReleasesTheReadersAndTheirWaitersAreWoken(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, l.read.Lock(me))
		hold, err := l.read.Acquire(w.ctx)
		require.NoError(t, err)
		writer := start(func() error { return there.write.Do(w.caller(), nothing) })
		require.True(t, pending(writer))
		within(t, 0, 0, func() {
			require.NoError(t, l.Close())
			require.NoError(t, <-writer)
		})
		require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrClosed)
		require.ErrorIs(t, l.read.Unlock(me), rlock.ErrClosed)
		assert.Empty(t, w.Keys())
	})
}

// A reader of Redisson keeps a writer of ours out, which gives way to a reader of its process.
// The writer looks for its ticket again before the reader joins, and then leaves.
func TestAReaderThatAWriterGaveWayToReadsOnceTheWriterHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p, me := w.client(), w.caller()
		lock := p.NewReadWriteLock(key)
		require.NoError(t, lock.Read().Do(w.ctx, nothing)) // the scripts are known
		require.NoError(t, lock.Write().Do(w.ctx, nothing))
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		ctx, cancel := context.WithCancel(w.caller())
		defer cancel()
		writes := start(func() error { return lock.Write().Lock(ctx) })
		require.True(t, pending(writes))
		reads := start(func() error { return lock.Read().Lock(me) })
		require.True(t, pending(reads))

		givesWay := make(chan struct{})
		tell := sync.OnceFunc(func() { close(givesWay) })
		p.net.Rule(func(f network.Frame) network.Fate {
			if f.Stage == network.Reply && isStep(f) && w.heldBack() <= 0 {
				tell()
				return network.Hold
			}
			return network.Pass
		})
		<-givesWay
		w.Publish("redisson_rwlock:{orders:42}", "0") // the writer is to look again
		synctest.Wait()
		w.HDel("rlock_foreign:{orders:42}rw", "w") // and gives way no longer
		p.net.Heal()
		require.True(t, pending(reads))
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		within(t, 0, 100*time.Millisecond, func() { require.NoError(t, <-reads) })
		require.NoError(t, lock.Read().Unlock(me))
	})
}

// Uncounted foreign clients, of which one may be a writer, have a turn when a ticket waits. No
// ticket waits here: readers hold back new ones every other second.
func TestReadersHeldBackForUncountedForeignClientsReadAgainWithinSeconds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		polls := func(c *rlock.Config) { c.RedissonPolls = rlock.RedissonPollsAlways }
		l, there := w.rwClient(polls), w.rwClient(polls)
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		require.NoError(t, l.read.Lock(w.caller()))
		got, err := there.write.TryLockFor(w.caller(), 100*time.Millisecond, 0)
		require.NoError(t, err)
		require.False(t, got, "it meets the guest")
		time.Sleep(3 * time.Second)

		var longest time.Duration
		for range 30 {
			began := time.Now()
			require.NoError(t, l.read.Do(w.caller(), nothing))
			longest = max(longest, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Greater(t, longest, 500*time.Millisecond, "a writer would have a chance")
		assert.Less(t, longest, 3*time.Second+late, "a second until it has a ticket, and two")
	})
}

// Writers of two clients wait behind a reader of Redisson, one of them before a reader of its
// client, which has no ticket as long as the writer stands before it.
func TestAReaderBehindAWriterThatIsNotTheFirstReadsWithinSecondsBesideAReaderOfRedisson(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first, second, me := w.rwClient(), w.rwClient(), w.caller()
		w.HSet(key, "mode", "read", foreignOwner, "1")
		w.SetTTL(key, time.Hour)
		ctx, cancel := context.WithCancel(w.caller())
		defer cancel()
		writes := start(func() error { return first.write.Lock(ctx) })
		require.True(t, pending(writes))
		alsoWrites := start(func() error { return second.write.Lock(ctx) })
		require.True(t, pending(alsoWrites))
		within(t, time.Second, 5*time.Second, func() { require.NoError(t, second.read.Lock(me)) })
		assert.Less(t, len(first.net.Sent("EVALSHA")), 50, "the writer looks less and less often")
		cancel()
		require.ErrorIs(t, <-writes, context.Canceled)
		require.ErrorIs(t, <-alsoWrites, context.Canceled)
		require.NoError(t, second.read.Unlock(me))
	})
}

// Readers hold back for others that wait, and for no longer than these do.

// refusedUntil tries the lock every 100 ms for so long. It returns when it was refused last,
// counted from the call.
func (w *world) refusedUntil(lock locker, long time.Duration) (last time.Duration) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < long; time.Sleep(100 * time.Millisecond) {
		if !w.try(lock) {
			last = time.Since(began)
		}
	}
	return last
}

// The client that reads learns of the writer by a mirror.
func TestReadersAreNotRefusedForLongOnceAWriterHasGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.rwClient(), w.rwClient()
		require.NoError(t, here.read.Lock(w.caller()))
		time.Sleep(time.Second)
		writes := start(func() error {
			_, err := there.write.TryLockFor(w.caller(), 50*time.Millisecond, 0)
			return err
		})
		time.Sleep(20 * time.Millisecond)
		require.True(t, w.try(here.read), "its mirror finds the writer")
		require.NoError(t, <-writes)
		require.False(t, w.try(here.read))
		assert.Less(t, w.refusedUntil(here.read, 20*time.Second), 1200*time.Millisecond)
	})
}

// The client that reads is called, since its lock may linger.
func TestReadersAreNotRefusedForLongOnceAWriterWasRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there := w.lingerer(time.Second).NewReadWriteLock(key), w.rwClient()
		require.NoError(t, here.Read().Lock(w.caller()))
		time.Sleep(time.Second)
		require.True(t, w.try(here.Read()))
		require.False(t, w.try(there.write))
		time.Sleep(50 * time.Millisecond)
		require.False(t, w.try(here.Read()))
		assert.Less(t, w.refusedUntil(here.Read(), 20*time.Second), 1200*time.Millisecond)
	})
}

// Readers that were granted the lock by the queue have left their marks there.
func TestAReaderIsNotRefusedBesideReadersWithoutAWaiter(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		writes, reads, late, me := w.rwClient(), w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, writes.write.Lock(me))
		granted := start(func() error { return reads.read.Lock(w.caller()) })
		require.True(t, pending(granted))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, writes.write.Unlock(me))
		require.NoError(t, <-granted)
		require.Contains(t, w.Keys(), "rlock_queue:{orders:42}rw", "it has the mark")
		assert.Zero(t, w.refusedUntil(late.read, 20*time.Second))
		assert.False(t, w.try(late.write))
	})
}

// The ticket of the writer joins the queue with the release of a reader. Readers of Redisson keep
// the writer out, and it gives way to a reader of its client.
func TestAWriterThatGaveWayWhenItJoinedWithAReleaseKeepsItsPlace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, there, first, second, writer := w.rwClient(), w.rwClient(), w.caller(), w.caller(), w.caller()
		require.NoError(t, there.write.Lock(writer))
		reads := start(func() error { return l.read.Lock(first) })
		require.True(t, pending(reads))
		require.NoError(t, there.write.Unlock(writer))
		require.NoError(t, <-reads)
		require.Contains(t, w.PubSubChannels("*"), "rlock_turn:{orders:42}rw:"+l.ID(), "it stays subscribed")

		const timeout = "{orders:42}:" + foreignOwner + ":rwlock_timeout:1"
		w.HSet(key, foreignOwner, "1")
		require.NoError(t, w.Set(timeout, "1"))
		w.SetTTL(timeout, time.Hour)
		w.SetTTL(key, time.Hour)
		held := start(func() error {
			_, err := there.write.TryLockFor(w.caller(), 2100*time.Millisecond, 0)
			return err
		})
		time.Sleep(time.Second)
		writes := start(func() error { return l.write.Lock(writer) })
		require.True(t, pending(writes))
		alsoReads := start(func() error { return l.read.Lock(second) })
		require.True(t, pending(alsoReads))
		require.NoError(t, <-held)
		require.LessOrEqual(t, w.heldBack(), time.Duration(0), "readers may begin")
		require.NoError(t, l.read.Unlock(first))
		require.NoError(t, <-alsoReads)

		time.Sleep(90 * time.Second)
		assert.True(t, w.Exists("rlock_queue:{orders:42}rw"), "the writer waits there")
		w.HDel(key, foreignOwner)
		within(t, 0, 200*time.Millisecond, func() { // a turn of guests
			require.NoError(t, l.read.Unlock(second))
			require.NoError(t, <-writes)
		})
		require.NoError(t, l.write.Unlock(writer))
	})
}

// A writer elsewhere is there for most of the time, but for a moment again and again. Readers of
// other clients are granted the lock in between.
func TestAReaderIsNotStarvedByWritersThatWaitForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, writers, me := w.rwClient(), w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, here.read.Lock(me), "it reads all the time")
		end := time.Now().Add(30 * time.Second)
		read := func(l rwClient, longest *time.Duration) func() {
			return func() {
				for time.Now().Before(end) {
					began := time.Now()
					assert.NoError(t, l.read.Do(w.caller(), func(context.Context) error {
						*longest = max(*longest, time.Since(began))
						time.Sleep(7 * time.Millisecond)
						return nil
					}))
				}
			}
		}
		var all sync.WaitGroup
		all.Go(func() {
			for time.Now().Before(end) {
				got, err := writers.write.TryLockFor(w.caller(), 100*time.Millisecond, 0)
				assert.NoError(t, err)
				assert.False(t, got)
				time.Sleep(10 * time.Millisecond)
			}
		})
		var longestHere, longestThere time.Duration
		all.Go(read(here, &longestHere))
		all.Go(read(there, &longestThere))
		all.Wait()
		t.Logf("the longest wait: %v where others read, %v elsewhere", longestHere, longestThere)
		assert.Less(t, longestHere, 1500*time.Millisecond)
		assert.Less(t, longestThere, 500*time.Millisecond)
		require.NoError(t, here.read.Unlock(me))
	})
}

// heldBack returns for how long foreign readers have ours held back yet, as the scripts read it.
func (w *world) heldBack() time.Duration {
	since, err := strconv.ParseInt(w.HGet("rlock_foreign:{orders:42}rw", "w"), 10, 64)
	if err != nil {
		return 2 * time.Second // it has not begun
	}
	return time.UnixMilli(since).Add(2 * time.Second).Sub(time.Now().Truncate(time.Millisecond))
}

const late = 25 * time.Millisecond // a sleeping waiter's delay

// Readers and writers take turns: later readers do not pass a waiting writer.

// Their turns end at different times, so that one of them always reads.
func TestAWriterIsNotStarvedByTheReadersOfManyClients(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const clients, reading, between = 6, 50 * time.Millisecond, 20 * time.Millisecond
		end := time.Now().Add(3 * time.Second)
		rwClients := make([]rwClient, clients)
		for i := range rwClients {
			rwClients[i] = w.rwClient()
		}
		readers := readWithoutEnd(w, rwClients, 3, [2]time.Duration{7 * time.Millisecond, 13 * time.Millisecond}, reading, end)
		writes, longest := writeUntil(w, w.rwClient(), between, end)
		reads := sum(readers())
		t.Logf("%d writes, the longest wait %v; %d reads", writes, longest, reads)
		assert.Less(t, longest, 5*reading)
		assert.Greater(t, writes, 15)
		assert.Greater(t, reads, 150, "readers get their turns, too")
	})
}

func TestAWaitingWriterBlocksReadersOfOtherClientsAndNoActiveReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, elsewhere := w.rwClient(), w.rwClient(), w.rwClient()
		me, writer, other := w.caller(), w.caller(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.True(t, w.try(elsewhere.read))
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		assert.True(t, w.try(reading.read), "a reader of the reading client joins until their turn ends")
		reader := start(func() error { return elsewhere.read.Lock(other) })
		for range 100 { // the queue's marks expire, and others follow
			time.Sleep(300 * time.Millisecond)
			require.False(t, w.try(elsewhere.read), "readers of a waiting client wait")
			require.False(t, w.try(writing.read), "readers of the writer's client wait")
		}
		require.False(t, w.try(w.rwClient().read), "readers of a new client wait")
		ok, err := w.rwClient().read.TryLockFor(w.caller(), 10*time.Second, 0)
		require.NoError(t, err)
		assert.False(t, ok)
		require.NoError(t, reading.read.Lock(me), "an active reader may nest")
		require.NoError(t, reading.read.Unlock(me))
		assert.False(t, w.try(reading.read), "the turn has ended")

		require.True(t, pending(waiting))
		require.True(t, pending(reader))
		within(t, 0, 0, func() {
			require.NoError(t, reading.read.Unlock(me))
			require.NoError(t, <-waiting)
			require.NoError(t, writing.write.Unlock(writer))
			require.NoError(t, <-reader)
		})
		require.NoError(t, elsewhere.read.Unlock(other))
		assert.Empty(t, w.Keys())
	})
}

func TestAWriterBecomesAReaderThoughAnotherWriterWaits(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		here, there, elsewhere, me, writer := w.rwClient(), w.rwClient(), w.rwClient(), w.caller(), w.caller()
		require.NoError(t, here.write.Lock(me))
		waiting := start(func() error { return there.write.Lock(writer) })
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		require.NoError(t, here.read.Lock(me))
		require.NoError(t, here.write.Unlock(me))
		require.True(t, pending(waiting))
		time.Sleep(time.Minute)
		assert.True(t, here.read.IsHeld(me))
		assert.False(t, w.try(elsewhere.read), "the waiting writer holds new readers back")
		within(t, 0, 0, func() {
			require.NoError(t, here.read.Unlock(me))
			require.NoError(t, <-waiting)
		})
		require.NoError(t, there.write.Unlock(writer))
	})
}

func TestATryLockOfAWriterHoldsNoReaderBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		reading, writing, me := w.rwClient(), w.rwClient(), w.caller()
		require.NoError(t, reading.read.Lock(me))
		assert.False(t, w.try(writing.write))
		_, err := writing.write.Acquire(w.ctx, rlock.WithWait(0))
		require.ErrorIs(t, err, rlock.ErrNotAcquired)
		assert.True(t, w.try(w.rwClient().read))
		require.NoError(t, reading.read.Unlock(me))
	})
}

// Redisson's readers ignore waiting writers. One of them always reads.
func TestAWriterThatForeignReadersStarveStarvesNoReader(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const java, reading, least = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7", 50 * time.Millisecond, 30 * time.Second
		w.HSet(key, "mode", "read", java, "1")
		w.SetTTL(key, time.Hour)
		require.NoError(t, w.Set("{"+key+"}:"+java+":rwlock_timeout:1", "1"))
		w.SetTTL("{"+key+"}:"+java+":rwlock_timeout:1", time.Hour)

		writing, writer := w.rwClient(), w.caller()
		waiting := start(func() error { return writing.write.Lock(writer) })
		require.True(t, pending(waiting))
		var readers sync.WaitGroup
		read := func(l rwClient) (longest *time.Duration, reads *int) {
			longest, reads = new(time.Duration), new(int)
			me, end := w.caller(), time.Now().Add(least)
			readers.Go(func() {
				for ; time.Now().Before(end); *reads++ {
					asked := time.Now()
					ok, err := l.read.TryLockFor(me, 10*time.Second, 0)
					*longest = max(*longest, time.Since(asked))
					if !assert.NoError(t, err) || !ok {
						continue
					}
					time.Sleep(reading)
					assert.NoError(t, l.read.Unlock(me))
				}
			})
			return longest, reads
		}
		longestThere, readsThere := read(w.rwClient())
		longestBeside, readsBeside := read(writing)
		readers.Wait()
		t.Logf("elsewhere %d reads, the longest wait %v; in the writer's client %d, %v", *readsThere, *longestThere, *readsBeside, *longestBeside)
		assert.LessOrEqual(t, *longestThere, 2*time.Second+late, "the writer holds readers back for two seconds")
		assert.Greater(t, *longestThere, time.Second, "the writer holds readers back")
		assert.Greater(t, *readsThere, int(least/reading)/4)
		assert.LessOrEqual(t, *longestBeside, 3*time.Second+late)
		assert.GreaterOrEqual(t, *readsBeside, int(least/(3*time.Second)))

		require.True(t, pending(waiting))
		w.Del(key)
		within(t, 0, 3*time.Second, func() { require.NoError(t, <-waiting) })
		require.NoError(t, writing.write.Unlock(writer))
		w.Del("{" + key + "}:" + java + ":rwlock_timeout:1")
		time.Sleep(time.Minute) // until clients of Redisson are forgotten
		assert.Empty(t, w.Keys())
	})
}
