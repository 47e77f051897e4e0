package testbed

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/docs"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ClientNames returns the names of the connections, without those that have none.
func (s *Site) ClientNames() (names []string) {
	s.T.Helper()
	list, err := s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "LIST").Build()).ToString()
	require.NoError(s.T, err)
	for _, word := range strings.Fields(list) {
		if name, ok := strings.CutPrefix(word, "name="); ok && name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ThisProcess returns what Inspect reports of the test's own process, but for the address.
func ThisProcess(t *testing.T) inspect.Process {
	host, err := os.Hostname()
	require.NoError(t, err)
	return inspect.Process{Program: filepath.Base(os.Args[0]), Host: host, PID: os.Getpid()}
}

// A Site is a server and the test that uses it.
type Site struct {
	*redistest.Server
	T       *testing.T
	Ctx     context.Context  // the context of a wait that should end by itself
	Outside rueidis.Client   // a client that sends other commands than locks
	each    []rueidis.Client // a client of each data node
}

func Everywhere(t *testing.T, run func(t *testing.T, s *Site)) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { run(t, At(t, server)) })
}

// NeedsWideNumbers skips the test on the embedded server where an int has 32 bits. The
// embedded server keeps expiry times and counters in an int; a real server, and this
// library, use 64 bits on every machine.
func NeedsWideNumbers(t *testing.T, kind redistest.Kind) {
	t.Helper()
	if kind == redistest.KindEmbedded && strconv.IntSize == 32 {
		t.Skip("the embedded server counts with 32 bits here")
	}
}

// At makes a site of the server. The test must leave no key behind once its clients are
// closed.
func At(t *testing.T, server *redistest.Server) *Site {
	redistest.Guard(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*Hang)
	t.Cleanup(cancel)
	s := &Site{Server: server, T: t, Ctx: ctx, Outside: server.Client(t)}
	t.Cleanup(func() {
		var left int64
		assert.Eventually(t, func() bool { // the primary may have changed
			var err error
			left, err = s.Do("EXISTS", Key).AsInt64()
			return err == nil
		}, Hang, 10*time.Millisecond)
		assert.Zero(t, left, "a key is left behind")
	})
	return s
}

// Patient gives a running server all the time that it may need on a busy machine. Clients
// that have to notice a silent server keep the usual time.
func Patient(o rueidis.ClientOption) rueidis.ClientOption {
	o.ConnWriteTimeout, o.Dialer.Timeout = Hang, Hang
	return o
}

// In returns the site for a sub-test.
func (s *Site) In(t *testing.T) *Site {
	part := *s
	part.T = t
	return &part
}

// NewClient returns a new client of the server, closed when the test ends.
func (s *Site) NewClient(changes ...func(*rlock.Config)) *rlock.Client {
	s.T.Helper()
	config := rlock.Config{Redis: Patient(s.Options()), Logger: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&config)
	}
	client, err := rlock.New(config)
	require.NoError(s.T, err)
	s.T.Cleanup(func() { assert.NoError(s.T, client.Close()) })
	return client
}

// NewLock returns the lock of that name, of a client of its own.
func (s *Site) NewLock(changes ...func(*rlock.Config)) *rlock.Lock {
	s.T.Helper()
	return s.NewClient(changes...).NewLock(Key)
}

func WithLease(lease time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) { c.Lease = lease }
}

// Do sends a command from outside. The first argument after the command's name
// must be a key.
func (s *Site) Do(command, name string, args ...string) rueidis.RedisResult {
	return s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary(command).Keys(name).Args(args...).Build())
}

// Number is Do for a command that answers with a number.
func (s *Site) Number(command, name string, args ...string) int64 {
	s.T.Helper()
	n, err := s.Do(command, name, args...).AsInt64()
	require.NoError(s.T, err, command)
	return n
}

// Admin sends a command that has no key.
func (s *Site) Admin(command string, args ...string) {
	s.T.Helper()
	require.NoError(s.T, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary(command).Args(args...).Build()).Error(), command)
}

