package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/require"
)

// limited makes a user with these rights and no others on every node, and returns
// a config that connects as this user.
func (s *site) limited(rules ...string) rlock.Config {
	s.t.Helper()
	user := fmt.Sprintf("limited:%d", users.Add(1))
	command := append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret", "resetchannels"}, rules...)
	for _, node := range s.nodes() {
		require.NoError(s.t, node.Do(s.ctx, node.B().Arbitrary(command...).Build()).Error())
	}
	option := s.Options()
	option.Username, option.Password = user, "secret"
	option.Dialer.Timeout = hang // but Close does not wait for a refused release until its lease ends
	// The lease is long enough to be kept while many rehearse on a machine that is busy.
	return rlock.Config{Redis: option, Lease: 3 * time.Second, Logger: quiet}
}

// forget makes the nodes forget all scripts.
func (s *site) forget() {
	s.t.Helper()
	for _, node := range s.nodes() {
		require.NoError(s.t, node.Do(s.ctx, node.B().ScriptFlush().Build()).Error())
	}
}

// rehearse makes two clients use the lock of that name in every way, and returns the calls
// that failed.
func (s *site) rehearse(name string, config rlock.Config) (failed map[string]error) {
	s.t.Helper()
	failed = make(map[string]error)
	note := func(what string, err error) {
		if err != nil && failed[what] == nil {
			failed[what] = err
		}
	}
	here, err := rlock.New(config)
	note("New", err)
	there, err := rlock.New(config)
	note("New", err)
	if here != nil {
		defer here.Close()
	}
	if there != nil {
		defer there.Close()
	}
	if len(failed) > 0 {
		return failed
	}
	one, two, three := rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner()), rlock.WithOwner(s.ctx, rlock.NewOwner())
	lock, remote := here.NewLock(name), there.NewLock(name)

	hold, err := lock.Acquire(one)
	note("Acquire", err)
	_, err = lock.IsLocked(one)
	note("IsLocked", err)
	_, err = lock.TTL(one)
	note("TTL", err)
	_, err = remote.TryLock(three)
	note("TryLock of a held lock", err)
	if hold == nil {
		return failed
	}
	note("nested Lock", lock.Lock(one))
	note("renewal", s.nested(hold, name))
	note("nested Unlock", lock.Unlock(one))

	waits, queued := queueing(two)
	behind := make(chan struct{}) // closed when another ticket is in the queue
	next := background(func() error {
		hold, err := lock.Acquire(waits)
		if err != nil {
			return err
		}
		if err := s.renewed(hold); err != nil {
			return err
		}
		<-behind
		return hold.Release(two)
	})
	<-queued
	note("hand-over", hold.Release(one))
	waits, queued = queueing(three)
	other := background(func() error { return remote.Do(waits, func(context.Context) error { return nil }) })
	<-queued
	require.Eventually(s.t, func() bool {
		return len(other) > 0 || s.number("ZCOUNT", "rlock_queue:{"+name+"}", "1", "+inf") == 1
	}, hang, time.Millisecond, "nor has it failed")
	close(behind)
	note("handed over", s.await(next))
	note("waiting", s.await(other))
	note("Lock of one that has just waited", remote.Lock(three)) // it joins the queue of a free lock
	note("Unlock", remote.Unlock(three))

	note("Lock", lock.Lock(one))
	note("Unlock", lock.Unlock(one))
	note("Lock", lock.Lock(one))
	_, err = remote.ForceUnlock(three)
	note("ForceUnlock", err)
	return failed
}

// nested returns when Redis shows both levels of the lock, or why the hold was lost. A renewal
// that was sent before the second level shows one.
func (s *site) nested(hold *rlock.Hold, name string) error {
	return s.whileHeld(hold, func() bool {
		counts, err := s.do("HVALS", name).AsStrSlice()
		return err == nil && slices.Equal(counts, []string{"2"})
	})
}

// renewed returns when the hold has been mirrored once more, or why it was lost.
func (s *site) renewed(hold *rlock.Hold) error {
	first := hold.ValidUntil()
	return s.whileHeld(hold, func() bool { return hold.ValidUntil().After(first) })
}

// whileHeld returns when the condition is met, or why the hold was lost before.
func (s *site) whileHeld(hold *rlock.Hold, met func() bool) error {
	for {
		select {
		case <-hold.Context().Done():
			return context.Cause(hold.Context())
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-time.After(time.Millisecond):
			if met() {
				return nil
			}
		}
	}
}
