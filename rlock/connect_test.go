package rlock_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// A fakeServer answers each command with the result of reply, as it goes over the wire. It
// stands for servers that no machine has at hand.
type fakeServer struct {
	reply    func(command string) string // the words of the command, with a space between
	greeting string                      // sent in place of all answers, before the server closes the connection

	mu       sync.Mutex // protects commands
	commands []string
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
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute)
		run(t)
	})
}

// option connects to the server over pipes, so that it may be used in a bubble.
func (f *fakeServer) option() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:  []string{"127.0.0.1:6379"},
		DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			here, there := net.Pipe()
			go f.serve(there)
			return here, nil
		},
	}
}

func (f *fakeServer) config() rlock.Config { return rlock.Config{Redis: f.option(), Logger: quiet} }

func (f *fakeServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	if f.greeting != "" {
		_, _ = in.Peek(1) // the writer of a pipe waits until it is read
		_, _ = io.WriteString(conn, f.greeting)
		return
	}
	answers := make(chan string, 1000) // a client may write before it reads
	defer close(answers)
	go func() {
		for answer := range answers {
			_, _ = io.WriteString(conn, answer)
		}
	}()
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		command := strings.Join(words, " ")
		f.mu.Lock()
		f.commands = append(f.commands, command)
		f.mu.Unlock()
		if strings.HasPrefix(command, "CLIENT ") || command == "PING" {
			answers <- "+OK\r\n"
		} else {
			answers <- f.reply(command)
		}
	}
}

// readCommand reads an array of strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, e := in.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range number() {
		text := make([]byte, number()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(in, text)
		}
		words = append(words, strings.TrimSpace(string(text)))
	}
	return words, err
}

// said reports whether a command with these words has arrived.
func (f *fakeServer) said(words string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.commands, func(c string) bool { return strings.Contains(c, words) })
}

// all returns the commands so far.
func (f *fakeServer) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.commands)
}

// noCluster is the answer of a single server to a query for slots.
const noCluster = "-ERR This instance has cluster support disabled\r\n"

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
	setPassword(server.Primary(key).Addr(), "server")
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

func TestAnAddressThatIsAURLIsRefusedWithTheFunctionThatReadsIt(t *testing.T) {
	for _, address := range []string{"redis://127.0.0.1:6379", "rediss://127.0.0.1:6379/0"} {
		_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{address}}})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		assert.ErrorContains(t, err, "rueidis.ParseURL")
	}
}

func TestAnAddressWithoutAPortIsRefused(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "redis.example", "", "::1"} {
		_, err := rlock.New(rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{address}}})
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		assert.ErrorContains(t, err, "host:port")
	}
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
		_, err = loadsFor(time.Hour)
		require.ErrorContains(t, err, "LOADING")
		assert.LessOrEqual(t, time.Since(begin), 2*time.Second, "the default of Config.Redis.Dialer.Timeout")
		assert.Greater(t, time.Since(begin), time.Second)
	})
}

// rueidis takes such a node for a single server, and would fail for most names.
func TestNewRefusesAUserThatMayNotAskForTheSlotsOfACluster(t *testing.T) {
	for version, command := range map[string]string{"7.0.15": "CLUSTER SLOTS", "8.2.3": "CLUSTER SHARDS"} {
		t.Run(version, func(t *testing.T) {
			aside(t, func(t *testing.T) {
				f := &fakeServer{reply: func(words string) string {
					switch {
					case strings.HasPrefix(words, "HELLO"):
						return hello(version, "cluster")
					case words == command:
						return "-NOPERM User locks has no permissions to run the '" + strings.ToLower(strings.ReplaceAll(words, " ", "|")) + "' command\r\n"
					}
					return "*0\r\n"
				}}
				client, err := rlock.New(f.config())
				require.ErrorIs(t, err, rlock.ErrNoPermission)
				assert.ErrorContains(t, err, "a node of a Cluster")
				assert.Nil(t, client)

				shared, err := rueidis.NewClient(f.option())
				require.NoError(t, err)
				defer shared.Close()
				_, err = rlock.New(rlock.Config{Client: shared})
				require.ErrorIs(t, err, rlock.ErrNoPermission)
			})
		})
	}
}