// Set makes another owner the holder of the lock: a dead client, or a Java service.
func (s *Site) Set(name, owner string, lease time.Duration) {
	s.T.Helper()
	s.Number("HSET", name, owner, "1")
	s.Number("PEXPIRE", name, fmt.Sprint(lease.Milliseconds()))
}

// A Family is a family of pub/sub commands.
type Family struct{ Subscribe, Publish, count string }

var (
	Plain   = Family{"SUBSCRIBE", "PUBLISH", "NUMSUB"}
	Sharded = Family{"SSUBSCRIBE", "SPUBLISH", "SHARDNUMSUB"}
)

// Family returns Redisson's default for such a server.
func (s *Site) Family() Family {
	if s.Kind == redistest.KindCluster && s.HasShardedPubSub() {
		return Sharded
	}
	return Plain
}

// EachNode returns a client for each data node, replicas as well: rueidis has plain
// subscriptions anywhere.
func (s *Site) EachNode() []rueidis.Client {
	if s.each == nil {
		for _, node := range s.Nodes() {
			s.each = append(s.each, node.Client(s.T))
		}
	}
	return s.each
}

// await returns when the condition is met. If it is not, the test fails, and says what there is
// instead.
func (s *Site) await(met func() bool, otherwise func() string) {
	s.T.Helper()
	for end := time.Now().Add(Hang); !met(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(s.T, otherwise(), "after %v", Hang)
		}
	}
}

// AwaitWaiters returns when n clients wait for the lock of that name.
func (s *Site) AwaitWaiters(n int64, name string) {
	s.T.Helper()
	queue := "rlock_queue:{" + name + "}"
	waiting := int64(0)
	s.await(func() bool {
		waiting = 0
		for _, layout := range []string{"", "rw", "sem"} {
			members, err := s.Do("ZRANGE", queue+layout, "0", "-1").AsStrSlice()
			if err != nil {
				return false
			}
			for _, member := range members { // without marks, and turns of foreign clients
				if _, ok := wire.ParseMember(member); ok {
					waiting++
				}
			}
		}
		return waiting == n
	}, func() string { return fmt.Sprintf("%d clients wait for %q, and not %d", waiting, name, n) })
}

// HandOver has one client wait for a lock that the other holds, and releases it.
func (s *Site) HandOver(here, there *rlock.Client) {
	s.T.Helper()
	hold, err := here.NewLock(Key).Acquire(s.Ctx)
	require.NoError(s.T, err)
	waiter := Start(func() error { return there.NewLock(Key).Do(s.Ctx, Nothing) })
	s.AwaitWaiters(1, Key)
	s.AwaitListeners(1, s.Family(), "rlock_grants:{"+Key+"}:"+inspect.Of(there).ID())
	require.NoError(s.T, hold.Release(s.Ctx))
	require.NoError(s.T, redistest.Await(s.T, waiter))
}

// AwaitListeners returns when n connections are subscribed to the channel.
func (s *Site) AwaitListeners(n int64, f Family, channel string) {
	s.T.Helper()
	var sum int64
	s.await(func() bool {
		sum = 0
		for _, node := range s.EachNode() {
			reply, err := node.Do(s.Ctx, node.B().Arbitrary("PUBSUB", f.count, channel).Build()).AsIntMap()
			if err != nil {
				return false
			}
			sum += reply[channel]
		}
		return sum == n
	}, func() string { return fmt.Sprintf("%d connections are subscribed to %q, and not %d", sum, channel, n) })
}

// IsFree reports whether another owner, in the lock's own client, gets it now; it releases the
// lock.
func (s *Site) IsFree(lock Locker) bool {
	s.T.Helper()
	return isFree(s.T, s.Ctx, lock)
}

func isFree(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	me := rlock.WithOwner(ctx, rlock.NewOwner())
	free := Tries(t, me, lock)
	if free {
		require.NoError(t, lock.Unlock(me))
	}
	return free
}

