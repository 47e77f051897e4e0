package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// PubSub is a family of publish and subscribe commands.
type PubSub int

// The families: see the constants of package rlock.
const (
	PubSubAuto PubSub = iota
	PubSubSharded
	PubSubPlain
)

// choosePubSub decides whether pub/sub is sharded, by Redisson's rule. If no server answers, it
// returns an error and does not guess: a client with another family than the other clients would
// hear of no grant.
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

// askForSharded asks all nodes at once until one says yes or no, for a third of Patience. Each
// question has this whole time: rueidis may dial with the context of a question, and other commands
// wait for the connection. A Cluster whose slots are not assigned yet lists no nodes, but the
// client is connected with the nodes of its config.
func (r *Redis) askForSharded() (d Diagnosis, err error) {
	nodes := slices.Collect(maps.Values(r.Client.Nodes()))
	if len(nodes) == 0 {
		nodes = append(nodes, r.Client)
	}
	answers := make(chan error, len(nodes))
	for _, node := range nodes {
		if !r.background.startWork(func() {
			ctx, cancel := context.WithTimeout(r.ctx, r.Patience/3)
			defer cancel()
			answers <- node.Do(ctx, node.B().PubsubShardnumsub().Build()).Error()
		}) {
			answers <- ErrClosed
		}
	}
	for range nodes {
		if d, err = Diagnose(<-answers); d == Never {
			break
		}
	}
	return d, err
}

// CountsSubscribers reports whether one node knows all subscribers of a channel. It does not in a
// Cluster with plain pub/sub.
func (r *Redis) CountsSubscribers() bool { return r.family[0] != 'c' }

// tracking makes Redis notify the client of keys that others change. It uses CLIENT TRACKING with
// OPTIN, so that only chosen keys cost anything, and NOLOOP, so that changes over this connection
// cause no notice. Redis stops tracking a key after one notice, and after a change over this
// connection.
//
// Each pipeline that tracks begins with CLIENT TRACKING ON: the server forgets it with the
// connection, and repeating it is harmless. The first pipeline over a connection also asks whether
// notices can come over it. Nothing is sent before the first key is tracked.
type tracking struct {
	// on is set if keys may be tracked. They may not with a shared client, whose notices go
	// elsewhere; over several connections to a node, since each gets notices of changes by the
	// others; and in RESP2, which has no messages between the answers.
	on bool
	// allowed is the generation of the last connection over which tracking was allowed, and refused
	// of the last one over which it was refused.
	allowed, refused atomic.Uint64
	refusals         atomic.Int64
}

// tracks reports whether keys may be tracked.
func (o *Options) tracks() bool {
	return o.Tracking && o.Client == nil && o.Redis.PipelineMultiplex < 0 && !o.Redis.AlwaysRESP2
}

// onInvalidation makes o's connections report changed keys to OnChange's function.
func (c *connections) onInvalidation(o rueidis.ClientOption) rueidis.ClientOption {
	others := o.OnInvalidations
	o.OnInvalidations = func(messages []rueidis.RedisMessage) {
		if others != nil {
			others(messages)
		}
		var keys []string
		for _, message := range messages {
			if key, err := message.ToString(); err == nil {
				keys = append(keys, key)
			}
		}
		c.tellChanged(keys)
	}
	return o
}

// Tracks reports whether keys are tracked. They are not while Redis has refused it over the present
// connection.
func (r *Redis) Tracks() bool { return r.tracking.on && r.tracking.refused.Load() != r.Generation() }

// TrackingRefused returns the number of connections over which tracking was refused.
func (r *Redis) TrackingRefused() int64 { return r.tracking.refusals.Load() }

// stopTracking notes that no keys are tracked over the connection of that generation.
func (t *tracking) stopTracking(generation uint64) {
	if t.refused.Swap(generation) != generation {
		t.refusals.Add(1)
	}
}

