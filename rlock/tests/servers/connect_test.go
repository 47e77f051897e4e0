// Package servers_test is about what Redis does to a client: connections, rights, refusals,
// outages, failovers, replicas and full servers.
package servers_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/inmemory"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	server := redistest.Embedded(t)
	with := func(change func(*rueidis.ClientOption)) rlock.Config {
		options := server.Options()
		change(&options)
		return rlock.Config{Redis: options}
	}
	for what, config := range map[string]rlock.Config{
		"no address":              {},
		"an address and a client": {Redis: server.Options(), Client: server.Client(t)},
		"no such pub/sub":         {Redis: server.Options(), Advanced: rlock.Advanced{PubSub: 9}},
		"negative pub/sub":        {Redis: server.Options(), Advanced: rlock.Advanced{PubSub: -1}},
		"too long a prefix":       {Redis: server.Options(), Prefix: strings.Repeat("p", 64<<10)},
		"negative replicas":       {Redis: server.Options(), SyncReplicas: -1},
		"too many replicas":       {Redis: server.Options(), SyncReplicas: 101},
		"connections that expire": with(func(o *rueidis.ClientOption) { o.ConnLifetime = time.Hour }),
		"a negative dial time":    with(func(o *rueidis.ClientOption) { o.Dialer.Timeout = -1 }),
		"a negative write time":   with(func(o *rueidis.ClientOption) { o.ConnWriteTimeout = -1 }),
		"replicas only":           with(func(o *rueidis.ClientOption) { o.ReplicaOnly = true }),
		"some commands to replicas": with(func(o *rueidis.ClientOption) {
			o.SendToReplicas = func(rueidis.Completed) bool { return false }
		}),
		"addresses of replicas": with(func(o *rueidis.ClientOption) {
			o.Standalone.ReplicaAddress = []string{"127.0.0.1:6380"}
		}),
		"a lease too long":       {Redis: server.Options(), Lease: time.Minute, LongestLease: 59 * time.Second},
		"a negative lease":       {Redis: server.Options(), Lease: -time.Second},
		"a negative longest one": {Redis: server.Options(), LongestLease: -time.Second},
		"a negative hand-off":    {Redis: server.Options(), Advanced: rlock.Advanced{HandoffTime: -time.Second}},
		"too short a lease":      {Redis: server.Options(), Lease: 99 * time.Millisecond},
		"rueidis.ParseURL":       {Redis: rueidis.ClientOption{InitAddress: []string{"redis://127.0.0.1:6379"}}},
		"host:port":              {Redis: rueidis.ClientOption{InitAddress: []string{"redis.example"}}},
		"host:port of IPv6":      {Redis: rueidis.ClientOption{InitAddress: []string{"::1"}}},
	} {
		client, err := rlock.New(config)
		assert.ErrorIs(t, err, rlock.ErrInvalidConfig, what)
		if advice := strings.TrimSuffix(what, " of IPv6"); strings.ContainsAny(advice, ".:") {
			assert.ErrorContains(t, err, advice)
		}
		assert.Nil(t, client, what)
	}
}

func TestTheNameOfAClientTellsItsProcess(t *testing.T) {
	t.Parallel()
	all := testbed.At(t, redistest.Standalone(t))
	t.Run("by default", func(t *testing.T) {
		s, me := all.In(t), testbed.ThisProcess(t)
		client := s.NewClient()
		assert.Equal(t, []string{fmt.Sprintf("rlock:%s:%s:%d:%s", me.Program, me.Host, os.Getpid(), inspect.Of(client).ID())}, s.ClientNames())
	})
	t.Run("the Config leaves it out", func(t *testing.T) {
		s := all.In(t)
		s.NewClient(func(c *rlock.Config) { c.Advanced.NoClientName = true })
		assert.Empty(t, s.ClientNames())
	})
	t.Run("the Config has another", func(t *testing.T) {
		s := all.In(t)
		named := s.NewClient(func(c *rlock.Config) { c.Redis.ClientName = "billing" })
		assert.Equal(t, []string{"billing"}, s.ClientNames())
		require.NoError(t, named.NewLock(testbed.Key).Lock(s.Ctx))
		i := testbed.Inspected(t, s.Ctx, named)
		require.NoError(t, i.Unresolved)
		assert.Nil(t, i.Holders[0].Process, "the name does not identify a process")
		require.NoError(t, named.NewLock(testbed.Key).Unlock(s.Ctx))
	})
	for _, old := range []bool{false, true} { // in RESP2 a separate command sets the name, and it needs a right
		t.Run(fmt.Sprint("the user may not set it, RESP2 ", old), func(t *testing.T) {
			s := all.In(t)
			limited := s.Limited(s.Rights(s.AclLines()...)...)
			client := s.NewClient(func(c *rlock.Config) { c.Redis, c.Redis.AlwaysRESP2 = limited.Redis, old })
			assert.Equal(t, old, len(s.ClientNames()) == 0, "HELLO needs no right")
			require.NoError(t, client.NewLock(testbed.Key).Do(s.Ctx, testbed.Nothing))
		})
	}
}

