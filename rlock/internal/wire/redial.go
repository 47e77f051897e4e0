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
// another server one day. The old one may live on and keep its connections, as a primary that
// became a replica does: then each command is refused for as long as the connection lives, and
// pings keep it alive. So a reply which says that this may be the wrong server ends the connection,
// and the next command opens another one, to wherever the address leads by then. For the locks that
// is a lost connection: generations, verification and the rules of direct.go hold as for any other.
//
// The direct connection follows, since it is not used after the pipelined one was dialled anew; so
// do subscriptions: see pubsub.Hub.CheckServer.

// astray are the codes of replies by a server that may be the wrong one, with the least time
// between two connections that are ended for them: a server that loads its data, or waits for
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

// strayPause returns the least time between two connections that are ended for such a reply; 0 for
// any other reply.
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

// ErrReplica is the error of a question about locks that a replica has answered: its data may be
// old, and it has no say about locks.
var ErrReplica = errors.New("READONLY a replica has answered, whose data may be old: use the address of the primary")

// ofReplica returns ErrReplica if the reply to HELLO is that of a replica. Commands that only read
// are answered there as anywhere. A replica of a Cluster does not answer them.
func (r *Redis) ofReplica(hello rueidis.RedisResult) error {
	answer, err := hello.AsMap()
	if err != nil {
		return nil // a server that does not say what it is
	}
	role := answer["role"]
	if name, _ := role.ToString(); name != "slave" && name != "replica" {
		return nil
	}
	r.strays(0, time.Second, ErrReplica)
	return ErrReplica
}

// Look sends a command that only reads. The error is [ErrReplica] if a replica has answered.
func (r *Redis) Look(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if r.InCluster() {
		return r.Client.Do(ctx, command)
	}
	// ReadOnly, so that rueidis repeats both.
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

// A redials ends connections that may lead to the wrong server.
type redials struct {
	last   atomic.Int64 // the time of the last one that was ended, in nanoseconds since began; 0 for none
	told   atomic.Pointer[func(error)]
	checks atomic.Int64 // the calls of CheckReplicated since the last check began, itself included
}

// OnRedial sets the function that is called with a reply for which a connection is ended. It must
// not wait.
func (r *Redis) OnRedial(told func(reply error)) { r.redials.told.Store(&told) }

// A heedful client is rueidis' client, whose answers are noted.
type heedful struct {
	rueidis.Client
	redis *Redis
}

// Do implements [rueidis.Client], as does DoMulti.
func (c *heedful) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	result := c.Client.Do(ctx, command)
	c.redis.noteStray(command.Slot(), result.Error())
	return result
}

func (c *heedful) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	results := c.Client.DoMulti(ctx, commands...)
	for i := range results {
		c.redis.noteStray(commands[i].Slot(), results[i].Error())
	}
	return results
}

// noteReply notes the error of the answer to an order. What a source of a user returns says nothing
// about the server: a command of the client's own finds out soon enough, a renewal at the latest.
func (r *Redis) noteReply(o Order, err error) {
	if o.HasSource && Answered(err) {
		err = nil
	}
	r.noteStray(o.Slot, err)
}

// noteStray notes the error of an answer, or of a command without one.
func (r *Redis) noteStray(slot uint16, err error) {
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

// heedReply ends the connection to the node that serves the slot, if err is its reply and says that
// it may be the wrong server.
func (r *Redis) heedReply(slot uint16, err error) {
	if pause := strayPause(err); pause > 0 {
		r.strays(slot, pause, err)
	}
}

// strays ends the connection to the node that serves the slot, since err says that it may be the
// wrong server, unless one was ended a short time ago.
func (r *Redis) strays(slot uint16, pause time.Duration, err error) {
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
		r.redial(slot)
	})
}

// redial ends the connections to the node that serves the slot: the pipelined one by QUIT, which
// Redis answers after all commands before it, and those on which grants wait for replicas. Which of
// several pipelined connections would send the QUIT is left to rueidis: then all to the address
// end.
func (r *Redis) redial(slot uint16) {
	node, address := r.Client, ""
	if r.InCluster() {
		address = r.Nodes.addressOf(slot)
		node = r.Client.Nodes()[address]
	} else {
		for address = range r.Client.Nodes() { // there is one
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
// replicas lead to the server of the pipelined one. It is called when one of them, or the pipelined
// one, was opened: the other may have stayed behind. If they differ all are opened anew.
func (r *Redis) CheckReplicated() {
	if r.options.SyncReplicas == 0 || r.InCluster() || r.redials.checks.Add(1) > 1 {
		return
	}
	r.background.startWork(func() {
		for n := int64(1); ; n = r.redials.checks.Load() {
			if r.isSplit() {
				r.strays(0, time.Second, errSplit)
			}
			if r.redials.checks.CompareAndSwap(n, 0) {
				return
			}
		}
	})
}

// isSplit reports whether the pipelined connection is known to lead to another server than the one
// of a command that waits for replicas would.
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

// replicated marks the context of a command that waits for replicas. rueidis dials with it, so that
// the connection is known as one of those.
type replicated struct{}

// opened notes that rueidis has a connection.
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

// endConnection ends the chosen connections. rueidis closes them as any that has ended.
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
