package testbed

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/stretchr/testify/require"
)

// Limited makes a user with these rights and no others on every node, and returns
// a config that connects as this user.
func (s *Site) Limited(rules ...string) rlock.Config {
	s.T.Helper()
	user := fmt.Sprintf("limited:%d", users.Add(1))
	command := append([]string{"ACL", "SETUSER", user, "reset", "on", ">secret", "resetchannels"}, rules...)
	for _, node := range s.EachNode() {
		require.NoError(s.T, node.Do(s.Ctx, node.B().Arbitrary(command...).Build()).Error())
	}
	option := s.Options()
	option.Username, option.Password = user, "secret"
	option.Dialer.Timeout = Hang // but Close does not wait for a refused release until its lease ends
	// The lease is long enough to be kept while many rehearse on a machine that is busy.
	return rlock.Config{Redis: option, Lease: 3 * time.Second, Logger: Quiet}
}

// Forget makes the nodes forget all scripts.
func (s *Site) Forget() {
	s.T.Helper()
	for _, node := range s.EachNode() {
		require.NoError(s.T, node.Do(s.Ctx, node.B().ScriptFlush().Build()).Error())
	}
}

// Rehearse makes two clients use the lock of that name in every way, and returns the calls
// that failed.
func (s *Site) Rehearse(name string, config rlock.Config) (failed map[string]error) {
	s.T.Helper()
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
	one, two, three := rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner()), rlock.WithOwner(s.Ctx, rlock.NewOwner())
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

	waits, queued := Queueing(two)
	behind := make(chan struct{}) // closed when another ticket is in the queue
	next := Start(func() error {
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
	other := Start(func() error { return remote.Do(three, Nothing) })
	require.Eventually(s.T, func() bool {
		return len(other) > 0 || s.Number("ZCOUNT", "rlock_queue:{"+name+"}", "1", "+inf") == 1
	}, Hang, time.Millisecond, "nor has it failed")
	close(behind)
	note("handed over", s.Await(next))
	note("waiting", s.Await(other))
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
func (s *Site) nested(hold *rlock.Hold, name string) error {
	return s.whileHeld(hold, func() bool {
		counts, err := s.Do("HVALS", name).AsStrSlice()
		return err == nil && slices.Equal(counts, []string{"2"})
	})
}

// renewed returns when the hold has been mirrored once more, or why it was lost.
func (s *Site) renewed(hold *rlock.Hold) error {
	first := hold.ValidUntil()
	return s.whileHeld(hold, func() bool { return hold.ValidUntil().After(first) })
}

// whileHeld returns when the condition is met, or why the hold was lost before.
func (s *Site) whileHeld(hold *rlock.Hold, met func() bool) error {
	for {
		select {
		case <-hold.Context().Done():
			return context.Cause(hold.Context())
		case <-s.Ctx.Done():
			return s.Ctx.Err()
		case <-time.After(time.Millisecond):
			if met() {
				return nil
			}
		}
	}
}

// DocumentedACL returns the words of the ACL line of that name in docs/operations.md, from the
// user's name on. It stands alone in the code block after a comment with the name.
func DocumentedACL(t *testing.T, name string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "<!-- acl:"+name+" -->\n```\n")
	require.True(t, found, "docs/operations.md has no ACL line %q", name)
	line, _, _ := strings.Cut(rest, "\n```")
	words := strings.Fields(line)
	require.Equal(t, []string{"ACL", "SETUSER", "locks"}, words[:3], line)
	require.NotContains(t, line, "\n", "it can be pasted into redis-cli")
	return words[3:]
}

// AclLines returns the names of the ACL lines that a user of the lock needs.
func (s *Site) AclLines() []string {
	switch {
	case s.Kind == redistest.KindCluster && s.HasShardedPubSub():
		return []string{"every lock", "Cluster"}
	case s.Kind == redistest.KindCluster:
		return []string{"every lock", "Cluster of Redis 6.2"}
	case s.Kind == redistest.KindSentinel:
		return []string{"every lock", "one primary", "Sentinel"}
	default:
		return []string{"every lock", "one primary"}
	}
}

// Rights returns the rules of these lines that give rights.
func (s *Site) Rights(lines ...string) (rules []string) {
	for _, name := range lines {
		rules = append(rules, DocumentedACL(s.T, name)...)
	}
	return slices.DeleteFunc(rules, func(rule string) bool { return !strings.ContainsAny(rule[:1], "+~&") })
}

var users atomic.Int64 // that limited has made