func TestAnUncontendedLockAndUnlockAreTwoCommands(t *testing.T) {
	testbed.Everywhere(t, func(t *testing.T, s *testbed.Site) {
		client := s.NewClient()
		lock := client.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(s.Ctx)) // the server learns the scripts, also that of a mirror
		require.NoError(t, lock.Lock(s.Ctx))
		require.Eventually(t, func() bool {
			counts, err := s.Do("HVALS", testbed.Key).AsStrSlice()
			return err == nil && slices.Equal(counts, []string{"2"})
		}, testbed.Hang, time.Millisecond)
		require.NoError(t, lock.Unlock(s.Ctx))
		require.NoError(t, lock.Unlock(s.Ctx))
		s.AwaitListeners(1, testbed.Plain, testbed.OwnChannels+inspect.Of(client).ID())
		for what, ctx := range map[string]context.Context{"with a context that may end": s.Ctx, "with one that never ends": context.Background()} {
			var calls map[string]int64
			for calls == nil || calls["hget"] > 0 { // a mirror is due if the machine is busy for 50 ms, or a connection is new
				require.NoError(t, s.Ctx.Err())
				calls = s.CountCalls(t, func() {
					require.NoError(t, lock.Do(ctx, testbed.Nothing))
				})
			}
			assert.EqualValues(t, 2, calls["evalsha"], what)
			assert.Zero(t, calls["eval"]+calls["script|load"]+calls[strings.ToLower(s.Family().Subscribe)], what)
		}
	})
}

func TestTheCommandsOfPubSubAreThoseOfRedissonOrOfTheConfig(t *testing.T) {
	redistest.Over(t, []redistest.Kind{redistest.KindStandalone, redistest.KindCluster}, func(t *testing.T, server *redistest.Server) {
		for pubSub, family := range map[rlock.PubSub]testbed.Family{
			rlock.PubSubAuto: testbed.At(t, server).Family(), rlock.PubSubPlain: testbed.Plain, rlock.PubSubSharded: testbed.Sharded,
		} {
			if family == testbed.Sharded && !server.HasShardedPubSub() {
				continue
			}
			t.Run(fmt.Sprint(pubSub), func(t *testing.T) {
				s := testbed.At(t, server)
				choose := func(c *rlock.Config) { c.Advanced.PubSub = pubSub }
				s.Wakes(s.NewClient(choose), s.NewClient(choose), family)
				lock, heard := s.NewLock(choose), s.Listen(family, testbed.Channel)
				calls := s.CountCalls(t, func() { require.NoError(t, lock.Do(s.Ctx, testbed.Nothing)) })
				require.Contains(t, heard.Heard(), "00")
				for _, other := range []testbed.Family{testbed.Plain, testbed.Sharded} {
					assert.Equal(t, other == family, calls[strings.ToLower(other.Publish)] > 0, other.Publish)
				}
			})
		}
	})
}

