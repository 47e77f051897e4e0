package rlock_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// documentedACL returns the words of the ACL line of that name in docs/operations.md, from the
// user's name on. It stands alone in the code block after a comment with the name.
func documentedACL(t *testing.T, name string) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "<!-- acl:"+name+" -->\n```\n")
	require.True(t, found, "docs/operations.md has no ACL line %q", name)
	line, _, _ := strings.Cut(rest, "\n```")
	words := strings.Fields(line)
	require.Equal(t, []string{"ACL", "SETUSER", "locks"}, words[:3], line)
	require.NotContains(t, line, "\n", "it can be pasted into redis-cli")
	return words[3:]
}

// aclLines returns the names of the ACL lines that a user of the lock needs.
func (s *site) aclLines() []string {
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

// rights returns the rules of these lines that give rights.
func (s *site) rights(lines ...string) (rules []string) {
	for _, name := range lines {
		rules = append(rules, documentedACL(s.t, name)...)
	}
	return slices.DeleteFunc(rules, func(rule string) bool { return !strings.ContainsAny(rule[:1], "+~&") })
}

// inTheQueue stands for a right that a step of the queue needs: the waiter fails, or the
// holder before it, whichever comes first.
const inTheQueue = "a step of the queue"

// refused returns the call that fails first with ErrNoPermission for a user without one of
// the rights of a Lock, or "" if all calls work. major is the server's version.
func refused(major int) map[string]string {
	refused := map[string]string{
		"~orders:*":                         "Acquire",
		"~redisson_lock__channel:{orders:*": inTheQueue, // the channel is one of a step's keys
		"&redisson_lock__channel:{orders:*": "Unlock",   // the right to publish; a client that may not subscribe polls
		"~rlock_queue:{orders:*":            "Acquire",
		"~rlock_foreign:{orders:*":          inTheQueue,
		"&rlock_grants:{orders:*":           "", // it polls
		"&rlock_grants:client:*":            "", // a loss is told later
		"+evalsha":                          "Acquire",
		"+eval":                             "Acquire", // the server has not seen the scripts
		"+exists":                           "Acquire",
		"+hexists":                          "TryLock of a held lock",
		"+hget":                             "renewal",
		"+hset":                             "Acquire",
		"+hdel":                             "Unlock",
		"+hkeys":                            "renewal",
		"+pexpire":                          "Acquire",
		"+pttl":                             "TTL",
		"+zadd":                             inTheQueue,
		"+zrange":                           inTheQueue,
		"+zrangebyscore":                    inTheQueue,
		"+zscore":                           "", // only to look for a ticket behind others
		"+zrem":                             inTheQueue,
		"+hmget":                            "", // only for clients of Redisson
		"+zcount":                           "", // clients are not told that others wait
		"+time":                             "",
		"+ping":                             "", // a refusal proves as well that the server is alive; ACL LOG fills

		"+publish":       "Unlock",
		"+subscribe":     "", // it polls
		"+pubsub|numsub": "", // the client assumes that others wait

		"+role": "New",

		"+spublish":           "Unlock",
		"+ssubscribe":         "",
		"+pubsub|shardnumsub": "New",
		"+cluster|slots":      "New",
		"+cluster|shards":     "",
	}
	if major >= 8 { // which rueidis asks for its shards
		refused["+cluster|slots"], refused["+cluster|shards"] = "", "New"
	}
	return refused
}

var users atomic.Int64 // that limited has made

func TestAUserNeedsTheDocumentedRightsAndEachMissingOneIsReported(t *testing.T) {
	t.Parallel()
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindStandalone: redistest.Standalone,
		redistest.KindSentinel:   redistest.Sentinel,
		redistest.KindCluster:    redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := at(t, calm(start(t)))
			rules := s.rights(s.aclLines()...)
			refused := refused(s.Major())
			if s.family() == sharded {
				refused["+publish"] = "" // only for the clients' own channels
			}
			without := func(rule string) rlock.Config {
				return s.limited(slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })...)
			}
			assert.Empty(t, s.rehearse(key, s.limited(rules...)), "all rights are given")

			try := func(rule string) {
				t.Run("without "+rule, func(t *testing.T) {
					s, name := s.in(t), key+strings.ReplaceAll(rule, "{", "") // a brace would make another tag of it
					says, known := refused[rule]
					require.True(t, known, "no reason is documented")
					failed := s.rehearse(name, without(rule))
					if says == "" {
						assert.Empty(t, failed)
						return
					}
					err := failed[says]
					if says == inTheQueue {
						err = errors.Join(slices.Collect(maps.Values(failed))...)
					}
					assert.ErrorIs(t, err, rlock.ErrNoPermission)
					for what, err := range failed {
						// A lock that was not locked is not held, and a process that has no processor for two
						// seconds loses a lock that was handed to it before it hears of the refusal.
						told := errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)
						assert.True(t, told, "%s: %v", what, err)
					}
					assert.Eventually(t, func() bool {
						left, err := s.do("EXISTS", name).AsInt64()
						return err == nil && left == 0
					}, hang, 10*time.Millisecond, "a lock stays behind")
				})
			}
			s.forget()
			try("+eval") // while no other client loads the scripts
			var rows sync.WaitGroup
			for _, rule := range rules {
				if rule != "+eval" {
					rows.Go(func() { try(rule) }) // most of the time they wait for renewals
				}
			}
			if kind == redistest.KindCluster {
				config := without("+pubsub|shardnumsub")
				config.PubSub = rlock.PubSubPlain
				if s.HasShardedPubSub() {
					config.PubSub = rlock.PubSubSharded
				}
				assert.Empty(t, s.rehearse(key, config), "with Config.PubSub set the client need not ask")
			}
			rows.Wait()
		})
	}
}

