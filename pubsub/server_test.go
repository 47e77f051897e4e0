package pubsub_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/pubsub"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newHub returns a hub with a client of its own. Both are closed with the test.
func newHub(t testing.TB, opt rueidis.ClientOption, cfg pubsub.Config) (*pubsub.Hub, rueidis.Client) {
	t.Helper()
	opt.ConnWriteTimeout = 2 * time.Second
	opt.ClusterOption.ShardsRefreshInterval = time.Second
	opt.Sentinel.TopologyRefreshInterval = time.Second
	client, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	cfg.Client = client
	hub := pubsub.New(cfg)
	t.Cleanup(hub.Close)
	return hub, client
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, redistest.Hang, 5*time.Millisecond, what)
}

func do(t testing.TB, client rueidis.Client, command ...string) rueidis.RedisResult {
	t.Helper()
	result := client.Do(context.Background(), client.B().Arbitrary(command...).Build())
	require.NoError(t, result.Error(), command)
	return result
}

// subscribers returns the server's count.
func subscribers(t testing.TB, client rueidis.Client, channel string) int64 {
	t.Helper()
	counts, err := do(t, client, "PUBSUB", "NUMSUB", channel).AsIntMap()
	require.NoError(t, err)
	return counts[channel]
}

func TestTenThousandChannelsShareAConnection(t *testing.T) {
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Linger: time.Nanosecond})
	subs := make([]*waiter, 10_000)
	for i := range subs {
		subs[i] = wait(hub, fmt.Sprint("c", i))
	}
	for round := range 2 {
		for i, s := range subs {
			awaitWake(t, s)
			name := fmt.Sprint("c", i)
			eventually(t, fmt.Sprintf("%s is confirmed in round %d", name, round), func() bool { return hub.Confirmed(name) })
		}
		if round == 0 {
			do(t, outside, "CLIENT", "KILL", "TYPE", "pubsub")
		}
	}
	killed, err := do(t, outside, "CLIENT", "KILL", "TYPE", "pubsub").AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, 1, killed, "connections")
	for _, s := range subs {
		s.Close()
	}
	eventually(t, "nothing stays subscribed", func() bool {
		left, err := do(t, outside, "PUBSUB", "CHANNELS").AsStrSlice()
		return err == nil && len(left) == 0
	})
}

func TestAUserSubscribesWhatItsACLPermits(t *testing.T) {
	redis := redistest.Standalone(t)
	outside := redis.Client(t)
	do(t, outside, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "resetchannels", "&open:*")
	opt := redis.Options()
	opt.Username, opt.Password = "limited", "secret"
	hub, _ := newHub(t, opt, pubsub.Config{Linger: time.Nanosecond})

	var open []*waiter
	for i := range 50 {
		open = append(open, wait(hub, fmt.Sprint("open:", i)))
	}
	closed := woken(t, hub, "closed")
	require.ErrorContains(t, closed.Refused(), "NOPERM")
	assert.False(t, hub.Confirmed("closed"))
	for i, s := range open {
		awaitWake(t, s)
		require.NoError(t, s.Refused())
		require.True(t, hub.Confirmed(fmt.Sprint("open:", i)))
	}

	// The server ends the connection of a user that lost a channel.
	do(t, outside, "ACL", "SETUSER", "limited", "resetchannels", "&open:1")
	awaitWake(t, open[1], open[2])
	require.NoError(t, open[1].Refused())
	require.ErrorContains(t, open[2].Refused(), "NOPERM")

	// After the grant a subscription that comes after the linger asks again.
	do(t, outside, "ACL", "SETUSER", "limited", "&closed")
	closed.Close()
	eventually(t, "the channel is granted", func() bool {
		s := wait(hub, "closed")
		defer s.Close()
		awaitWake(t, s)
		return s.Refused() == nil
	})
}

func TestMain(m *testing.M) { redistest.Main(m) }

