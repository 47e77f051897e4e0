package wire

import (
	"context"

	"github.com/redis/rueidis"
)

// together sends two commands as one pipeline on one connection that no other command shares
// meanwhile. The second must be marked as one that blocks: for these rueidis keeps connections
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