func Dial(t *testing.T, option rueidis.ClientOption) *rlock.Client {
	t.Helper()
	option.Dialer.Timeout = Hang // but Close does not wait for a refused release until its lease ends
	client, err := rlock.New(rlock.Config{Redis: option, Logger: Quiet})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// ReplicasOf is the number of replicas of each primary.
var ReplicasOf = map[redistest.Kind]int{redistest.KindSentinel: 2, redistest.KindCluster: 1}

// Replicated runs a test on servers of its own whose primaries have replicas.
func Replicated(t *testing.T, run func(t *testing.T, s *Site)) {
	for kind, start := range map[redistest.Kind]func(testing.TB, ...string) *redistest.Server{
		redistest.KindSentinel: redistest.Sentinel,
		redistest.KindCluster:  redistest.Cluster,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			run(t, At(t, start(t)))
		})
	}
}

// PauseReplicas pauses all replicas of all primaries, once the key's primary knows that they
// have all its writes: from then on a WAIT for older writes succeeds. It returns a function
// that resumes them.
func (s *Site) PauseReplicas() (resume func()) {
	s.T.Helper()
	primary, replicas := s.Primary(Key), s.Replicas()
	require.Eventually(s.T, func() bool {
		role := s.Role(primary)
		return strings.Count(fmt.Sprint(role), "state=online,offset="+role["master_repl_offset"]+",") == ReplicasOf[s.Kind]
	}, Hang, time.Millisecond)
	for _, r := range replicas {
		r.Pause()
	}
	return func() {
		for _, r := range replicas {
			r.Resume()
		}
	}
}

// Replicas returns the nodes that follow a primary, in a Cluster any primary.
func (s *Site) Replicas() (replicas []*redistest.Server) {
	s.T.Helper()
	for _, node := range s.Nodes() {
		if s.Role(node)["role"] == "slave" {
			replicas = append(replicas, node)
		}
	}
	return replicas
}

// ReplicaOf returns a node that follows the primary.
func (s *Site) ReplicaOf(primary *redistest.Server) *redistest.Server {
	s.T.Helper()
	for _, node := range s.Replicas() {
		if net.JoinHostPort(s.Role(node)["master_host"], s.Role(node)["master_port"]) == primary.Addr() {
			return node
		}
	}
	require.FailNow(s.T, "the primary has no replica")
	return nil
}

// Role returns the node's replication state from INFO. It asks until it gets an answer: a
// sentinel closes all connections to a node whose role it changes, new ones as well.
func (s *Site) Role(node *redistest.Server) map[string]string {
	s.T.Helper()
	for {
		client, err := rueidis.NewClient(node.Options())
		var info string
		if err == nil {
			info, err = client.Do(s.Ctx, client.B().Info().Section("replication").Build()).ToString()
		}
		if client != nil {
			client.Close()
		}
		if err == nil {
			return FieldsOf(info)
		}
		require.NoError(s.T, s.Ctx.Err(), err.Error())
		time.Sleep(time.Millisecond)
	}
}

// Info returns the fields of a section of INFO.
func (s *Site) Info(client rueidis.Client, section string) map[string]string {
	s.T.Helper()
	info, err := client.Do(s.Ctx, client.B().Info().Section(section).Build()).ToString()
	require.NoError(s.T, err)
	return FieldsOf(info)
}

func FieldsOf(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields
}

func WithReplicas(n int) func(*rlock.Config) {
	return func(c *rlock.Config) { c.SyncReplicas = n }
}

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
	// The lease is long enough to be kept while many users rehearse on a busy machine.
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
	here, err := rlock.NewContext(s.Ctx, config) // many connect at once
	note("New", err)
	there, err := rlock.NewContext(s.Ctx, config)
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
		waits.Done() // a call that need not wait, since the lock was lost or was refused, has not begun to
		if err != nil {
			return err
		}
		if err := s.shown(hold, name); err != nil {
			return err
		}
		<-behind
		return hold.Release(two)
	})
	redistest.Await(s.T, queued)
	note("hand-over", hold.Release(one))
	other := Start(func() error { return remote.Do(three, Nothing) })
	require.Eventually(s.T, func() bool {
		return len(other) > 0 || s.Number("ZCOUNT", "rlock_queue:{"+name+"}", "1", "+inf") == 1
	}, Hang, time.Millisecond, "nor has it failed")
	close(behind)
	note("handed over", redistest.Await(s.T, next))
	note("waiting", redistest.Await(s.T, other))
	note("Lock of one that has just waited", remote.Lock(three)) // it joins the queue of a free lock
	note("Unlock", remote.Unlock(three))

	note("Lock", lock.Lock(one))
	note("Unlock", lock.Unlock(one))
	note("Lock", lock.Lock(one))
	_, err = remote.ForceUnlock(three)
	note("ForceUnlock", err)
	return failed
}