func TestNewSaysWhyItCannotConnectAndWhatToDo(t *testing.T) {
	replies := func(text string) *fakeServer { return &fakeServer{reply: func(string) string { return text }} }
	ready := func(command string) string {
		switch {
		case strings.HasPrefix(command, "HELLO"):
			return hello("7.0.15", "standalone")
		case strings.HasPrefix(command, "SELECT"):
			return "-ERR DB index is out of range\r\n"
		}
		return noCluster
	}
	const silence = "check that Redis runs there"
	for what, c := range map[string]struct {
		server *fakeServer
		is     error
		says   []string
	}{
		"a password is missing": {
			replies("-NOAUTH HELLO must be called with the client already authenticated\r\n"),
			rlock.ErrNoPermission, []string{"the server wants a password, and Config.Redis has none"},
		},
		"the password is wrong": {
			replies("-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
			rlock.ErrNoPermission, []string{"a wrong user name or password"},
		},
		"there is no such database": {&fakeServer{reply: ready}, nil, []string{"out of range", "Config.Redis.SelectDB"}},
		"the server is in protected mode": {
			&fakeServer{greeting: "-DENIED Redis is running in protected mode because protected mode is enabled\r\n"},
			nil, []string{"DENIED Redis is running in protected mode", "set a password"},
		},
		"the server is full":  {&fakeServer{greeting: "-ERR max number of clients reached\r\n"}, nil, []string{"max number of clients", "raise maxclients"}},
		"the server is busy":  {replies("-BUSY Redis is busy running a script.\r\n"), nil, []string{"BUSY", "it was not ready within"}},
		"the server hangs up": {&fakeServer{greeting: "-ERR"}, nil, []string{"EOF", silence, "maxclients"}},
	} {
		t.Run(what, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				config := c.server.config(t)
				config.Redis.SelectDB = 99
				client, err := rlock.New(config)
				require.Error(t, err)
				assert.Nil(t, client)
				assert.ErrorContains(t, err, "127.0.0.1:6379")
				if c.is != nil {
					assert.ErrorIs(t, err, c.is)
				}
				for _, words := range c.says {
					assert.ErrorContains(t, err, words)
				}
				if !slices.Contains(c.says, silence) {
					assert.NotContains(t, err.Error(), silence, "the server has answered")
				}
			})
		})
	}
}

func TestNewSaysWhatToDoAtASentinel(t *testing.T) {
	aside(t, func(t *testing.T) {
		f := &fakeServer{reply: func(command string) string {
			if strings.HasPrefix(command, "HELLO") {
				return hello("7.0.15", "sentinel")
			}
			return "-ERR unknown command '" + strings.Fields(command)[0] + "', with args beginning with: \r\n"
		}}
		for _, forced := range []bool{false, true} {
			config := f.config(t)
			config.Redis.ForceSingleClient = forced
			_, err := rlock.New(config)
			require.ErrorIs(t, err, rlock.ErrInvalidConfig)
			assert.ErrorContains(t, err, "name the primary in Config.Redis.Sentinel.MasterSet")
		}
	})
}

// The Sentinels and the primary have passwords of their own.
func TestNewSaysWhichPasswordIsWrongBehindSentinel(t *testing.T) {
	t.Parallel()
	server := redistest.Sentinel(t)
	right := server.Options()
	setPassword := func(addr, password string) {
		redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
		require.NoError(t, err)
		defer redis.Close()
		set := redis.B().Arbitrary("ACL", "SETUSER", "default", "resetpass", ">"+password).Build()
		require.NoError(t, redis.Do(t.Context(), set).Error())
	}
	setPassword(server.Primary(testbed.Key).Addr(), "server")
	for _, sentinel := range right.InitAddress {
		setPassword(sentinel, "sentinel")
	}
	right.Password, right.Sentinel.Password = "server", "sentinel"
	client, err := rlock.New(rlock.Config{Redis: right})
	require.NoError(t, err)
	require.NoError(t, client.Close())

	for _, c := range []struct{ server, sentinel, says string }{
		{"server", "server", "Config.Redis.Sentinel has a wrong user name or password"},
		{"server", "", "the Sentinel wants a password, and Config.Redis.Sentinel has none"},
		{"sentinel", "sentinel", "Config.Redis has a wrong user name or password"},
		{"", "sentinel", "the server wants a password, and Config.Redis has none"},
	} {
		option := right
		option.Password, option.Sentinel.Password = c.server, c.sentinel
		_, err := rlock.New(rlock.Config{Redis: option})
		require.ErrorIs(t, err, rlock.ErrNoPermission)
		assert.ErrorContains(t, err, c.says)
	}

	several := rueidis.ClientOption{InitAddress: right.InitAddress, Password: "sentinel"}
	_, err = rlock.New(rlock.Config{Redis: several})
	assert.ErrorContains(t, err, "name the primary in Config.Redis.Sentinel.MasterSet")
	right.Sentinel.MasterSet = "nosuch"
	_, err = rlock.New(rlock.Config{Redis: right})
	assert.ErrorContains(t, err, "know no primary by the name in Config.Redis.Sentinel.MasterSet")
}

func TestSeveralAddressesThatAreNoClusterAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{server.Addr(), server.Addr()}}})
	assert.ErrorContains(t, err, "several addresses are those of a Cluster")
}

// Up to Redis 7.0 a server that loads its data refuses CLUSTER SLOTS.
func TestNewWaitsForAServerThatLoadsItsData(t *testing.T) {
	loadsFor := func(t *testing.T, d time.Duration) (*rlock.Client, error) {
		begin := time.Now()
		f := &fakeServer{reply: func(command string) string {
			switch {
			case strings.HasPrefix(command, "HELLO"):
				return hello("7.0.15", "standalone")
			case time.Since(begin) < d:
				return "-LOADING Redis is loading the dataset in memory\r\n"
			}
			return noCluster
		}}
		return rlock.New(f.config(t))
	}
	aside(t, func(t *testing.T) {
		client, err := loadsFor(t, 1500*time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, client.Close())

		begin := time.Now()
		require.ErrorContains(t, testbed.ErrorOf(loadsFor(t, time.Hour)), "LOADING")
		assert.LessOrEqual(t, time.Since(begin), 2*time.Second, "the default of Config.Redis.Dialer.Timeout")
		assert.Greater(t, time.Since(begin), time.Second)
	})
}

// rueidis takes a node of a Cluster that does not say where the others are for a single server, and
// would fail for most names. A user of a single server needs no right to ask for slots.
func TestNewRefusesAUserThatMayNotAskForTheSlotsOfACluster(t *testing.T) {
	for _, c := range []struct{ version, mode, command string }{
		{"7.0.15", "cluster", "CLUSTER SLOTS"}, {"8.2.3", "cluster", "CLUSTER SHARDS"}, {"7.0.15", "standalone", "CLUSTER SLOTS"},
	} {
		t.Run(c.version+" "+c.mode, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				f := &fakeServer{reply: func(words string) string {
					switch {
					case strings.HasPrefix(words, "HELLO"):
						return hello(c.version, c.mode)
					case words == c.command:
						return "-NOPERM User locks has no permissions to run the '" + strings.ToLower(strings.ReplaceAll(words, " ", "|")) + "' command\r\n"
					}
					return "*0\r\n"
				}}
				shared, err := rueidis.NewClient(f.option(t))
				require.NoError(t, err)
				defer shared.Close()
				for _, config := range []rlock.Config{f.config(t), {Client: shared}} {
					client, err := rlock.New(config)
					if c.mode == "standalone" {
						require.NoError(t, err)
						require.NoError(t, client.Close())
						continue
					}
					require.ErrorIs(t, err, rlock.ErrNoPermission)
					assert.ErrorContains(t, err, "a node of a Cluster")
					assert.Nil(t, client)
				}
			})
		})
	}
}

// Such a Cluster shows no nodes to ask. The answer holds for the life of the client.
func TestAClusterWhoseSlotsAreNotAssignedYetIsAskedForItsPubSub(t *testing.T) {
	for version, answers := range map[string]struct {
		counts  string // PUBSUB SHARDNUMSUB
		family  string // how the release publishes
		sharded error  // of New with PubSubSharded
	}{
		"6.2.16": {"-ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP.\r\n", " c ", rlock.ErrUnsupported},
		"7.0.15": {"*0\r\n", " s ", nil},
	} {
		t.Run(version, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				var assigned atomic.Bool
				f := &fakeServer{reply: func(command string) string {
					switch {
					case strings.HasPrefix(command, "HELLO"):
						return hello(version, "cluster")
					case command == "CLUSTER SLOTS" && assigned.Load():
						return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:6379\r\n"
					case command == "CLUSTER SLOTS":
						return "*0\r\n"
					case strings.HasPrefix(command, "PUBSUB SHARDNUMSUB"):
						return answers.counts
					case strings.Contains(command, testbed.Channel): // a release, which publishes
						return ":1\r\n"
					}
					return "_\r\n" // acquired
				}}
				config := f.config(t)
				config.Advanced.PubSub = rlock.PubSubSharded
				client, err := rlock.New(config)
				if answers.sharded != nil {
					require.ErrorIs(t, err, answers.sharded)
				} else {
					require.NoError(t, err)
					require.NoError(t, client.Close())
				}

				client, err = rlock.New(f.config(t))
				require.NoError(t, err)
				defer client.Close()
				assigned.Store(true)
				lock := client.NewLock(testbed.Key)
				require.NoError(t, lock.Lock(t.Context()))
				require.NoError(t, lock.Unlock(t.Context()))
				sent := fmt.Sprint(f.net.Sent("EVALSHA"))
				assert.Contains(t, sent, "redisson_lock_timeout:{"+testbed.Key+"}"+answers.family)
			})
		})
	}
}