// world is a hub with an embedded server behind a network that can fail, all in virtual time.
type world struct {
	*miniredis.Miniredis
	client rueidis.Client
	hub    *pubsub.Hub
	net    *network.Network
	open   atomic.Int64 // connections that the client has not closed
	dialed atomic.Int64 // connections that were opened
	full   atomic.Bool  // the server ends each new connection

	mu       sync.Mutex                                 // guards the fields below
	commands []string                                   // all commands that the server received
	reply    func(command string, args []string) string // see answer
}

// counted is a connection that decrements the count of open ones when it closes.
type counted struct {
	net.Conn
	closed func()
}

func (c counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

func bubble(t *testing.T, cfg pubsub.Config, run func(t *testing.T, w *world)) {
	redistest.WithoutServer(t)
	redistest.Virtual(t, func(t *testing.T) {
		w := &world{Miniredis: miniredis.NewMiniRedis()}
		w.ClockTTL(true)
		t.Cleanup(w.Miniredis.Close)
		w.net = network.New(w.Dial)
		t.Cleanup(w.net.Close)
		var err error
		w.client, err = rueidis.NewClient(w.options())
		require.NoError(t, err)
		t.Cleanup(w.client.Close)
		w.Server().SetPreHook(w.intercept)
		cfg.Client = w.client
		w.hub = pubsub.New(cfg)
		t.Cleanup(func() {
			w.hub.Close()
			w.mu.Lock()
			defer w.mu.Unlock()
			assert.NotContains(t, strings.Join(w.commands, "\n"), "UNSUBSCRIBE", "rueidis might end the process")
		})
		run(t, w)
	})
}

func (w *world) options() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{"127.0.0.1:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		AlwaysPipelining:  true,
		PipelineMultiplex: -1,
		ConnWriteTimeout:  2 * time.Second,
		Dialer:            net.Dialer{KeepAlive: time.Second},
		DialCtxFn:         w.dial,
	}
}

func (w *world) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	c, err := w.net.Dial(ctx, addr, dialer, config)
	if err != nil {
		return nil, err
	}
	if w.full.Load() {
		_ = c.Close()
		here, there := net.Pipe()
		go func() {
			_, _ = there.Read(make([]byte, 1<<10))
			_ = there.Close()
		}()
		c = here
	}
	w.open.Add(1)
	w.dialed.Add(1)
	return counted{c, sync.OnceFunc(func() { w.open.Add(-1) })}, nil
}

func (w *world) intercept(p *server.Peer, command string, args ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, strings.Join(append([]string{command}, args...), " "))
	if w.reply != nil {
		if text := w.reply(command, args); text != "" {
			p.WriteError(text)
			return true
		}
	}
	return false
}

// answer makes the server answer a command with the error that reply returns, if any.
func (w *world) answer(reply func(command string, args []string) string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reply = reply
}

// refuse makes the server answer a command with the error, every command if the name is "".
func (w *world) refuse(name, text string) {
	w.answer(func(command string, _ []string) string {
		if name == "" || command == name {
			return text
		}
		return ""
	})
}

// sent returns the commands of that name that the server received.
func (w *world) sent(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.commands), func(c string) bool {
		return !strings.HasPrefix(c, name+" ")
	})
}

func (w *world) subscribers(channel string) int {
	return w.PubSubNumSub(channel)[channel]
}

// A waiter listens to a channel, and is woken by each message as well.
type waiter struct {
	*pubsub.Subscription
	heard chan struct{}
}

