package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	// MaxSyncReplicas is more replicas than any primary has.
	MaxSyncReplicas = 100
	// syncTime is how long a grant may take to reach its replicas (Redisson's
	// slavesSyncTimeout). A shorter lease gives a quarter of itself.
	syncTime = time.Second
	// SyncConnections is how many acquires may wait for replicas of one node, each
	// on a connection of its own, and SyncIdle how long these stay for the next.
	SyncConnections, SyncIdle = 32, time.Minute
)

// DoReplicated makes the call of an acquire or a look, for a lease, with
// Options.SyncReplicas: a grant counts once so many replicas have it, and is released
// again otherwise. The script and WAIT travel as one pipeline on one connection, since WAIT
// answers for what its own connection has written: on another it says yes at once, to
// nothing.
//
// WAIT blocks its connection, so no other command shares it. So the call has
// no order among the client's other commands; see Ordered.
func (r *Redis) DoReplicated(ctx context.Context, c Call, lease time.Duration, read func(rueidis.RedisResult) (Answer, error), release Call) (Answer, error) {
	limit := min(syncTime, lease/4)
	ctx, cancel := context.WithTimeout(ctx, limit+r.deadline.patience) // nothing else ends a blocking command whose peer is dead
	defer cancel()

	generation := r.Generation()
	r.sent.n.Add(2) // with the WAIT
	script, wait := r.together(ctx, c.evalsha(r.Client), r.wait(limit))
	if c.again(script) {
		script, wait = r.together(ctx, c.eval(r.Client), r.wait(limit))
	}
	a, err := read(script)
	if Answered(err) {
		r.heard(generation)
	}
	if err != nil || !a.Granted {
		return a, err
	}
	switch n, err := wait.AsInt64(); {
	case err != nil:
		a.Refused = err
	case n < int64(r.options.SyncReplicas):
		a.Refused = fmt.Errorf("%w: %d of %d had it after %v", ErrNotReplicated, n, r.options.SyncReplicas, limit)
	default:
		return a, nil
	}
	r.Do(ctx, release)
	return a, nil
}

// wait is the command that returns how many replicas have what its connection
// has written, once they are enough or the time is up.
func (r *Redis) wait(limit time.Duration) rueidis.Completed {
	return r.Client.B().Wait().Numreplicas(int64(r.options.SyncReplicas)).Timeout(max(limit.Milliseconds(), 1)).Build()
}

// checkWait fails where WAIT is refused. A node that does not answer now, or is a
// replica, refuses nothing: the acquire asks again.
func (r *Redis) checkWait() error {
	if r.options.SyncReplicas == 0 {
		return nil
	}
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	none := r.Client.B().Wait().Numreplicas(0).Timeout(1).Build()
	err := Explain(r.Client.Do(ctx, none).Error())
	if errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("SyncReplicas needs the command WAIT: %w", err)
	}
	return nil
}

// Ordered reports whether Redis gets the client's commands in the order in which
// they are sent, unless a connection is closed meanwhile, which Generation and Heard show: on one
// connection, that of the client's own. Of several, if it is configured to have them,
// rueidis chooses one at random in a Cluster.
func (r *Redis) Ordered() bool {
	return r.conns.counted && r.options.Redis.PipelineMultiplex < 0 && r.options.SyncReplicas == 0
}

// together sends two commands as one pipeline on one connection that no other command shares
// meanwhile. The second must be sent as one that blocks: for these rueidis keeps connections
// apart. In a Cluster both go to the node that serves the first's slot.
//
// A connection of rueidis' Dedicate would do as well, but that unsubscribes when it is given
// back, which ends the process where the server refuses it: see package pubsub.
func (r *Redis) together(ctx context.Context, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	if !r.InCluster() {
		results := r.Client.DoMulti(ctx, first, second)
		return results[0], results[1]
	}
	// DoMulti of the Cluster's client would follow a MOVED with the first command alone.
	first, second = first.Pin(), second.Pin() // they may be sent twice
	result, answer := r.togetherAt(ctx, r.Nodes.addressOf(first.Slot()), first, second)
	if reply, refused := rueidis.IsRedisErr(result.Error()); refused {
		if address, moved := reply.IsMoved(); moved {
			r.Nodes.doubt()
			return r.togetherAt(ctx, address, first, second)
		}
	} else if result.Error() != nil {
		r.Nodes.doubt()
	}
	return result, answer
}

// togetherAt is together at one node of a Cluster.
func (r *Redis) togetherAt(ctx context.Context, address string, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	node := r.Client.Nodes()[address]
	if node == nil {
		unknown := rueidis.NewErrorResult(rueidis.ErrNoSlot)
		return unknown, unknown
	}
	results := node.DoMulti(ctx, first, second)
	return results[0], results[1]
}
