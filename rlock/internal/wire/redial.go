package wire

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// An address (a DNS name, the endpoint of a cloud, a service of Kubernetes, a balancer) may lead to
// another server one day. The old server may live on and keep its connections, for example a
// primary that became a replica: then each command is refused for as long as the connection lives,
// and pings keep it alive. So a reply that may come from the wrong server ends the connection, and
// the next command opens another one, to wherever the address leads by then. For the locks this is
// a lost connection like any other: generations, verification and the rules of direct.go hold.
//
// The direct connection follows, since it is not used after the pipelined one was dialled anew.
// Subscriptions follow as well: see pubsub.Hub.CheckServer.

// astray are the codes of replies that may come from the wrong server. Each has the least time
// between two connections that are ended because of it: a server that loads its data, or waits for
// its replicas, is more often the right one.
var astray = []struct {
	code  string
	pause time.Duration
}{
	{"READONLY", time.Second},   // a replica
	{"MASTERDOWN", time.Second}, // a replica without its primary
	{"CLUSTERDOWN", 5 * time.Second},
	{"NOREPLICAS", 5 * time.Second}, // a primary that may have been replaced
	{"LOADING", 5 * time.Second},
}

// strayPause returns the least time between two connections that are ended for the reply err; 0 for
// a reply that is not in astray.
func strayPause(err error) time.Duration {
	refusal, ok := rueidis.IsRedisErr(err)
	if !ok {
		return 0
	}
	message := strings.TrimPrefix(refusal.Error(), "ERR ")
	for _, a := range astray {
		if hasCode(message, a.code) {
			return a.pause
		}
	}
	return 0
}

// ErrReplica is the error of a question about locks to which a replica has replied: its data may be
// old, and replicas do not decide about locks.
var ErrReplica = errors.New("READONLY a replica has answered, whose data may be old: use the address of the primary")

// ofReplica returns ErrReplica if the reply to HELLO comes from a replica, which answers commands
// that only read like a primary. A replica of a Cluster does not answer them.
func (r *Redis) ofReplica(hello rueidis.RedisResult) error {
	answer, err := hello.AsMap()
	if err != nil {
		return nil // the server does not name its role
	}
	role := answer["role"]
	if name, _ := role.ToString(); name != "slave" && name != "replica" {
		return nil
	}
	r.redialUnlessRecent(0, time.Second, ErrReplica)
	return ErrReplica
}

// Look sends a command that only reads. The error is [ErrReplica] if a replica has replied.
func (r *Redis) Look(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if r.InCluster() {
		return r.Client.Do(ctx, command)
	}
	// ReadOnly, so that rueidis repeats both
	results := r.Client.DoMulti(ctx, command, r.Client.B().Arbitrary("HELLO").ReadOnly())
	if err := r.ofReplica(results[1]); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return results[0]
}

// AtPrimary returns [ErrReplica] if the single server is a replica.
func (r *Redis) AtPrimary(ctx context.Context) error {
	if r.InCluster() {
		return nil
	}
	hello, err := Promptly(ctx, r, 0, func(ctx context.Context) (rueidis.RedisResult, error) {
		hello := r.Client.Do(ctx, r.Client.B().Hello().Build())
		return hello, hello.NonRedisError()
	})
	if err != nil {
		return err
	}
	return r.ofReplica(hello)
}

// A redials is what the client notes about connections that it ends, since they may lead to the
// wrong server.
type redials struct {
	last   atomic.Int64 // the time at which a connection was last ended, in nanoseconds since began; 0 for never
	told   atomic.Pointer[func(error)]
	checks atomic.Int64 // the number of calls of CheckReplicated since the last check began, the first included
}

// OnRedial sets the function that is called with a reply because of which a connection is ended. It
// must not wait.
func (r *Redis) OnRedial(told func(reply error)) { r.redials.told.Store(&told) }

// A heedful client is rueidis' client. It notes the errors of answers.
type heedful struct {
	rueidis.Client
	redis *Redis
}

// Do implements [rueidis.Client], as does DoMulti.
func (c *heedful) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	result := c.Client.Do(ctx, command)
	c.redis.noteResult(command.Slot(), result.Error())
	return result
}

func (c *heedful) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		c.redis.noteResult(commands[i].Slot(), results[i].Error())
	}
	return results
}

// noteReply notes the error of the answer to an order. A reply that a source of a user may have
// returned says nothing about the server. A command of the client's own finds out soon enough, at
// the latest a renewal.
func (r *Redis) noteReply(o Order, err error) {
	if o.HasSource && Answered(err) {
		err = nil
	}
	r.noteResult(o.Slot, err)
}

