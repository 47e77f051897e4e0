package servers_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

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
				config := c.server.config()
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
			config := f.config()
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
	loadsFor := func(d time.Duration) (*rlock.Client, error) {
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
		return rlock.New(f.config())
	}
	aside(t, func(t *testing.T) {
		client, err := loadsFor(1500 * time.Millisecond)
		require.NoError(t, err)
		require.NoError(t, client.Close())

		begin := time.Now()
		require.ErrorContains(t, testbed.ErrorOf(loadsFor(time.Hour)), "LOADING")
		assert.LessOrEqual(t, time.Since(begin), 2*time.Second, "the default of Config.Redis.Dialer.Timeout")
		assert.Greater(t, time.Since(begin), time.Second)
	})
}

// rueidis takes a node of a Cluster that does not say where the others are for a single server, and would fail for most
// names. A user of a single server needs no right to ask for slots.
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
				shared, err := rueidis.NewClient(f.option())
				require.NoError(t, err)
				defer shared.Close()
				for _, config := range []rlock.Config{f.config(), {Client: shared}} {
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
				config := f.config()
				config.Advanced.PubSub = rlock.PubSubSharded
				client, err := rlock.New(config)
				if answers.sharded != nil {
					require.ErrorIs(t, err, answers.sharded)
				} else {
					require.NoError(t, err)
					require.NoError(t, client.Close())
				}

				client, err = rlock.New(f.config())
				require.NoError(t, err)
				defer client.Close()
				assigned.Store(true)
				lock := client.NewLock(testbed.Key)
				require.NoError(t, lock.Lock(t.Context()))
				require.NoError(t, lock.Unlock(t.Context()))
				assert.True(t, f.said("redisson_lock_timeout:{"+testbed.Key+"}"+answers.family), "%s", f.all())
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
		"the authority is not known":              {&tls.Config{Certificates: good.Certificates}, "signed by unknown authority"},
		"the server has another name":             {&tls.Config{RootCAs: good.RootCAs, Certificates: good.Certificates, ServerName: "redis.example"}, "redis.example"},
		"the client has no certificate":           {&tls.Config{RootCAs: good.RootCAs}, "is for TLS and takes the client's certificate"},
		"the client's is of another authority":    {&tls.Config{RootCAs: good.RootCAs, Certificates: others.Certificates}, "takes the client's certificate"},
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