// A user of a single server needs no right to ask for slots.
func TestAUserThatMayNotAskForSlotsConnectsToASingleServer(t *testing.T) {
	aside(t, func(t *testing.T) {
		f := &fakeServer{reply: func(command string) string {
			if strings.HasPrefix(command, "HELLO") {
				return hello("7.0.15", "standalone")
			}
			return "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"
		}}
		client, err := rlock.New(f.config())
		require.NoError(t, err)
		require.NoError(t, client.Close())
	})
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
					case strings.Contains(command, channel): // a release, which publishes
						return ":1\r\n"
					}
					return "_\r\n" // acquired
				}}
				config := f.config()
				config.PubSub = rlock.PubSubSharded
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
				lock := client.NewLock(key)
				require.NoError(t, lock.Lock(t.Context()))
				require.NoError(t, lock.Unlock(t.Context()))
				assert.True(t, f.said("redisson_lock_timeout:{"+key+"}"+answers.family), "%s", f.all())
			})
		})
	}
}

// The same with the words of a real server.
func TestAUserOfAClusterWithOneAddressNeedsTheRightToAskForItsNodes(t *testing.T) {
	t.Parallel()
	s := at(t, calm(redistest.Cluster(t)))
	config := s.limited("~*", "&*", "+@all", "-cluster")
	config.Redis.InitAddress = config.Redis.InitAddress[:1]
	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission)
}

func TestALockOverTLSWhereBothSidesHaveACertificateOfAPrivateAuthority(t *testing.T) {
	ours, others := redistest.NewAuthority(t), redistest.NewAuthority(t)
	s := at(t, redistest.TLS(t, ours))
	config := func(tls *tls.Config) rlock.Config {
		return rlock.Config{Redis: rueidis.ClientOption{InitAddress: []string{s.TLSAddr()}, TLSConfig: tls}, Logger: quiet}
	}
	good := &tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{ours.Issue(t)}}

	t.Run("works", func(t *testing.T) {
		s := s.in(t)
		secure := func(c *rlock.Config) { c.Redis = config(good).Redis }
		here, there := s.client(secure), s.client(secure)
		s.wakes(here, there, plain)
		lock := here.NewLock(key)
		require.NoError(t, lock.Lock(s.ctx))
		require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build()).Error())
		for _, client := range []*rlock.Client{here, there} {
			locked, err := client.NewLock(key).IsLocked(s.ctx)
			require.NoError(t, err, "over a new connection")
			assert.True(t, locked)
		}
		require.NoError(t, lock.Unlock(s.ctx))
	})

	before := goleak.IgnoreCurrent()
	for what, refused := range map[string]struct {
		tls  *tls.Config
		says string
	}{
		"the authority is another":                {&tls.Config{RootCAs: others.Pool(), Certificates: good.Certificates}, "signed by unknown authority"},
		"the authority is not known":              {&tls.Config{Certificates: good.Certificates}, "signed by unknown authority"},
		"the server has another name":             {&tls.Config{RootCAs: ours.Pool(), Certificates: good.Certificates, ServerName: "redis.example"}, "redis.example"},
		"the client has no certificate":           {&tls.Config{RootCAs: ours.Pool()}, "takes the client's certificate"},
		"the client's is of another authority":    {&tls.Config{RootCAs: ours.Pool(), Certificates: []tls.Certificate{others.Issue(t)}}, "takes the client's certificate"},
		"the client does not know that it is TLS": {nil, s.TLSAddr()},
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
	assert.Eventually(t, func() bool { return goleak.Find(before, aFailedHandshake) == nil }, hang, time.Millisecond, "a goroutine is left")
}

// A rotation is a user of the server whose password changes, and what clients take it for.
type rotation struct {
	*site
	password atomic.Pointer[string]
	asked    atomic.Int64
}

func rotates(t *testing.T) *rotation {
	r := &rotation{site: at(t, redistest.Standalone(t))}
	r.admin("ACL", "SETUSER", "locks", "on", "~*", "&*", "+@all")
	r.change("first")
	return r
}

// change replaces the password of the server and that of the clients. No connection is closed.
func (r *rotation) change(password string) {
	r.add(password)
	r.drop(password)
}

// add gives the user one more password, which the clients use from now on.
func (r *rotation) add(password string) {
	r.admin("ACL", "SETUSER", "locks", ">"+password)
	r.password.Store(&password)
}

// drop takes the other passwords from the user.
func (r *rotation) drop(password string) {
	r.admin("ACL", "SETUSER", "locks", "resetpass", ">"+password)
}

// cut ends all connections of the user.
func (r *rotation) cut() {
	r.t.Helper()
	killed, err := r.outside.Do(r.ctx, r.outside.B().Arbitrary("CLIENT", "KILL", "USER", "locks").Build()).AsInt64()
	require.NoError(r.t, err)
	require.Positive(r.t, killed)
}

