package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

// A tenure lingers when its last level is closed and nobody waits: the client keeps the key,
// and the next Lock in this process begins in the tenure without a command. A client that is
// denied elsewhere calls this client, in the script that denies it, and the lock is released
// at once. No owner has the lock meanwhile, so that no owner loses a lingering tenure.
//
// Others know by the UUID whether a tenure may linger. Only one that the first acquire of a
// call took may: a refusal or a ticket shows that clients contend for the name.

const (
	// maxLingering is how many tenures of a shard linger at most: some ten thousand of all
	// shards of a kind. The oldest is released for the next.
	maxLingering = 10_000 / shardCount
	// lingerWorth is how much of its lease a tenure must be trusted for at least to linger,
	// as a part of it; see mayPass.
	lingerWorth = 10
	// leastCall is how long a client that has called waits at least until it asks again, if
	// it does not wait in the queue: in a Cluster a message goes from node to node.
	leastCall, leastCallInCluster = time.Millisecond, 5 * time.Millisecond
)

// lingerOf returns for how long the tenure of the request is to linger at its end.
func (c *Client) lingerOf(r *room, req *Request) time.Duration {
	linger := req.Linger
	if linger == 0 {
		linger = c.Config.Linger
	}
	if linger <= 0 || c.Config.RedissonPolls == wire.RedissonPollsAlways || c.Config.NoClientChannel || req.Whole != nil || r.name.kind().many {
		return 0
	}
	return linger
}

// callTime is how long a client that has called waits until it asks again, if its command
// took so long. A holder as near as this client has released the lock half a round trip later.
// A client that may join the queue then does not wait for one that is slower.
func (c *Client) callTime(roundTrip time.Duration, queues bool) time.Duration {
	if queues {
		return roundTrip / 2
	}
	if c.Redis.InCluster() {
		return max(roundTrip, leastCallInCluster)
	}
	return max(roundTrip, leastCall)
}

// mayLinger reports whether the tenure, which has no level any more, may stay.
func (t *tenure) mayLinger(now time.Time) bool {
	r, c := t.room, t.room.client
	return t.lingers > 0 && t.lease <= c.Config.Lease && !t.recalled && !t.contested() && wire.Lingers(t.text) && r.queue.Len() == 0 &&
		t.worth(now) && !c.Closed.Load() && c.hears() && !r.backsOff(now)
}

// worth reports whether enough is left of the trust, which is valid, to begin a hold.
func (t *tenure) worth(now time.Time) bool {
	return t.trust.Until().Sub(now) >= min(t.room.client.Config.Lease/lingerWorth, time.Second)
}

// linger has the tenure stay, in which nobody has a level any more.
func (t *tenure) linger(now time.Time) {
	r, s := t.room, t.room.shard
	if s.lingering.Len() >= maxLingering {
		s.lingering.Head().Value.drop(now)
	}
	if t.line == nil {
		t.line = waitqueue.NewWaiter[*tenure]()
		t.line.Value = t
	}
	s.lingering.Join(t.line)
	r.escaped = true
	r.unsubscribe()
	t.phase = lingering
	t.levels, t.ends = t.levels[:0], never
	t.lingerEnd = now.Sub(r.client.start) + t.lingers
	// A tenure that is used again and again is scheduled once in a Linger: Due finds that
	// it has longer.
	if t.alarm == 0 || t.lingerEnd < t.alarm {
		t.schedule(t.wakes())
	}
}

// roused notes that the tenure lingers no longer, if it did.
func (t *tenure) roused() {
	if t.phase == lingering {
		t.room.shard.lingering.Leave(t.line)
	}
}

// mayReuse reports whether the request may begin in a lingering tenure.
func (r *room) mayReuse(now time.Time, req *Request) bool {
	t := r.tenure
	return t != nil && t.phase == lingering && t.worth(now) && !t.tokens.spent() && (req.Shared || !t.shared)
}

// drop ends a tenure that lingers, or whose client closes: the keeper releases it.
func (t *tenure) drop(now time.Time) {
	t.room.tenure = nil
	t.disown(now)
}

// letGo ends a lingering tenure by a release that is sent at once, for a waiter here or
// elsewhere. No waiter here asks for the lock before the answer has come.
func (r *room) letGo(t *tenure, now time.Time) {
	r.escaped = true
	first := r.beginRelease(t, now)
	if !r.client.Redis.Start(func() { _ = r.finishRelease(t, nobody, nil, first, now) }) {
		r.inFlight-- // the client is closed
		t.disown(now)
	}
}

// recall deals with a call: somebody waits elsewhere for a tenure that may linger.
func (t *tenure) recall(now time.Time) {
	r := t.room
	t.recalled = true
	switch t.phase {
	case lingering:
		r.calledBack(t, now)
		r.letGo(t, now)
	case held:
		t.heardOfOthers(now, 1)
	}
}
