package wire

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Options configure the connection, and the arguments of all scripts.
type Options struct {
	Redis         rueidis.ClientOption // the options of rueidis, with the defaults of package rlock
	Client        rueidis.Client       // the client to share, or nil
	PubSub        PubSub
	SyncReplicas  int
	RedissonPolls RedissonPolls
	NoClientName  bool
	Tracking      bool          // track keys if the server allows it
	Lease         time.Duration // the lease for which most commands ask
	// NoClientChannel is set if clients have no channels of their own: then they are not notified
	// of releases by force.
	NoClientChannel bool
}

// A Redis is the link of a client to its server or Cluster: connections, their state, and the
// limits of commands in flight. Its methods may be called concurrently.
type Redis struct {
	Client  rueidis.Client
	Sharded bool // pub/sub is sharded
	Nodes   *Nodes
	// Patience is the time after which the outcome of a command counts as unknown.
	Patience time.Duration

	options     Options
	prefix      string // the beginning of the UUIDs of this client's tenures
	leaseText   string // Options.Lease in milliseconds
	cluster     bool   // the server is a Cluster
	conns       *connections
	opening     *opening // the attempts of a lazy client to connect; nil for any other client
	direct      *direct  // the direct connection of lone callers; nil if there may be none
	clientLists *clientLists
	family      string // the family of pub/sub, as the scripts read it: see queue.lua
	deadline    deadline
	sent        sent
	tracking    tracking
	foreign     foreign
	redials     redials
	outage      outages

	// ctx ends when the client closes: then background work and waits for slots end.
	ctx    context.Context
	cancel context.CancelFunc
	// background has the goroutines of commands whose caller may leave, and of the commands that
	// undo them.
	background background
}

// sent is the number of commands, in cache lines that nothing else uses.
type sent struct {
	_ [64]byte
	n atomic.Int64
	_ [64]byte
}

// Open connects by the options, and names the connections after the client with that id. It fails
// like rlock.New, and leaves nothing running then.
func Open(o Options, id string) (*Redis, error) {
	r := newRedis(o, id)
	if err := r.openClient(r.options); err != nil {
		r.cancel()
		return nil, fmt.Errorf("rlock: %w", err)
	}
	r.Nodes = newNodes(r)
	r.Nodes.Refresh(time.Now(), false)
	return r, nil
}

// newRedis returns a Redis without the fields that depend on the server.
func newRedis(o Options, id string) *Redis {
	r := &Redis{options: o, prefix: id, leaseText: strconv.FormatInt(o.Lease.Milliseconds(), 10), conns: new(connections), clientLists: &clientLists{lock: Limit{slots: make(chan struct{}, 1)}, byNode: make(map[uint32]*Processes)}, Patience: patienceOf(o.Redis)}
	r.deadline.patience = r.Patience
	r.conns.onReplicated = r.CheckReplicated
	if r.tracking.on = o.tracks(); r.tracking.on {
		r.options.Redis = r.conns.onInvalidation(o.Redis)
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// openClient connects, and asks the server for everything on which the client depends. After an
// error no connection is left.
func (r *Redis) openClient(o Options) *absent {
	client, refused := newRueidis(o, r.prefix, r.conns)
	if refused != nil {
		return refused
	}
	r.Client, r.cluster = client, client.Mode() == rueidis.ClientModeCluster
	for _, check := range []func() error{r.checkMode, r.choosePubSub, r.checkWait} {
		if err := check(); err != nil {
			r.closeClient()
			return refusal(err)
		}
	}
	r.direct = newDirect(r)
	if r.conns.counted {
		r.Client = &heedful{client, r}
	}
	return nil
}

// Stop ends waits in the background, and waits for slots.
func (r *Redis) Stop() { r.cancel() }

// Close gives up the commands in flight, closes the connections, and returns when no goroutine is
// left. The caller has called Stop. A shared client stays open.
func (r *Redis) Close() {
	if r.opening != nil {
		<-r.opening.ended
	}
	r.deadline.stop()
	if r.hasConnected() {
		r.closeClient()
	}
	r.background.close()
}

func (r *Redis) closeClient() {
	if r.options.Client == nil {
		r.direct.close()
		r.Client.Close()
	}
}

// Stopped reports whether Stop was called.
func (r *Redis) Stopped() bool { return r.ctx.Err() != nil }

// Done returns a channel that Stop closes.
func (r *Redis) Done() <-chan struct{} { return r.ctx.Done() }

// Deadline returns a context for a command that must not end with its caller's context. The context
// ends once the command has taken too long.
func (r *Redis) Deadline(now time.Time) context.Context { return r.deadline.context(now) }

// Within returns ctx with a timeout of Patience: rueidis repeats commands that only read until
// their context ends.
func (r *Redis) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.Patience)
}