func (r *rotation) asks(refresh time.Duration) func(*rlock.Config) {
	return func(c *rlock.Config) {
		c.Lease = 3 * time.Second // Close waits as long for an acquire that was cut off
		c.Redis.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (a rueidis.AuthCredentials, _ error) {
			r.asked.Add(1)
			a.Username, a.Password = "locks", *r.password.Load()
			if refresh > 0 {
				a.RefreshAfter = time.Now().Add(refresh)
			}
			return a, nil
		}
	}
}

// In handOver one client waits for the other.
func (r *rotation) handOver(a, b *rlock.Client) {
	r.t.Helper()
	hold, err := a.NewLock(key).Acquire(r.ctx)
	require.NoError(r.t, err)
	waits := background(func() error {
		hold, err := b.NewLock(key).Acquire(r.ctx)
		if err == nil {
			err = hold.Release(r.ctx)
		}
		return err
	})
	r.awaitWaiters(1, key)
	r.awaitListeners(1, plain, "rlock_turn:{"+key+"}:"+b.ID())
	require.NoError(r.t, hold.Release(r.ctx))
	require.NoError(r.t, r.await(waits))
}

func TestLocksAndSubscriptionsOutliveTheirPassword(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.client(r.asks(0)), r.client(r.asks(0))
	r.handOver(a, b)
	before := r.asked.Load()
	hold, err := a.NewLock("other").Acquire(r.ctx)
	require.NoError(t, err)
	r.change("second")
	r.handOver(a, b)
	assert.Equal(t, before, r.asked.Load(), "over the same connections")

	r.cut() // with the new password they come back
	r.handOver(a, b)
	r.handOver(b, a)
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.ctx))
}

// A refresh is asked for by each connection of commands. Those of subscriptions are dedicated,
// and rueidis 1.0.79 does not refresh these.
func TestCredentialsThatAreRefreshedDisturbNoLock(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	a, b := r.client(r.asks(100*time.Millisecond)), r.client(r.asks(100*time.Millisecond))
	hold, err := a.NewLock("other").Acquire(r.ctx)
	require.NoError(t, err)
	for _, password := range []string{"second", "third", "fourth"} {
		r.add(password)
		before := r.asked.Load()
		require.Eventually(t, func() bool { return r.asked.Load() > before+10 }, hang, time.Millisecond)
		r.drop(password)
		r.handOver(a, b)
	}
	require.NoError(t, context.Cause(hold.Context()))
	require.NoError(t, hold.Release(r.ctx))
}

func TestAPasswordThatIsNotTheServersAnyMoreIsReported(t *testing.T) {
	t.Parallel()
	r := rotates(t)
	old := func(c *rlock.Config) {
		c.Lease, c.Redis.Username, c.Redis.Password = 3*time.Second, "locks", "first"
	}
	a, b := r.client(old), r.client(old)
	r.handOver(a, b)
	r.change("second")
	r.handOver(a, b)

	r.cut()
	var err error
	require.Eventually(t, func() bool { // the connection may be found closed
		_, err = a.NewLock(key).TryLock(r.ctx)
		return err != nil
	}, hang, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err = a.NewLock(key).TryLock(r.ctx)
		require.Error(t, err)
		return errors.Is(err, rlock.ErrNoPermission)
	}, hang, time.Millisecond)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "first")

	r.change("first")
	r.handOver(a, b)
}

// No log and no error shows the user name.

const user, password = "accounting", "hunter2"

