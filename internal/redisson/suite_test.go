package redisson_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

var long = flag.Bool("long", false, "run the tests that measure a mixed fleet as well")

func onlyLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("only with -long")
	}
}

var other = flag.String("redisson", "", "run with these versions of Redisson, with commas between them, in place of the newest ones")

func TestMain(m *testing.M) {
	flag.Parse()
	if *other != "" {
		versions = nil
		for version := range strings.SplitSeq(*other, ",") {
			versions = append(versions, redisson.Version(version))
		}
	}
	if addr := os.Getenv(holdAt); addr != "" {
		holdUntilKilled(addr)
	}
	redistest.Main(m)
}

// A scene is one server with a Java process and a Go client on it.
type scene struct {
	*redistest.Server
	t       *testing.T
	ctx     context.Context  // of a wait that should end by itself
	outside rueidis.Client   // of a program that is no lock client
	counts  []string         // the commands that count waiters, one for each family of pub/sub
	nodes   []rueidis.Client // a client of each data node

	setting setting
	java    *redisson.Process
	client  *rlock.Client
}

// A setting is how both sides are configured, where not by default.
type setting struct {
	version  redisson.Version
	lease    time.Duration // of the watchdogs
	sharding redisson.Sharding
	pubSub   rlock.PubSub
	prefix   string // before each name

	listensAtReplicas bool // Redisson's subscriptionMode=SLAVE, with one primary
}

var versions = []redisson.Version{redisson.V3, redisson.V4}

// withBoth runs the test with either version of Redisson on a server. To start a JVM costs more than most
// tests do with it: what fits the same setting is better one test.
func withBoth(t *testing.T, c setting, run func(s *scene)) {
	with(t, redistest.Standalone(t), versions, c, run)
}

// withNewest runs the test with the newest version alone: Redisson itself is its subject.
func withNewest(t *testing.T, c setting, run func(s *scene)) {
	with(t, redistest.Standalone(t), versions[len(versions)-1:], c, run)
}

// withOldAndNew is withBoth with the oldest version in place of the last one before the newest: for what
// differs between those.
func withOldAndNew(t *testing.T, c setting, run func(s *scene)) {
	old := []redisson.Version{redisson.Oldest, redisson.V4}
	if *other != "" {
		old = versions
	}
	with(t, redistest.Standalone(t), old, c, run)
}

func with(t *testing.T, server *redistest.Server, versions []redisson.Version, c setting, run func(s *scene)) {
	t.Parallel()
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			t.Parallel()
			c := c
			c.version = version
			run(stage(t, server, c))
		})
	}
}

// stage brings both sides onto the server.
func stage(t *testing.T, server *redistest.Server, c setting) *scene {
	t.Helper()
	withJava(t, c.version) // the first time it is built, which takes as long as it takes
	redistest.Guard(t)
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
	t.Cleanup(cancel)
	s := &scene{Server: server, t: t, ctx: ctx, setting: c, counts: []string{"NUMSUB", "SHARDNUMSUB"}}
	s.java = s.startJava()
	s.client = s.startGo()
	s.outside = server.Client(t)
	for _, node := range server.Nodes() {
		s.nodes = append(s.nodes, node.Client(t))
	}
	return s
}

// atOnce runs sub-tests side by side, which mostly wait: a sub-test that calls Parallel
// would count as one of those that -parallel allows.
func (s *scene) atOnce(rows map[string]func(s *scene)) {
	var all sync.WaitGroup
	for title, row := range rows {
		all.Go(func() { s.run(title, row) })
	}
	all.Wait()
}

// run runs a sub-test on the same server with the same clients.
func (s *scene) run(title string, run func(s *scene)) {
	s.t.Run(title, func(t *testing.T) { run(s.in(t)) })
}

func (s *scene) in(t *testing.T) *scene {
	sub := *s
	sub.t = t
	return &sub
}