// Start calls work in a goroutine that Close waits for, and returns true. After Close it does
// nothing, and returns false.
func (r *Redis) Start(work func()) bool { return r.background.startWork(work) }

// Do makes one call.
func (r *Redis) Do(ctx context.Context, c Call) rueidis.RedisResult {
	r.sent.n.Add(1)
	return c.send(ctx, r.Client)
}

// DoAndTell makes one call, and publishes the message to the client of its owner, in one pipeline.
// In a Cluster, where the two commands may go to different nodes, it sends one after the other. The
// loss of the message does no harm.
func (r *Redis) DoAndTell(ctx context.Context, c Call, m ClientMessage) (result rueidis.RedisResult) {
	if r.InCluster() {
		result = r.Do(ctx, c)
		_, _ = r.TellClient(ctx, m.Owner.ClientID(), m)
		return result
	}
	r.sent.n.Add(2)
	if result = r.Client.DoMulti(ctx, c.evalsha(r.Client), r.message(m.Owner.ClientID(), m))[0]; c.again(result) {
		result = r.Client.DoMulti(ctx, c.eval(r.Client), r.message(m.Owner.ClientID(), m))[0]
	}
	return result
}

// TellClient publishes the message to the client with the id, and returns the number of
// subscribers; -1 in a Cluster, where a node does not know all subscribers.
func (r *Redis) TellClient(ctx context.Context, id string, m ClientMessage) (listeners int64, err error) {
	r.sent.n.Add(1)
	listeners, err = r.Client.Do(ctx, r.message(id, m)).AsInt64()
	if r.InCluster() {
		listeners = -1
	}
	return listeners, err
}

// message returns the command that publishes m to the client with the id.
func (r *Redis) message(client string, m ClientMessage) rueidis.Completed {
	return r.Client.B().Publish().Channel(ClientChannel(client)).Message(m.String()).Build()
}

// Commands returns the number of commands that were sent for locks.
func (r *Redis) Commands() int64 { return r.sent.n.Load() }

// InCluster reports whether the client is connected to a Cluster.
func (r *Redis) InCluster() bool { return r.hasConnected() && r.cluster }

// SyncReplicas returns the number of replicas that must have a grant.
func (r *Redis) SyncReplicas() int { return r.options.SyncReplicas }

// Where returns the addresses of the client's config, with the name of its primary at the
// Sentinels, if it has one, and its database. Clients with equal texts have the same keys.
func (r *Redis) Where() string {
	option := r.options.Redis
	addresses := slices.Clone(option.InitAddress)
	if shared := r.options.Client; shared != nil {
		for address := range shared.Nodes() {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	where := strings.Join(addresses, ",")
	if option.Sentinel.MasterSet != "" {
		where += " " + option.Sentinel.MasterSet
	}
	if option.SelectDB != 0 {
		where += fmt.Sprintf(" database %d", option.SelectDB)
	}
	return where
}

// Shares reports whether both clients are known to have the same server, with the same or different
// databases. A client with a dial function of its own may be anywhere.
func (r *Redis) Shares(other *Redis) bool {
	a, b := r.options.Redis, other.options.Redis
	switch {
	case r == other || r.options.Client != nil && r.options.Client == other.options.Client:
		return true
	case a.DialCtxFn != nil || b.DialCtxFn != nil || a.Sentinel.MasterSet != b.Sentinel.MasterSet:
		return false
	}
	return slices.ContainsFunc(a.InitAddress, func(address string) bool { return slices.Contains(b.InitAddress, address) })
}

// SharesKeys reports whether both clients are known to have the same keys: the same server and
// database.
func (r *Redis) SharesKeys(other *Redis) bool {
	return r.options.Redis.SelectDB == other.options.Redis.SelectDB && r.Shares(other)
}
