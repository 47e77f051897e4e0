package redisson_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// An interrupted thread of Redisson abandons the acquire that it has sent: the granted lock
// has no owner, and the watchdog keeps it for ever.
func interruptedAcquire(s *scene) {
	golang, java := s.golang(), s.java.Thread("one")
	ours, theirs := s.fresh(), s.fresh()
	for _, side := range []side{golang, java} { // the scripts are known
		require.NoError(s.t, side.Lock(ours, 0))
		require.NoError(s.t, side.Unlock(ours))
	}
	ctx, interrupt := context.WithCancel(rlock.WithOwner(s.ctx, rlock.NewOwner()))
	s.pauseWrites(s.outside)
	ourWait := s.start(func() error { return s.client.NewLock(ours).LockFor(ctx, time.Hour) })
	theirWait := s.start(func() error { return java.LockInterruptibly(theirs, 0) })
	s.awaitPutOff(s.outside, 2)
	interrupt()
	require.NoError(s.t, java.Interrupt())
	assert.ErrorIs(s.t, ourWait.fails(), context.Canceled)
	s.t.Logf("Redisson: %v", theirWait.fails())
	s.resumeWrites(s.outside)

	require.NoError(s.t, golang.Lock(ours, 0))
	require.NoError(s.t, golang.Unlock(ours))
	gives(s.t, false)(golang.TryLock(theirs, shortLease*3/2, 0)) // no thread holds it, and it is renewed
}

// fails waits for the call and returns its error.
func (c *call) fails() error {
	c.s.t.Helper()
	select {
	case <-c.done:
	case <-c.s.ctx.Done():
		require.FailNow(c.s.t, "a call that has not ended")
	}
	require.Error(c.s.t, c.err)
	return c.err
}

// pauseWrites makes a node put off every command that may write, scripts among them, and
// execute it later.
func (s *scene) pauseWrites(node rueidis.Client) {
	s.t.Helper()
	pause := node.B().ClientPause().Timeout(hang.Milliseconds()).Write().Build()
	require.NoError(s.t, node.Do(s.ctx, pause).Error())
}

func (s *scene) resumeWrites(node rueidis.Client) {
	s.t.Helper()
	require.NoError(s.t, node.Do(s.ctx, node.B().ClientUnpause().Build()).Error())
}

// awaitPutOff returns when the commands of so many connections are.
func (s *scene) awaitPutOff(node rueidis.Client, connections int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		list, err := node.Do(s.ctx, node.B().ClientList().Build()).ToString()
		return err == nil && strings.Count(list, " flags=b ") >= connections
	}, hang, time.Millisecond)
}

// freshAt returns such a name as fresh does, whose slot the node serves.
func (s *scene) freshAt(node rueidis.Client) string {
	s.t.Helper()
	for s.ctx.Err() == nil {
		lock := s.fresh()
		if node.Do(s.ctx, node.B().Exists().Key(lock).Build()).Error() == nil {
			return lock
		}
	}
	require.FailNow(s.t, "the node serves no slot")
	return ""
}

// awaitSecondCopy returns when Redisson, which speaks RESP2, has sent a script behind
// the one that is put off.
func (s *scene) awaitSecondCopy(node rueidis.Client) {
	s.t.Helper()
	const lone = 100 // more bytes than the WAIT that goes with a script, fewer than a script
	require.Eventually(s.t, func() bool {
		list, err := node.Do(s.ctx, node.B().ClientList().Build()).ToString()
		if err != nil {
			return false
		}
		for line := range strings.Lines(list) {
			if strings.Contains(line, " flags=b ") && strings.Contains(line, " resp=2") {
				_, after, _ := strings.Cut(line, " qbuf=")
				var waiting int
				_, _ = fmt.Sscan(after, &waiting)
				return waiting > lone
			}
		}
		return false
	}, hang, 10*time.Millisecond)
}

// Redisson sends an acquire again whose answer is late, except to a single server,
// and each adds one to the count.
func sentAgain(s *scene) {
	golang, java := s.golang(), s.java.Thread("one")
	node := s.nodes[0]
	lock := s.freshAt(node)
	ours, theirs := "{"+lock+"}:ours", "{"+lock+"}:theirs"
	for _, side := range []side{golang, java} { // the scripts are known
		require.NoError(s.t, side.Lock(ours, 0))
		require.NoError(s.t, side.Unlock(ours))
	}
	s.pauseWrites(node)
	ourWait := s.start(func() error { return golang.Lock(ours, 0) })
	theirWait := s.start(func() error { return java.Lock(theirs, 0) })
	s.awaitPutOff(node, 2)
	s.awaitSecondCopy(node)
	s.resumeWrites(node)
	ourWait.succeeds()
	theirWait.succeeds()

	n, err := java.HoldCount(theirs)
	require.NoError(s.t, err)
	assert.Greater(s.t, n, 1)
	require.NoError(s.t, java.Unlock(theirs))
	gives(s.t, false)(golang.TryLock(theirs, 0, 0)) // unlocked as often as it was locked, it is free

	s.holds(golang, ours, 1)
	require.NoError(s.t, golang.Unlock(ours))
	s.awaitEnd(ours)
	require.NoError(s.t, s.do("DEL", theirs).Error())
}