func (s *scene) startJava() *redisson.Process {
	s.t.Helper()
	c := s.setting
	config := redisson.Config{
		Version: c.version, Addrs: s.Options().InitAddress, Cluster: s.Kind == redistest.KindCluster,
		Watchdog: c.lease, Sharding: c.sharding, Prefix: c.prefix, Log: s.t.Output(),
	}
	if c.listensAtReplicas {
		primary, replicas := s.primaryAndReplicas()
		config.Addrs, config.Replicas = []string{primary}, replicas
	}
	java, err := redisson.Start(config)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { assert.NoError(s.t, java.Close()) })
	return java
}

// withJava skips the test with -short, and where there is no Java, or no network to build the
// driver with; if RLOCK_REQUIRE_JAVA is 1 it runs, or fails.
func withJava(t *testing.T, version redisson.Version) {
	t.Helper()
	if testing.Short() && os.Getenv("RLOCK_REQUIRE_JAVA") != "1" {
		t.Skip("-short uses no Java; RLOCK_REQUIRE_JAVA=1 asks for it")
	}
	_, err := redisson.Command(version, "rlock.Driver")
	if err != nil && os.Getenv("RLOCK_REQUIRE_JAVA") != "1" {
		t.Skipf("%v; CI fails on this skip", err)
	}
	require.NoError(t, err)
}

func (s *scene) startGo() *rlock.Client {
	s.t.Helper()
	c, option := s.setting, s.Options()
	option.ConnWriteTimeout, option.Dialer.Timeout = redistest.Hang, redistest.Hang // a running server answers, however busy the machine is
	client, err := rlock.New(rlock.Config{Redis: option, Lease: c.lease, Advanced: rlock.Advanced{PubSub: c.pubSub}, Prefix: c.prefix, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { assert.NoError(s.t, client.Close()) })
	return client
}

// do sends a command from outside. The first argument after the command's name
// must be a key.
func (s *scene) do(command, key string, args ...string) rueidis.RedisResult {
	return s.outside.Do(s.ctx, s.outside.B().Arbitrary(command).Keys(key).Args(args...).Build())
}

// fresh returns the name of a lock that no test has used.
func (s *scene) fresh() string {
	return fmt.Sprintf("%s:%d", s.t.Name(), lockNumber.Add(1))
}

var lockNumber atomic.Int64

// awaitWaiter returns when a client is subscribed to the channel of a name, as those that wait for it
// are, in either family of commands, on any node.
func (s *scene) awaitWaiter(kind redisson.Kind, name string) {
	s.t.Helper()
	channel := "redisson_lock__channel:"
	switch kind {
	case redisson.Read, redisson.Write:
		channel = "redisson_rwlock:"
	case redisson.Semaphore, redisson.Permits:
		channel = "redisson_sc:"
	}
	if name = s.setting.prefix + name; !strings.Contains(name, "{") {
		name = "{" + name + "}"
	}
	channel += name
	require.Eventually(s.t, func() bool {
		for _, node := range s.nodes {
			for _, count := range s.counts {
				reply, err := node.Do(s.ctx, node.B().Arbitrary("PUBSUB", count, channel).Build()).AsIntMap()
				if err == nil && reply[channel] > 0 {
					return true
				}
			}
		}
		return false
	}, redistest.Hang, time.Millisecond, "no waiter at %q", channel)
}

// awaitAsleep returns when a thread that waits needs a message, or the end of the lease, to go on. One
// that has subscribed may not be so far: a message to all readers before it sleeps does not wake it.
func (s *scene) awaitAsleep(waiter redisson.Thread) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		asleep, err := waiter.IsAsleep()
		return err == nil && asleep
	}, redistest.Hang, time.Millisecond, "it does not sleep")
}

// A call is one that is under way in a goroutine of its own.
type call struct {
	s     *scene
	done  chan struct{}
	err   error
	ended time.Time
}

func (s *scene) start(f func() error) *call {
	c := &call{s: s, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = f()
		c.ended = time.Now()
	}()
	return c
}

// succeeds waits for the call and returns when it ended.
func (c *call) succeeds() time.Time {
	c.s.t.Helper()
	select {
	case <-c.done:
	case <-c.s.ctx.Done():
		require.FailNow(c.s.t, "a call that has not ended")
	}
	require.NoError(c.s.t, c.err)
	return c.ended
}