// noteResult notes the error of an answer, or of a command without an answer.
func (r *Redis) noteResult(slot uint16, err error) {
	switch {
	case err == nil || rueidis.IsRedisNil(err):
	case !Answered(err):
		r.noteNoAnswer(err)
		return
	default:
		r.heedReply(slot, err)
	}
	if r.conns.away.Load() != 0 {
		r.noteAnswered()
	}
}

// heedReply ends the connection to the node that serves the slot, if err is a reply of a server
// that may be the wrong one.
func (r *Redis) heedReply(slot uint16, err error) {
	if pause := strayPause(err); pause > 0 {
		r.redialUnlessRecent(slot, pause, err)
	}
}

// redialUnlessRecent ends the connection to the node that serves the slot, because of err, unless a
// connection was ended a short time ago.
func (r *Redis) redialUnlessRecent(slot uint16, pause time.Duration, err error) {
	if !r.conns.counted || r.InCluster() && slot >= slots {
		return
	}
	now, last := int64(time.Since(began)), r.redials.last.Load()
	if last != 0 && now-last < int64(pause) || !r.redials.last.CompareAndSwap(last, now) {
		return
	}
	r.background.startWork(func() {
		if told := r.redials.told.Load(); told != nil {
			(*told)(err)
		}
		if r.InCluster() {
			r.Nodes.refreshAfter(time.Now(), doubtAge) // rueidis may have followed the slot to another node
		}
		r.redial(slot)
	})
}

// redial ends the connections to the node that serves the slot. The pipelined one ends by a QUIT,
// which Redis answers after all commands before it; the connections on which grants wait for
// replicas are closed. If rueidis has several pipelined connections, it does not say which of them
// would send the QUIT: then all connections to the address are closed.
func (r *Redis) redial(slot uint16) {
	node, address := r.Client, ""
	if r.InCluster() {
		address = r.Nodes.addressOf(slot)
		node = r.Client.Nodes()[address]
	} else {
		for address = range r.Client.Nodes() { // there is one address
		}
	}
	if node == nil {
		return
	}
	several := r.options.Redis.PipelineMultiplex > 0
	r.conns.endConnection(func(w *wire) bool { return w.replicated || several && w.address == address })
	if several {
		return
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	node.Do(ctx, node.B().Quit().Build())
}

// errSplit is the error of connections that lead to several servers.
var errSplit = errors.New("connections to one address lead to several servers")

// CheckReplicated finds out, in the background, whether the connections of commands that wait for
// replicas lead to the server of the pipelined one. It is called when a connection of either sort
// was opened: the others may have stayed behind. If the servers differ, all connections are opened
// anew.
func (r *Redis) CheckReplicated() {
	if r.options.SyncReplicas == 0 || r.InCluster() || r.redials.checks.Add(1) > 1 {
		return
	}
	r.background.startWork(func() {
		for n := int64(1); ; n = r.redials.checks.Load() {
			if r.isSplit() {
				r.redialUnlessRecent(0, time.Second, errSplit)
			}
			if r.redials.checks.CompareAndSwap(n, 0) {
				return
			}
		}
	})
}

// isSplit reports whether the pipelined connection is known to lead to another server than a
// connection of a command that waits for replicas.
func (r *Redis) isSplit() bool {
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	server, err := runID(ctx, r.Client)
	if err != nil || server == "" {
		return false
	}
	info := r.Client.B().Info().Section("server").Build()
	other, _ := r.doTwo(context.WithValue(ctx, replicated{}, true), info, r.Client.B().Wait().Numreplicas(0).Timeout(1).Build())
	id, err := readRunID(other)
	return err == nil && id != "" && id != server
}

// replicated marks the context of a command that waits for replicas. rueidis dials with this
// context, which marks the connection as well.
type replicated struct{}

// opened notes a connection that rueidis has opened.
func (c *connections) opened(w *wire) {
	c.mu.Lock()
	if c.open == nil {
		c.open = make(map[*wire]struct{})
	}
	c.open[w] = struct{}{}
	c.mu.Unlock()
	if w.replicated {
		c.onReplicated()
	}
}

// endConnection ends the chosen connections. rueidis closes each like a connection that the server
// has ended.
func (c *connections) endConnection(chosen func(*wire) bool) {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, w := range all {
		if chosen(w) {
			_ = w.Conn.Close()
		}
	}
}