func TestNeitherLogsNorErrorsNameTheUserOrThePassword(t *testing.T) {
	t.Parallel()
	s := at(t, redistest.Standalone(t))
	log := &journal{}
	var errs []error
	permit := func(rules ...string) {
		command := append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + password, "~*", "&*", "+@all"}, rules...)
		require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary(command...).Build()).Error())
	}
	config := rlock.Config{Redis: s.Options(), Lease: time.Second, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	config.Redis.Username, config.Redis.Password = user, password

	_, err := rlock.New(config)
	require.ErrorIs(t, err, rlock.ErrNoPermission, "the user does not exist")
	errs = append(errs, err)
	for _, rule := range []string{"-evalsha", "-hset", "-hget", "-publish", "-subscribe", "resetkeys", "resetchannels"} {
		permit(rule)
		for _, err := range s.rehearse(key, config) {
			errs = append(errs, err)
		}
	}

	permit()
	client, err := rlock.New(config)
	require.NoError(t, err)
	defer client.Close()
	hold, err := client.NewLock(key).Acquire(s.ctx)
	require.NoError(t, err)
	require.NoError(t, s.outside.Do(s.ctx, s.outside.B().Arbitrary("ACL", "DELUSER", user).Build()).Error()) // deletes the user's connections, too
	<-hold.Context().Done()
	errs = append(errs, context.Cause(hold.Context()), hold.Release(s.ctx))
	_, err = client.NewLock(key).TryLock(s.ctx)
	require.Error(t, err)
	errs = append(errs, err)
	s.Stop()
	_, err = client.NewLock(key).TryLock(s.ctx)
	require.Error(t, err)
	_, again := rlock.New(config)
	require.Error(t, again)
	errs = append(errs, err, again)
	s.Start()

	for _, credentials := range []string{user + ":" + password + "@127.0.0.1:6379", "redis://" + user + ":" + password + "@127.0.0.1:6379"} {
		config := rlock.Config{Logger: config.Logger}
		config.Redis.InitAddress = []string{credentials}
		_, err := rlock.New(config)
		require.ErrorIs(t, err, rlock.ErrInvalidConfig)
		errs = append(errs, err)
	}

	assert.Greater(t, len(errs), 20)
	for _, err := range errs {
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		assert.NotContains(t, text, user)
		assert.NotContains(t, text, password)
	}
	assert.NotZero(t, log.count(""))
	assert.Zero(t, log.count(user))
	assert.Zero(t, log.count(password))
}

// Redis names the user since 7.2.
func TestARefusalIsReportedWithoutTheNameOfTheUser(t *testing.T) {
	for what, words := range map[string]string{
		"a command":             "NOPERM User accounting has no permissions to run the 'evalsha' command",
		"a command in a script": "ERR ACL failure in script: User accounting has no permissions to run the 'hset' command script: 4413ba47, on @user_script:17.",
		"a key":                 "NOPERM User accounting has no permissions to access the 'orders:42' key",
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				p := w.client()
				w.answerScripts(words)
				err := p.NewLock(key).Lock(w.caller())
				require.ErrorIs(t, err, rlock.ErrNoPermission)
				assert.ErrorContains(t, err, "the user has no permissions")
				assert.NotContains(t, err.Error(), user)
			})
		})
	}
	t.Run("a channel", func(t *testing.T) {
		bubble(t, func(t *testing.T, w *world) {
			p, other, me := w.client(), w.client(), w.caller()
			w.answer(func(command string, _ ...string) string {
				if command == "subscribe" {
					return "NOPERM User accounting has no permissions to access the '" + channel + "' channel"
				}
				return ""
			})
			hold, err := other.NewLock(key).Acquire(me)
			require.NoError(t, err)
			waiter := start(func() error { return p.NewLock(key).Do(me, func(context.Context) error { return nil }) })
			require.True(t, pending(waiter))
			require.NoError(t, hold.Release(me))
			require.NoError(t, <-waiter)
			assert.Equal(t, 2, p.logged("the user has no permissions"), "one for waiters' subscriptions, and one for the client's own channel")
			assert.Equal(t, 1, p.logged("level=WARN"))
			assert.Zero(t, p.logged(user))
		})
	})
}

// A name is an argument of a script, and never a part of one: there are three scripts for all
// names.
func TestAllNamesShareThreeScripts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client()
		hostile := []string{
			"\"]] redis.call('flushall') --[[", "' .. redis.call('flushall') .. '", "') return redis.call('flushall') --",
			"KEYS[1]", "%s%n%d", "$(reboot)", "a\r\n*1\r\n$8\r\nFLUSHALL\r\n", "a\x00b", "{a}", "}{", `\`, "*", "\"", strings.Repeat("]", 1000),
		}
		require.NoError(t, w.Set("untouched", "1"))
		for _, name := range hostile {
			lock, one, two := p.NewLock(name), w.caller(), w.caller()
			require.NoError(t, lock.Lock(one))
			require.NoError(t, lock.Lock(one))
			waiter := start(func() error { return lock.Lock(two) })
			require.True(t, pending(waiter))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, lock.Unlock(one))
			require.NoError(t, <-waiter)
			assert.True(t, w.Exists(name))
			require.NoError(t, lock.Unlock(two))
		}
		assert.True(t, w.Exists("untouched"))
		scripts := make(map[string]bool)
		for _, f := range p.net.Sent("EVALSHA") {
			scripts[f.Args[1]] = true
			assert.Contains(t, hostile, f.Args[3])
		}
		assert.Len(t, scripts, 3)
		scripts = make(map[string]bool)
		for _, f := range p.net.Sent("EVAL") {
			scripts[f.Args[1]] = true
		}
		assert.Len(t, scripts, 3)
	})
}