func TestALockOverTLSWhereBothSidesHaveAPrivateCertificate(t *testing.T) {
	server, good := redistest.TLS(t)
	s, others := testbed.At(t, server), redistest.Certificate(t)
	config := func(tls *tls.Config) rlock.Config {
		return rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{s.TLSAddr()}, TLSConfig: tls}, Logger: testbed.Quiet}
	}

	t.Run("works", func(t *testing.T) {
		s := s.In(t)
		secure := func(c *rlock.Config) { c.Redis = config(good).Redis }
		here, there := s.NewClient(secure), s.NewClient(secure)
		s.Wakes(here, there, testbed.Plain)
		lock := here.NewLock(testbed.Key)
		require.NoError(t, lock.Lock(s.Ctx))
		require.NoError(t, s.Outside.Do(s.Ctx, s.Outside.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build()).Error())
		for _, client := range []*rlock.Client{here, there} {
			locked, err := client.NewLock(testbed.Key).IsLocked(s.Ctx)
			require.NoError(t, err, "over a new connection")
			assert.True(t, locked)
		}
		require.NoError(t, lock.Unlock(s.Ctx))
	})

	before := goleak.IgnoreCurrent()
	for what, refused := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"the authority is another":                {&tls.Config{RootCAs: others.RootCAs, Certificates: good.Certificates}, "signed by unknown authority"},
		"the server has another name":             {&tls.Config{RootCAs: good.RootCAs, Certificates: good.Certificates, ServerName: "redis.example"}, "redis.example"},
		"the client has no certificate":           {&tls.Config{RootCAs: good.RootCAs}, "is for TLS and takes the client's certificate"},
		"the client does not know that it is TLS": {nil, "without TLS (else set Config.Redis.TLSConfig)"},
	} {
		t.Run(what, func(t *testing.T) {
			client, err := rlock.New(config(refused.tls))
			require.Error(t, err)
			assert.ErrorContains(t, err, refused.says)
			assert.ErrorContains(t, err, s.TLSAddr())
			assert.Nil(t, client)
		})
	}
	// rueidis leaves a goroutine asleep for a second after a failure.
	assert.Eventually(t, func() bool { return goleak.Find(before, testbed.AFailedHandshake) == nil }, testbed.Hang, time.Millisecond, "a goroutine is left")
}

// A client that is made before Redis can be reached.

func lazy(c *rlock.Config) { c.Lazy = true }

// madeBefore returns a lazy client of a server that cannot be reached until its net heals.
func madeBefore(w *testbed.World, changes ...func(*rlock.Config)) (*testbed.Client, *network.Network) {
	gate := network.New(w.Dial)
	w.T.Cleanup(gate.Close)
	gate.Refuse()
	dial := func() (net.Conn, error) { return gate.Dial(w.Ctx, "", nil, nil) }
	return testbed.NewTestClient(w.T, dial, append(changes, lazy)...), gate
}

func TestALazyClientWaitsForRedisAndSaysSoOnce(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, gate := madeBefore(w)
		lock, me := p.NewLock(testbed.Key), w.Caller()
		waits := testbed.Waits(t, func() error { return lock.Lock(me) })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(waits))
		assert.Equal(t, 1, p.Logged("there is no connection to Redis yet"))
		assert.Equal(t, 0, p.Logged("connected to Redis"))
		assert.EqualValues(t, 1, p.Stats().Waiting)

		gate.Heal()
		testbed.Within(t, 0, 2*time.Second, func() { require.NoError(t, <-waits) })
		assert.Equal(t, 1, p.Logged("connected to Redis"))
		assert.Len(t, w.Fields(testbed.Key), 1)
		other := w.NewClient(lazy) // nothing tells it from another client
		waits = testbed.Waits(t, func() error { return other.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing) })
		testbed.Within(t, 0, 0, func() { // the grant is heard
			require.NoError(t, lock.Unlock(me))
			require.NoError(t, <-waits)
		})
		assert.Zero(t, other.Logged("Redis yet"))
		time.Sleep(time.Minute)
		assert.Empty(t, w.Keys())
	})
}

