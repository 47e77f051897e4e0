package rlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	server := redistest.Embedded(t)
	expiring := server.Options()
	expiring.ConnLifetime = time.Hour
	for what, config := range map[string]rlock.Config{
		"no address":              {},
		"an address and a client": {Redis: server.Options(), Client: server.Client(t)},
		"no such pub/sub":         {Redis: server.Options(), PubSub: 9},
		"negative pub/sub":        {Redis: server.Options(), PubSub: -1},
		"negative replicas":       {Redis: server.Options(), SyncReplicas: -1},
		"too many replicas":       {Redis: server.Options(), SyncReplicas: 101},
		"connections that expire": {Redis: expiring},
		"a lease too long":        {Redis: server.Options(), Lease: time.Minute, LongestLease: 59 * time.Second},
		"too short a lease":       {Redis: server.Options(), Lease: 99 * time.Millisecond},
	} {
		client, err := rlock.New(config)
		assert.ErrorIs(t, err, rlock.ErrInvalidConfig, what)
		assert.Nil(t, client, what)
	}
}

func TestAServerThatCannotBeReachedIsTheErrorOfNew(t *testing.T) {
	client, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{
		InitAddress: []string{"127.0.0.1:6379"},
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, syscall.ECONNREFUSED
		},
	}})
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.ErrorContains(t, err, "127.0.0.1:6379")
	assert.Nil(t, client)
}

func TestTheDefaultLeaseIsRedissonsAndTheConfigsOtherwise(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		for lease, lock := range map[time.Duration]*rlock.Lock{
			30 * time.Second: s.lock(withLease(0)),
			time.Hour:        s.lock(withLease(time.Hour)),
		} {
			require.NoError(t, lock.Lock(s.ctx))
			ttl, err := lock.TTL(s.ctx)
			require.NoError(t, err)
			assert.LessOrEqual(t, ttl, lease)
			assert.Greater(t, ttl, lease-30*time.Second)
			require.NoError(t, lock.Unlock(s.ctx))
		}
	})
}

func TestTheFieldsOfAClientBeginWithItsIDAndNoTwoClientsShareOne(t *testing.T) {
	server := redistest.Embedded(t)
	s := at(t, server)
	one, two := s.client(), s.client()
	assert.NotEqual(t, one.ID(), two.ID())
	for _, client := range []*rlock.Client{one, two} {
		require.NoError(t, client.NewLock(key).Lock(s.ctx))
		s.awaitHash(client, goroutineID(), "1") // compares the ID
		require.NoError(t, client.NewLock(key).Unlock(s.ctx))
	}
}

// clientNames returns the names of the connections, without those that have none.
func (s *site) clientNames() (names []string) {
	s.t.Helper()
	list, err := s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	require.NoError(s.t, err)
	for _, word := range strings.Fields(list) {
		if name, ok := strings.CutPrefix(word, "name="); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestTheConnectionsOfAClientTellItsProcess(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	client := s.client()
	me := thisProcess(t)
	assert.Equal(t, []string{fmt.Sprintf("rlock:%s:%s:%d:%s", me.Program, me.Host, os.Getpid(), client.ID())}, s.clientNames())
}

func TestTheConfigSetsOrRemovesTheNameOfAClient(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	s.client(func(c *rlock.Config) { c.NoClientName = true })
	assert.Empty(t, s.clientNames())
	named := s.client(func(c *rlock.Config) { c.Redis.ClientName = "billing" })
	assert.Equal(t, []string{"billing"}, s.clientNames())

	require.NoError(t, named.NewLock(key).Lock(s.ctx))
	i, err := named.Inspect(s.ctx, key)
	require.NoError(t, err)
	require.NoError(t, i.Unresolved)
	assert.Nil(t, i.Holders[0].Process, "the name does not identify a process")
	require.NoError(t, named.NewLock(key).Unlock(s.ctx))
}

// In RESP2 a separate command sets the name, and it needs a right.
func TestAClientThatMayNotNameItselfWorksWithoutAName(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	for _, old := range []bool{false, true} {
		config := s.limited(s.rights(s.aclLines()...)...)
		config.Redis.AlwaysRESP2 = old
		client, err := rlock.New(config)
		require.NoError(t, err)
		if old {
			assert.Empty(t, s.clientNames())
		} else {
			assert.Len(t, s.clientNames(), 1, "HELLO needs no right")
		}
		require.NoError(t, client.NewLock(key).Lock(s.ctx))
		require.NoError(t, client.NewLock(key).Unlock(s.ctx))
		require.NoError(t, client.Close())
	}
}

func TestASharedClientKeepsItsName(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	option := s.Options()
	option.ClientName = "shared"
	shared, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer shared.Close()
	client, err := rlock.New(rlock.Config{Client: shared})
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, []string{"shared"}, s.clientNames())
}

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
		"&rlock_turn:{orders:*":             "", // it polls
		"&rlock_turn:client:*":              "", // a loss is told later
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

var users atomic.Int64 // that limited has made

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

// The rights of a ReadWriteLock that replace or extend those of a Lock.
var readWriteRights = []string{
	"~orders:*", "~{orders:*", "~redisson_rwlock:{orders:*", "&redisson_rwlock:{orders:*", "~rlock_queue:{orders:*", "~rlock_foreign:{orders:*", "&rlock_turn:{orders:*", "&rlock_turn:client:*",
	"+evalsha", "+eval", "+exists", "+hexists", "+hget", "+hmget", "+hgetall", "+hkeys", "+hlen",
	"+hset", "+hdel", "+set", "+del", "+pexpire", "+pttl", "+ping",
	"+zadd", "+zrem", "+zrange", "+zrangebyscore", "+zcount", "+zscore",
	"+publish", "+subscribe", "+pubsub|numsub",
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

// withPrefix sets Config.Prefix.
func withPrefix(prefix string) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Prefix = prefix }
}