// wait returns a waiter. It is woken at once if there is nothing to wait for.
func wait(hub *pubsub.Hub, channel string) *waiter {
	w := &waiter{heard: make(chan struct{}, 1)}
	wake := func(string) {
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
	w.Subscription = hub.Listen(channel, wake)
	if w.Confirmed() || w.Refused() != nil {
		wake("")
	}
	return w
}

// A wakeable is a waiter or a subscription.
type wakeable interface{ C() <-chan struct{} }

// wakes returns where s is woken; heard is nil for one that is not woken by messages.
func wakes(s wakeable) (confirmed, heard <-chan struct{}) {
	if w, ok := s.(*waiter); ok {
		heard = w.heard
	}
	return s.C(), heard
}

// awaitWake fails the test if one of them is not woken. The limit ends a hang only. Several wakes
// may be one.
func awaitWake(t testing.TB, all ...wakeable) {
	t.Helper()
	timer := time.NewTimer(redistest.Hang)
	defer timer.Stop()
	for _, s := range all {
		confirmed, heard := wakes(s)
		select {
		case <-confirmed:
		case <-heard:
		case <-timer.C:
			require.FailNow(t, "no wake")
		}
		drain(s)
	}
}

// woken returns a waiter that was woken by the confirmation.
func woken(t testing.TB, hub *pubsub.Hub, channel string) *waiter {
	t.Helper()
	s := wait(hub, channel)
	awaitWake(t, s)
	return s
}

// isWoken takes the wake, if there is one once all goroutines of the bubble wait.
func isWoken(s wakeable) bool {
	synctest.Wait()
	return drain(s)
}

// drain takes the wake if there is one.
func drain(s wakeable) (woken bool) {
	confirmed, heard := wakes(s)
	for {
		select {
		case <-confirmed:
		case <-heard:
		default:
			return woken
		}
		woken = true
	}
}

// channelNames spread over all nodes.
func channelNames() []string {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	return names
}

// shardSubscribers asks the primary of the channel's slot.
func shardSubscribers(client rueidis.Client, channel string) int64 {
	ask := rueidis.NewLuaScript("return redis.call('pubsub', 'shardnumsub', KEYS[1])[2]")
	count, err := ask.Exec(context.Background(), client, []string{channel}, nil).AsInt64()
	if err != nil {
		return -1
	}
	return count
}

func TestAClusterIsFollowedWhereItsSlotsGo(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, client := newHub(t, redis.Options(), pubsub.Config{Sharded: true})
	names := channelNames()

	// The hub asks any node, and so may ask a replica, which accepts subscriptions that its primary
	// does not count. A cluster shows its replicas only after a first write.
	for _, name := range names {
		require.NoError(t, outside.Do(t.Context(), outside.B().Set().Key(name).Value("").Build()).Error())
	}
	eventually(t, "the client knows the replicas", func() bool { return len(client.Nodes()) == 6 })

	subs := make([]*waiter, len(names))
	for i, name := range names {
		subs[i] = wait(hub, name)
	}
	moving := names[7]
	for _, change := range []struct {
		name string
		make func()
	}{
		{"at first", func() {}},
		{"a slot moves", func() { redis.MoveSlot(moving) }},
		{"and back", func() { redis.MoveSlot(moving) }},
		{"a replica takes over", func() { redis.Failover(moving) }},
		{"a primary dies", func() { redis.TakeForDead(2 * time.Second); redis.Primary(moving).Stop() }},
	} {
		t.Run(change.name, func(t *testing.T) {
			change.make()
			awaitWake(t, subs[7])
			for i, name := range names {
				eventually(t, name+" is confirmed and counted", func() bool {
					return hub.Confirmed(name) && shardSubscribers(outside, name) == 1
				})
				drain(subs[i])
				publish := outside.B().Spublish().Channel(name).Message("0").Build()
				require.NoError(t, outside.Do(t.Context(), publish).Error())
				awaitWake(t, subs[i])
			}
		})
	}
	hub.Close()
	for _, name := range names {
		eventually(t, "nothing stays subscribed", func() bool { return shardSubscribers(outside, name) == 0 })
	}
}

// While a slot moves, two nodes may each name the other as its owner.
func TestAChannelIsNotSentBackAndForthWithoutPause(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t)
	one, other := redis.Primary("c0").Client(t), redis.Primary("c1").Client(t)
	slot, oneID, otherID := do(t, one, "CLUSTER", "KEYSLOT", "c0"), text(t, one, "CLUSTER", "MYID"), text(t, other, "CLUSTER", "MYID")
	require.NotEqual(t, oneID, otherID)
	number, err := slot.AsInt64()
	require.NoError(t, err)
	assign := func(node rueidis.Client, owner string) {
		do(t, node, "CLUSTER", "SETSLOT", fmt.Sprint(number), "NODE", owner)
	}
	assign(one, otherID)
	assign(other, oneID)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true, Linger: time.Second})
	begin := time.Now()
	s := wait(hub, "c0")

	// Twenty rejections are more than one chase; the limit is one chase a tick.
	eventually(t, "the channel is asked for again and again", func() bool { return rejections(t, one, other) >= 20 })
	seen := rejections(t, one, other)
	ticks := int(time.Since(begin)/(250*time.Millisecond)) + 2 // at least as many: time goes on
	assert.LessOrEqual(t, seen, 7*ticks)

	assign(one, oneID)
	awaitWake(t, s)
	require.NoError(t, s.Refused())

	// Subscriptions that end meanwhile leave no further retries.
	assign(one, otherID)
	seen = rejections(t, one, other)
	again := wait(hub, "{c0}:again")
	eventually(t, "it is asked for", func() bool { return rejections(t, one, other) > seen })
	s.Close()
	again.Close()
	eventually(t, "the hub is at rest", func() bool { return hub.Links() == 0 })
}