// The lines are executed as they stand in docs/operations.md, one after the other.
func TestTheACLLinesOfTheDocumentsAreEnoughForEachKindOfLock(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(*rlock.Client) locker{
		"":              func(c *rlock.Client) locker { return c.NewFairLock(key) }, // and every other kind
		"FencedLock":    func(c *rlock.Client) locker { return c.NewFencedLock(key) },
		"Semaphore":     func(c *rlock.Client) locker { return c.NewSemaphore(key, 1) },
		"ReadWriteLock": func(c *rlock.Client) locker { return c.NewReadWriteLock(key).Write() },
	}
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		for name, newLock := range kinds {
			for _, node := range s.nodes() {
				lines := s.aclLines()
				if name != "" {
					lines = append(lines, name)
				}
				for _, line := range lines {
					command := append([]string{"ACL", "SETUSER", "locks"}, documentedACL(t, line)...)
					require.NoError(t, node.Do(s.ctx, node.B().Arbitrary(command...).Build()).Error(), line)
				}
			}
			login := func(c *rlock.Config) { c.Redis.Username, c.Redis.Password = "locks", "secret" }
			holder, other := s.client(login), s.client(login)
			here, there := newLock(holder), newLock(other)
			require.NoError(t, here.Lock(s.ctx))
			require.NoError(t, here.Lock(s.ctx))
			for answered := false; !answered; { // once it has subscribed
				answers, err := other.Ask(s.ctx, holder.ID())
				require.NoError(t, err)
				answered = len(answers) == 1
			}
			waits, queued := queueing(s.ctx)
			waiter := background(func() error { return there.Do(waits, func(context.Context) error { return nil }) })
			<-queued
			require.NoError(t, here.Unlock(s.ctx))
			require.NoError(t, here.Unlock(s.ctx), name)
			require.NoError(t, s.await(waiter), name)
			s.number("DEL", "redisson_lock_token:{"+key+"}")
		}
		for _, node := range s.nodes() {
			require.NoError(t, node.Do(s.ctx, node.B().Arbitrary("ACL", "DELUSER", "locks").Build()).Error())
		}
	})
}

func TestWithReplicasAUserNeedsWait(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Sentinel(t)))
	rules := s.rights(s.aclLines()...)
	config := s.limited(append(rules, s.rights("SyncReplicas")...)...)
	config.SyncReplicas = 1
	assert.Empty(t, s.rehearse(key, config))

	config = s.limited(rules...)
	config.SyncReplicas = 1
	assert.ErrorIs(t, s.rehearse(key, config)["New"], rlock.ErrNoPermission)
}

// A client of Redisson that listens is counted, and gets its turn by the server's clock.
func TestTheACLLinesAreEnoughBesideAClientOfRedisson(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	listening, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		_ = s.outside.Receive(listening, s.outside.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
	}()
	s.awaitListeners(1, plain, channel)
	config := s.limited(s.rights(s.aclLines()...)...)
	login := func(c *rlock.Config) {
		c.Redis.Username, c.Redis.Password = config.Redis.Username, config.Redis.Password
	}
	here, there := s.client(login).NewLock(key), s.client(login).NewLock(key)
	for range 3 {
		require.NoError(t, here.Lock(s.ctx))
		waiter := background(func() error { return there.Do(s.ctx, func(context.Context) error { return nil }) })
		s.awaitWaiters(1, key)
		require.NoError(t, here.Unlock(s.ctx))
		require.NoError(t, s.await(waiter))
	}
}