// nested returns when Redis shows both levels of the lock, or why the hold was lost. A renewal that
// was sent before the second level shows one level.
func (s *Site) nested(hold *rlock.Hold, name string) error {
	return s.whileHeld(hold, func() bool {
		counts, err := s.Do("HVALS", name).AsStrSlice()
		return err == nil && slices.Equal(counts, []string{"2"})
	})
}

// shown returns when Redis shows the owner of the hold, to whom the lock was handed, or why the
// hold was lost. A user without HDEL leaves the owner before it there as well.
func (s *Site) shown(hold *rlock.Hold, name string) error {
	owner, _ := rlock.OwnerFrom(hold.Context())
	return s.whileHeld(hold, func() bool {
		fields, err := s.Do("HKEYS", name).AsStrSlice()
		return err == nil && slices.ContainsFunc(fields, func(f string) bool { return strings.HasSuffix(f, fmt.Sprint(":", owner)) })
	})
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

// DocumentedACL returns the rules of the ACL line of that name in docs/operations.md.
func DocumentedACL(t *testing.T, name string) []string {
	t.Helper()
	rules := docs.Rights(name)
	require.NotEmpty(t, rules, "docs/operations.md has no ACL line %q", name)
	return rules
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

var users atomic.Int64 // the number of users that Limited has made

// A Listener is subscribed to a lock's channel, as a Java waiter is.
type Listener struct {
	s        *Site
	family   Family
	channel  string
	messages chan string
}

// Listen returns a listener once its subscription is confirmed. The subscription ends with
// the test.
func (s *Site) Listen(f Family, channel string) *Listener {
	s.T.Helper()
	l := &Listener{s: s, family: f, channel: channel, messages: make(chan string, 10_000)}
	client := s.Client(s.T)
	subscribe := client.B().Subscribe().Channel(channel).Build()
	if f == Sharded {
		subscribe = client.B().Ssubscribe().Channel(channel).Build()
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(s.Ctx)
	go func() {
		defer close(done)
		_ = client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { l.messages <- m.Message })
	}()
	s.T.Cleanup(func() { cancel(); <-done })
	s.AwaitListeners(1, f, channel)
	return l
}

// Heard returns all messages since the last call. The listener publishes a message of its
// own, which comes after all others.
func (l *Listener) Heard() (messages []string) {
	l.s.T.Helper()
	const last = "that was all"
	l.s.Number(l.family.Publish, l.channel, last)
	for {
		select {
		case m := <-l.messages:
			if m == last {
				return messages
			}
			messages = append(messages, m)
		case <-l.s.Ctx.Done():
			require.FailNow(l.s.T, "the listener's own message did not arrive")
		}
	}
}

// Wakes asserts that the messages of one client wake the waiters of another. A waiter that no
// message wakes looks at the lock two seconds after it has joined the queue. A busy machine may
// delay one waiter for as long, but not most of them.
func (s *Site) Wakes(here, there *rlock.Client, f Family) {
	s.T.Helper()
	const rounds = 12
	prompt := 0
	for round := range rounds {
		name := fmt.Sprintf("orders:%d", round) // with a subscription of its own
		require.NoError(s.T, here.NewLock(name).Lock(s.Ctx))
		waiter := Start(func() error { return there.NewLock(name).Do(s.Ctx, Nothing) })
		s.AwaitWaiters(1, name)
		released := time.Now()
		require.NoError(s.T, here.NewLock(name).Unlock(s.Ctx))
		require.NoError(s.T, redistest.Await(s.T, waiter), "round %d", round)
		if time.Since(released) < time.Second {
			prompt++
		}
	}
	assert.Greater(s.T, prompt, rounds/2, "of %d waiters", rounds)
}