func TestALazyClientFailsAsInAnOutage(t *testing.T) {
	testbed.Bubble(t, func(t *testing.T, w *testbed.World) {
		p, gate := madeBefore(w)
		lock := p.NewLock(testbed.Key)
		require.ErrorContains(t, testbed.ErrorOf(lock.TryLock(w.Caller())), "cannot connect to [127.0.0.1:6379]")
		testbed.Within(t, time.Second, 2*time.Second, func() {
			_, err := lock.Acquire(w.Ctx, rlock.WithWait(time.Second))
			require.ErrorContains(t, err, "cannot connect to [127.0.0.1:6379]")
		})
		ctx, cancel := context.WithTimeout(w.Caller(), time.Second)
		defer cancel()
		testbed.Within(t, time.Second, time.Second, func() { require.ErrorIs(t, lock.Lock(ctx), context.DeadlineExceeded) })
		for what, ask := range testbed.Questions {
			testbed.Within(t, time.Second, 5*time.Second, func() {
				require.ErrorContains(t, ask(w.Ctx, p.Client, lock), "cannot connect to", what)
			})
			looks := testbed.Waits(t, func() error { return ask(w.Ctx, p.Client, lock) })
			gate.Heal()
			require.NoError(t, <-looks, what)
			require.NoError(t, p.Close())
			p, gate = madeBefore(w)
			lock = p.NewLock(testbed.Key)
		}
	})
}

func TestALazyClientThatHasNeverConnectedCloses(t *testing.T) {
	testbed.EachBubble(t, testbed.Outages, func(t *testing.T, w *testbed.World, rule func(*network.Network)) {
		p, gate := madeBefore(w)
		gate.Heal()
		rule(gate)
		waits := testbed.Waits(t, func() error { return p.NewLock(testbed.Key).Lock(w.Caller()) })
		testbed.Within(t, 0, 6*time.Second, func() { require.NoError(t, p.Close()) })
		require.ErrorIs(t, <-waits, rlock.ErrClosed)
	})
}

// What New checks of the server fails the calls of a lazy client, until the server has changed.
func TestALazyClientTellsTheErrorsOfNew(t *testing.T) {
	for what, c := range map[string]struct {
		config func(*rlock.Config)
		reply  string
		is     error
	}{
		"a password is missing": {func(*rlock.Config) {}, "-NOAUTH HELLO must be called with the client already authenticated\r\n", rlock.ErrNoPermission},
		"sharded pub/sub":       {func(c *rlock.Config) { c.Advanced.PubSub = rlock.PubSubSharded }, "-ERR unknown command 'PUBSUB'\r\n", rlock.ErrUnsupported},
	} {
		t.Run(what, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				var cured atomic.Bool
				f := &fakeServer{reply: func(command string) string {
					switch {
					case strings.HasPrefix(command, "HELLO") && (cured.Load() || c.reply[1] != 'N'):
						return hello("7.0.15", "standalone")
					case strings.HasPrefix(command, "CLUSTER"):
						return noCluster
					case !cured.Load():
						return c.reply
					case strings.HasPrefix(command, "PUBSUB"):
						return "*0\r\n"
					}
					return "$-1\r\n" // the acquire is granted
				}}
				config := f.config(t)
				c.config(&config)
				_, refused := rlock.New(config)
				require.ErrorIs(t, refused, c.is)
				log := &testbed.Journal{}
				config.Lazy, config.Logger = true, slog.New(slog.NewTextHandler(log, nil))
				client, err := rlock.New(config)
				require.NoError(t, err)
				defer client.Close()
				err = client.NewLock(testbed.Key).Lock(t.Context())
				require.ErrorIs(t, err, c.is)
				assert.ErrorContains(t, err, strings.TrimPrefix(refused.Error(), "rlock: "))
				time.Sleep(time.Minute)
				assert.Equal(t, 1, log.Count("Redis cannot be used"))

				cured.Store(true)
				time.Sleep(2 * time.Second)
				require.NoError(t, client.NewLock(testbed.Key).Lock(t.Context()))
			})
		})
	}
}