// The lock of a client with a prefix is that of one without, by its name in Redis.
func TestAPrefixIsPartOfTheKeyAndNotOfTheName(t *testing.T) {
	kinds := map[rlock.Kind]func(c *rlock.Client, name string) *rlock.Lock{
		rlock.KindPlain:     (*rlock.Client).NewLock,
		rlock.KindFair:      (*rlock.Client).NewFairLock,
		rlock.KindFenced:    (*rlock.Client).NewFencedLock,
		rlock.KindRead:      func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Read() },
		rlock.KindWrite:     func(c *rlock.Client, name string) *rlock.Lock { return c.NewReadWriteLock(name).Write() },
		rlock.KindSemaphore: func(c *rlock.Client, name string) *rlock.Lock { return c.NewSemaphore(name, 1) },
		rlock.KindRed:       func(c *rlock.Client, name string) *rlock.Lock { return rlock.NewRedLock([]*rlock.Client{c}, name) },
	}
	for kind, newLock := range kinds {
		for _, prefix := range []string{"billing:", "{billing}:", `b[*]?\:`} {
			t.Run(string(kind)+" "+prefix, func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					var names []string
					observer := &rlock.Observer{
						Acquired: func(_ context.Context, i rlock.AcquiredInfo) { names = append(names, i.Name) },
						Released: func(_ context.Context, i rlock.ReleasedInfo) { names = append(names, i.Name) },
					}
					with, without := w.client(withPrefix(prefix), func(c *rlock.Config) { c.Observer = observer }), w.client()
					lock := newLock(with.Client, "orders:42")
					assert.Equal(t, "orders:42", lock.Name())
					hold, err := lock.Acquire(w.ctx)
					require.NoError(t, err)
					assert.True(t, w.Exists(prefix+"orders:42"), "%q", w.Keys())
					assert.Equal(t, "orders:42", with.Held()[0].Name)
					i, err := with.Inspect(w.ctx, "orders:42")
					require.NoError(t, err)
					assert.Equal(t, "orders:42", i.Name)
					assert.Len(t, i.Holders, 1)
					for _, pattern := range []string{"", "orders:*"} {
						var found []string
						for name, err := range with.Locks(w.ctx, pattern) {
							require.NoError(t, err)
							found = append(found, name)
						}
						assert.Equal(t, []string{"orders:42"}, found)
					}
					synctest.Wait() // until the client has subscribed to its channel, where it is asked
					answers, err := without.Ask(w.ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, prefix+"orders:42", answers[0].Uses[0].Name, "to a client without the prefix")
					answers, err = with.Ask(w.ctx, with.ID())
					require.NoError(t, err)
					assert.Equal(t, "orders:42", answers[0].Uses[0].Name)
					require.NoError(t, hold.Release(w.ctx))
					assert.Equal(t, []string{"orders:42", "orders:42"}, names)
				})
			})
		}
	}
}

func TestThePartsOfAMultiLockHaveThePrefixesOfTheirClients(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(withPrefix("a:")), w.client(withPrefix("b:"))
		both := rlock.NewMultiLock(a.NewLock("x"), b.NewLock("x"))
		assert.Equal(t, "a:x,b:x", both.Name())
		require.NoError(t, both.Do(w.ctx, func(context.Context) error {
			assert.True(t, w.Exists("a:x") && w.Exists("b:x"))
			return nil
		}))
	})
}

func TestAnEmptyNameIsRefusedWithAPrefixToo(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		require.ErrorIs(t, w.client(withPrefix("a:")).NewLock("").Lock(w.ctx), rlock.ErrInvalidName)
	})
}

func TestErrorsHaveTheNameThatRedisHas(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		err := w.client(withPrefix("a:")).NewLock("x").Unlock(w.ctx)
		require.ErrorContains(t, err, `"a:x"`)
	})
}

// A prefix with a hash tag keeps all locks of a service in one slot of a Cluster.
func TestAPrefixOnServers(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		s := at(t, server)
		with, without := s.client(withPrefix("{billing}:")), s.client()
		lock := with.NewLock("orders:42")
		require.NoError(t, lock.Lock(s.ctx))
		locked, err := without.NewLock("{billing}:orders:42").IsLocked(s.ctx)
		require.NoError(t, err)
		assert.True(t, locked)
		var names []string
		for name, err := range with.Locks(s.ctx, "") {
			require.NoError(t, err)
			names = append(names, name)
		}
		assert.Equal(t, []string{"orders:42"}, slices.Compact(names))
		require.NoError(t, lock.Unlock(s.ctx))
	})
}