// startTracking adds the commands that come before calls which track keys, and reports whether
// these calls may track. In a Cluster the commands go to the node of the first key.
func (r *Redis) startTracking(p *pipeline, calls []Call) bool {
	first := slices.IndexFunc(calls, func(c Call) bool { return len(c.Track)+len(c.Queues) > 0 })
	if !r.tracking.on || first < 0 || !r.Tracks() {
		return false
	}
	t, b, generation, key := &r.tracking, r.Client.B(), r.Generation(), append(calls[first].Track, calls[first].Queues...)[0]
	if t.allowed.Load() != generation {
		p.add(b.Hello().Build().SetSlot(key), func(reply rueidis.RedisResult) {
			hello, err := reply.AsMap()
			switch {
			case err != nil:
				t.noteRefusal(generation, err)
			case canNotify(hello):
				t.allowed.Store(generation)
			default:
				t.stopTracking(generation)
			}
		})
	}
	p.add(b.ClientTracking().On().Optin().Noloop().Build().SetSlot(key), func(reply rueidis.RedisResult) { t.noteRefusal(generation, reply.Error()) })
	return true
}

// noteRefusal notes that keys cannot be tracked over the connection of that generation, if err is a
// refusal that waiting does not cure.
func (t *tracking) noteRefusal(generation uint64, err error) {
	if d, _ := Diagnose(err); err != nil && Answered(err) && d == Never {
		t.stopTracking(generation)
	}
}

// canNotify reports whether the server can notify the client of changed keys over a connection with
// that reply to HELLO. It needs RESP3, and Redis 7: before, NOLOOP does not cover scripts, and every
// renewal would cause a notice.
func canNotify(hello map[string]rueidis.RedisMessage) bool {
	proto, version := hello["proto"], hello["version"]
	number, _ := proto.AsInt64()
	text, err := version.ToString()
	return number >= 3 && (err != nil || leading(text) >= 7)
}

// addTracking adds the commands that track the keys and the queues of the call that was added last:
// CACHING, and a read. If the read does not find a key, or finds tickets in a queue, although the
// call was executed, that counts as a notice.
func (r *Redis) addTracking(p *pipeline, call *Call, called *bool) {
	b, generation := r.Client.B(), r.Generation()
	track := func(read rueidis.Completed, key string, changed func(n int64) bool, keys ...string) {
		p.add(b.ClientCaching().Yes().Build().SetSlot(key), func(reply rueidis.RedisResult) {
			if Lack(reply.Error()) != nil {
				r.tracking.stopTracking(generation)
			}
		})
		p.add(read, func(reply rueidis.RedisResult) {
			if n, err := reply.AsInt64(); *called && err == nil && changed(n) {
				r.conns.tellChanged(keys)
			}
		})
	}
	if keys := call.Track; len(keys) > 0 {
		track(b.Exists().Key(keys...).Build(), keys[0], func(there int64) bool { return there < int64(len(keys)) }, keys...)
	}
	for _, queue := range call.Queues {
		track(b.Zcount().Key(queue).Min("1").Max("+inf").Build(), queue, func(tickets int64) bool { return tickets > 0 }, queue)
	}
}

// A ClientMessage is a message on a client's own channel: "<verb> <owner> <text>". The owner
// contains no space, the text may be any bytes. Anybody may publish there, so a message is only a
// reason to ask Redis.
type ClientMessage struct {
	Verb  Verb
	Owner OwnerText // a tenure of the client
	Text  string    // the rest of the message, which ends with the lock's name: see the verbs
}

// A Verb is the purpose of a message on a client's own channel.
type Verb string

const (
	// Forced says that another client released the tenure by force.
	Forced Verb = "f"
	// Shown says that the tenure has a lock that another client waits for. The text is the letter
	// of the kind and the lock's name: see scripts/queue.lua.
	Shown Verb = "h"
	// TakenOver says that another owner takes the lock over from the tenure. The text is the rest of
	// the grace in milliseconds, the text of the ticket that takes it over, and the lock's name.
	TakenOver Verb = "t"
)

// String returns the message as it is published.
func (m ClientMessage) String() string { return string(m.Verb) + " " + string(m.Owner) + " " + m.Text }

// ParseClientMessage parses a message on the client's own channel. It reports false for any other
// text, for example of a later version.
func ParseClientMessage(message string) (m ClientMessage, ok bool) {
	verb, rest, _ := strings.Cut(message, " ")
	word, text, ok := strings.Cut(rest, " ")
	owner := OwnerText(word)
	if !ok || Verb(verb) != Forced && Verb(verb) != Shown && Verb(verb) != TakenOver || owner.Tenure() == "" || text == "" {
		return ClientMessage{}, false
	}
	return ClientMessage{Verb: Verb(verb), Owner: owner, Text: text}, true
}