// rejections counts the SSUBSCRIBE that the nodes have answered with MOVED.
func rejections(t testing.TB, nodes ...rueidis.Client) (sum int) {
	t.Helper()
	for _, node := range nodes {
		for line := range strings.Lines(text(t, node, "INFO", "commandstats")) {
			_, count, found := strings.Cut(line, "rejected_calls=")
			if found && strings.HasPrefix(line, "cmdstat_ssubscribe:") {
				count, _, _ = strings.Cut(count, ",")
				n, err := strconv.Atoi(count)
				require.NoError(t, err)
				sum += n
			}
		}
	}
	return sum
}

func text(t testing.TB, node rueidis.Client, command ...string) string {
	t.Helper()
	reply, err := do(t, node, command...).ToString()
	require.NoError(t, err)
	return reply
}

// A node that is configured not to announce its host says MOVED 42 :6379.
func TestAClusterWhoseNodesGiveNoHost(t *testing.T) {
	t.Parallel()              // it mostly waits
	redistest.NeedMajor(t, 7) // sharded pub/sub
	redis := redistest.Cluster(t, "--cluster-preferred-endpoint-type", "unknown-endpoint")
	hub, _ := newHub(t, redis.Options(), pubsub.Config{Sharded: true})
	for _, name := range channelNames() {
		woken(t, hub, name)
		eventually(t, name+" is counted", func() bool { return hub.Confirmed(name) })
	}
}

func TestAClusterWithoutShardedChannels(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Cluster(t)
	outside := redis.Client(t)
	hub, _ := newHub(t, redis.Options(), pubsub.Config{})
	for _, name := range channelNames() {
		s := woken(t, hub, name)
		require.NoError(t, s.Refused())
		do(t, outside, "PUBLISH", name, "0")
		awaitWake(t, s)
		assert.False(t, hub.Confirmed(name), "a node counts its own subscribers only")
	}
}

func TestSentinelIsFollowedToTheNewPrimary(t *testing.T) {
	t.Parallel() // it mostly waits
	redis := redistest.Sentinel(t)
	hub, client := newHub(t, redis.Options(), pubsub.Config{})
	s := woken(t, hub, "a")
	again := func(t *testing.T) {
		t.Helper()
		awaitWake(t, s)
		eventually(t, "the new primary counts it", func() bool {
			return hub.Confirmed("a") && subscribers(t, client, "a") == 1
		})
		do(t, client, "PUBLISH", "a", "0")
		awaitWake(t, s)
	}
	t.Run("when a failover is planned", func(t *testing.T) {
		// Sentinel turns the old primary into a replica after some 10 s, and only then ends its
		// connections. Here it cannot, until the hub has followed without that.
		old := redis.Primary("a").Client(t)
		do(t, old, "ACL", "SETUSER", "default", "-slaveof", "-replicaof")
		redis.Failover("a")
		again(t)
		do(t, old, "ACL", "SETUSER", "default", "+slaveof", "+replicaof")
	})
	t.Run("when the primary dies", func(t *testing.T) {
		redis.TakeForDead(time.Second)
		redis.Primary("a").Stop()
		again(t)
	})
}