func TestNewContextTriesUntilRedisCanBeReached(t *testing.T) {
	testbed.EachBubble(t, testbed.Outages, func(t *testing.T, w *testbed.World, fail func(*network.Network)) {
		gate := network.New(w.Dial)
		defer gate.Close()
		fail(gate)
		config := rlock.Config{Logger: testbed.Quiet, Redis: rueidis.ClientOption{
			InitAddress: []string{"127.0.0.1:6379"}, ForceSingleClient: true, DialCtxFn: gate.Dial,
		}}
		ctx, cancel := context.WithTimeout(w.Ctx, time.Minute)
		defer cancel()
		testbed.Within(t, time.Minute, time.Minute, func() {
			client, err := rlock.NewContext(ctx, config)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Nil(t, client)
			require.ErrorContains(t, err, "cannot connect to [127.0.0.1:6379]")
		})
		var client *rlock.Client
		connects := testbed.Start(func() (err error) { client, err = rlock.NewContext(w.Ctx, config); return err })
		time.Sleep(time.Minute)
		require.True(t, testbed.Pending(connects))
		gate.Heal()
		testbed.Within(t, 0, 3*time.Second, func() { require.NoError(t, <-connects) })
		require.NoError(t, client.NewLock(testbed.Key).Do(w.Ctx, testbed.Nothing))
		require.NoError(t, client.Close())
	})
}

// A wrong password is no outage.
func TestNewContextDoesNotWaitForWhatWaitingDoesNotCure(t *testing.T) {
	aside(t, func(t *testing.T) {
		f := &fakeServer{reply: func(string) string { return "-WRONGPASS invalid username-password pair or user is disabled.\r\n" }}
		testbed.Within(t, 0, 0, func() {
			require.ErrorIs(t, testbed.ErrorOf(rlock.NewContext(t.Context(), f.config(t))), rlock.ErrNoPermission)
		})
	})
}

// A fakeServer answers each command with the result of reply, as it goes over the wire. It
// stands for servers that no machine has at hand.
type fakeServer struct {
	reply    func(command string) string // the words of the command, with a space between
	greeting string                      // sent in place of all answers, before the server closes the connection
	net      *network.Network
}

// hello is the answer to HELLO of a server of that version, in that mode.
func hello(version, mode string) string {
	return fmt.Sprintf("%%4\r\n+server\r\n+redis\r\n+version\r\n+%s\r\n+proto\r\n:3\r\n+mode\r\n+%s\r\n", version, mode)
}

// aside runs a test in virtual time, and waits for the goroutine that rueidis leaves asleep
// when a connection to a supposed Cluster has ended.
func aside(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		defer time.Sleep(time.Minute)
		run(t)
	})
}

// option connects to the server over pipes, so that it may be used in a bubble.
func (f *fakeServer) option(t *testing.T) rueidis.ClientOption {
	if f.net == nil {
		server := inmemory.New()
		f.net = network.New(server.Dial)
		f.net.Record()
		f.net.Rule(f.answer)
		t.Cleanup(server.Close)
		t.Cleanup(f.net.Close)
	}
	option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true, DialCtxFn: f.net.Dial}
	if f.greeting != "" {
		option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return closes(f.greeting), nil
		}
	}
	return option
}

func (f *fakeServer) config(t *testing.T) rlock.Config {
	return rlock.Config{Redis: f.option(t), Logger: testbed.Quiet}
}

func (f *fakeServer) answer(frame network.Frame) network.Fate {
	switch {
	case frame.Stage != network.Reply:
		return network.Pass
	case frame.Is("CLIENT") || frame.Is("PING"):
		return network.Replace("+OK\r\n")
	}
	return network.Replace(f.reply(strings.Join(frame.Args, " ")))
}

// closes returns a connection that a server closes after the client's first bytes, with these words.
func closes(words string) net.Conn {
	here, there := net.Pipe()
	go func() {
		_, _ = there.Read(make([]byte, 1<<10))
		_, _ = there.Write([]byte(words))
		_ = there.Close()
	}()
	return here
}

// noCluster is the answer of a single server to a query for slots.
const noCluster = "-ERR This instance has cluster support disabled\r\n"
