package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	// maxSyncReplicas is more replicas than any primary has.
	maxSyncReplicas = 100
	// syncTime is how long a grant may take to reach its replicas (Redisson's
	// slavesSyncTimeout). A shorter lease gives a quarter of itself.
	syncTime = time.Second
	// syncConnections is how many acquires may wait for replicas of one node, each
	// on a connection of its own, and syncIdle how long these stay for the next.
	syncConnections, syncIdle = 32, time.Minute
)

// replicated is exchange with Config.SyncReplicas: the grant counts once so
// many replicas have it. The script and WAIT travel as one pipeline on one
// connection, since WAIT answers for what its own connection has written: on
// another it says yes at once, to nothing.
//
// WAIT blocks its connection, so no other command shares it. So the acquire has
// no order among the client's other commands; see [Client.ordered].
func (t *tenure) replicated(ctx context.Context, acquire call, read func(*tenure, rueidis.RedisResult) (answer, error)) (answer, error) {
	c := t.room.client
	limit := min(syncTime, t.lease/4)
	ctx, cancel := context.WithTimeout(ctx, limit+c.deadline.patience) // nothing else ends a blocking command whose peer is dead
	defer cancel()

	c.traffic.commands.Add(1) // the WAIT
	script, wait := c.withWait(ctx, acquire.evalsha(c.redis), c.wait(limit))
	if forgotten(script) {
		script, wait = c.withWait(ctx, acquire.eval(c.redis), c.wait(limit))
	}
	a, err := read(t, script)
	if err != nil || !a.granted {
		return a, err
	}
	switch n, err := wait.AsInt64(); {
	case err != nil:
		a.refused = err
	case n < int64(c.config.SyncReplicas):
		a.refused = fmt.Errorf("%w: %d of %d had it after %v", ErrNotReplicated, n, c.config.SyncReplicas, limit)
	default:
		return a, nil
	}
	c.traffic.commands.Add(1)
	a.released = t.releaseCall().do(ctx, c.redis).Error() == nil
	return a, nil
}

// wait is the command that returns how many replicas have what its connection
// has written, once they are enough or the time is up.
func (c *Client) wait(limit time.Duration) rueidis.Completed {
	return c.redis.B().Wait().Numreplicas(int64(c.config.SyncReplicas)).Timeout(max(limit.Milliseconds(), 1)).Build()
}

// withWait sends two commands, of which the second blocks, as one pipeline on one
// connection that no other command shares meanwhile.
func (c *Client) withWait(ctx context.Context, first, second rueidis.Completed) (rueidis.RedisResult, rueidis.RedisResult) {
	if c.redis.Mode() != rueidis.ClientModeCluster {
		results := c.redis.DoMulti(ctx, first, second)
		return results[0], results[1]
	}
	// DoMulti would follow a MOVED with the script alone, and WAIT would answer for
	// the old node. A dedicated connection follows nothing: the next attempt does.
	conn, giveBack := c.redis.Dedicate()
	defer giveBack()
	results := conn.DoMulti(ctx, first, second)
	if results[0].NonRedisError() != nil || results[1].NonRedisError() != nil {
		conn.Close() // there may be a reply to come that nobody wants
	}
	return results[0], results[1]
}

// checkWait fails where WAIT is refused. A node that does not answer now, or is a
// replica, refuses nothing: the acquire asks again.
func (c *Client) checkWait() error {
	if c.config.SyncReplicas == 0 {
		return nil
	}
	ctx, cancel := c.within(c.ctx)
	defer cancel()
	none := c.redis.B().Wait().Numreplicas(0).Timeout(1).Build()
	_, err := diagnose(c.redis.Do(ctx, none).Error())
	if errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("rlock: SyncReplicas needs the command WAIT: %w", err)
	}
	return nil
}

// ordered reports whether Redis gets the client's commands in the order in which
// they are sent, unless a connection is closed meanwhile, which the wires know: on one
// connection, that of the client's own. Of several, if it was told to have them,
// rueidis chooses one at random in a Cluster.
func (c *Client) ordered() bool {
	return c.wires.counted && c.config.Redis.PipelineMultiplex < 0 && c.config.SyncReplicas == 0
}