// The rights of a ReadWriteLock that replace or extend those of a Lock.
var readWriteRights = []string{
	"~orders:*", "~{orders:*", "~redisson_rwlock:{orders:*", "&redisson_rwlock:{orders:*", "~rlock_queue:{orders:*", "~rlock_foreign:{orders:*", "&rlock_grants:{orders:*", "&rlock_grants:client:*",
	"+evalsha", "+eval", "+exists", "+hexists", "+hget", "+hmget", "+hgetall", "+hkeys", "+hlen",
	"+hset", "+hdel", "+set", "+del", "+pexpire", "+pttl", "+ping",
	"+zadd", "+zrem", "+zrange", "+zrangebyscore", "+zcount", "+zscore",
	"+publish", "+subscribe", "+pubsub|numsub",
}

func TestAMissingRightOfReadersAndWritersIsReported(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	rehearse := func(config rlock.Config) (failed []error) {
		client, err := rlock.New(config)
		require.NoError(t, err)
		defer client.Close()
		there, err := rlock.New(config)
		require.NoError(t, err)
		defer there.Close()
		l, me := client.NewReadWriteLock(key), rlock.WithOwner(s.ctx, rlock.NewOwner())
		do := func(err error) bool {
			if err != nil {
				failed = append(failed, err)
			}
			return err == nil
		}
		if do(l.Write().Lock(me)) && do(l.Read().Lock(me)) { // and a downgrade
			do(l.Write().Unlock(me))
			time.Sleep(5 * time.Millisecond) // it is mirrored
			do(l.Read().Unlock(me))
		}
		if do(l.Read().Lock(me)) { // and a writer that waits in another client
			_, err := there.NewReadWriteLock(key).Write().TryLockFor(s.ctx, 10*time.Millisecond, 0)
			do(err)
			do(l.Read().Unlock(me))
		}
		return failed
	}
	require.Empty(t, rehearse(s.limited(readWriteRights...)))
	for i, right := range readWriteRights {
		s.forget()
		for _, err := range rehearse(s.limited(slices.Delete(slices.Clone(readWriteRights), i, i+1)...)) {
			told := errors.Is(err, rlock.ErrNoPermission) || errors.Is(err, rlock.ErrNotHeld) || errors.Is(err, rlock.ErrLost)
			assert.True(t, told, "without %s: %v", right, err)
		}
		assert.Eventually(t, func() bool {
			ms, err := s.do("PTTL", key).AsInt64()
			return err == nil && ms != -1
		}, hang, 10*time.Millisecond, "without %s a lock stays behind", right)
		s.number("DEL", key)
	}
}

// The line is executed as it stands in docs/operations.md.
func TestTheACLLineOfInspectIsEnoughAndEachRightOfItIsNeeded(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	lines := append(s.aclLines(), "FencedLock", "ReadWriteLock")
	inspecting := documentedACL(t, "Inspect and Locks")
	ask := func(without string) (i inspect.Lock, names []string, err error) {
		rules := slices.DeleteFunc(append(s.rights(lines...), inspecting...), func(r string) bool { return r == without })
		client, err := rlock.New(s.limited(rules...))
		require.NoError(t, err)
		defer client.Close()
		i, err = client.Inspect(s.ctx, key)
		for name, failed := range client.Locks(s.ctx, key+"*") {
			if failed != nil {
				err = errors.Join(err, failed)
				continue
			}
			names = append(names, name)
		}
		return i, names, err
	}
	holder, permits := s.client(), key+":permits"
	require.NoError(t, holder.NewFencedLock(key).Lock(s.ctx))
	require.NoError(t, holder.NewSemaphore(permits, 2).Lock(s.ctx))
	i, names, err := ask("")
	require.NoError(t, err)
	require.NoError(t, i.Unresolved)
	assert.NotNil(t, i.Holders[0].Process)
	assert.NotZero(t, i.Token)
	assert.Equal(t, []string{key, permits}, names)
	for _, right := range inspecting {
		i, _, err := ask(right)
		if right == "+client|list" || right == "+client" {
			require.NoError(t, err, "the rest of the answer still arrives")
			assert.ErrorIs(t, i.Unresolved, rlock.ErrNoPermission)
			assert.Len(t, i.Holders, 1)
			continue
		}
		assert.ErrorIs(t, err, rlock.ErrNoPermission, "without %s", right)
	}
	require.NoError(t, holder.NewFencedLock(key).Unlock(s.ctx))
	require.NoError(t, holder.NewSemaphore(permits, 2).Unlock(s.ctx))
	s.number("DEL", "redisson_lock_token:{"+key+"}")
}
