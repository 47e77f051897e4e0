package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-rlock/rlock/internal/enum"
)

// PubSub is a family of publish and subscribe commands.
type PubSub int

// The families: see the constants of package rlock.
const (
	PubSubAuto PubSub = iota
	PubSubSharded
	PubSubPlain
)

func (p PubSub) String() string {
	return enum.Name(p, "PubSub", "PubSubAuto", "PubSubSharded", "PubSubPlain")
}

// choosePubSub decides whether pub/sub is sharded: by Redisson's rule, but where no
// server says it is an error and no guess, since a client that guesses otherwise than
// the others would hear of no grant.
func (r *Redis) choosePubSub() error {
	r.Sharded = r.options.PubSub == PubSubSharded
	if r.Sharded || r.options.PubSub == PubSubAuto && r.cluster {
		f, err := r.askForSharded()
		refused := errors.Is(err, ErrNoPermission)
		switch {
		case err == nil:
			r.Sharded = true
		case r.Sharded && !refused:
			return fmt.Errorf("PubSubSharded: %w: it needs Redis 7 or Valkey", err)
		case !r.Sharded && (f != Never || refused):
			return fmt.Errorf("cannot tell whether the Cluster has sharded pub/sub: %w: allow PUBSUB SHARDNUMSUB, or set Config.Advanced.PubSub", err)
		}
	}
	switch {
	case r.Sharded:
		r.family = "s"
	case r.cluster:
		// A node knows only those subscribers that are connected to itself.
		r.family = "c"
	default:
		r.family = "p"
	}
	return nil
}

// askForSharded asks one node after the other until one says yes or no. The silent get a
// third of the time that others have. A Cluster whose slots are not assigned yet shows no
// nodes, but the client is connected with those of its config.
func (r *Redis) askForSharded() (f Fault, err error) {
	nodes := slices.Collect(maps.Values(r.Client.Nodes()))
	if len(nodes) == 0 {
		nodes = append(nodes, r.Client)
	}
	for _, node := range nodes {
		ctx, cancel := context.WithTimeout(r.ctx, r.deadline.patience/3)
		f, err = Diagnose(node.Do(ctx, node.B().PubsubShardnumsub().Build()).Error())
		cancel()
		if f == Never {
			break
		}
	}
	return f, err
}

// Counts reports whether one node knows all subscribers of a channel: not in a Cluster with
// plain pub/sub.
func (r *Redis) Counts() bool { return r.family[0] != 'c' }

// Family is how the scripts publish and count subscribers.
func (r *Redis) Family() string { return r.family }
