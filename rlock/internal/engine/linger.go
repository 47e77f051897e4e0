package engine

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A tenure lingers when its last level is closed and nobody waits: the client keeps the key,
// and the next Lock in this process begins in the tenure without a command. A client that is
// denied elsewhere calls this client, in the script that denies it, and the lock is released
// at once. No owner has the lock meanwhile, so that no owner loses a lingering tenure.
//
// Others know by the UUID whether a tenure may linger. Only one that an acquire took may: a
// ticket shows that clients contend for the name.

const (
	// maxLingering is how many tenures of a shard linger at most: some ten thousand of all
	// shards of a kind. The oldest is released for the next.
	maxLingering = 10_000 / shardCount
	// lingerWorth is how much of its lease a tenure must be trusted for at least to linger,
	// as a part of it; see mayPass.
	lingerWorth = 10
	// guestMemory is for how long a name does not linger on which a guest was met. Guests
	// cannot call.
	guestMemory = 5 * time.Minute
	// maxRestless is how many names a shard remembers that do not linger.
	maxRestless = 256
	// patientCalls is how often in a row a name is called back, without a Lock here that
	// profited from it, before it stops to linger; then for firstRest, doubling to lastRest.
	patientCalls        = 2
	firstRest, lastRest = time.Second, time.Minute
	// leastCall is how long a client that has called waits at least until it asks again, if
	// it does not wait in the queue: in a Cluster a message goes from node to node.
	leastCall, leastCallInCluster = time.Millisecond, 5 * time.Millisecond
)

// restless says that a name does not linger for a while.
type restless struct {
	calls int       // in a row without a profit
	until time.Time // it does not linger
}

// lingerOf returns for how long the tenure of the request is to linger at its end.
func (c *Client) lingerOf(r *room, req *Request) time.Duration {
	linger := req.Linger
	if linger == 0 {
		linger = c.Config.Linger
	}
	if linger <= 0 || c.Config.RedissonPolls || c.Config.NoClientChannel || req.Whole != nil || r.name.kind().many {
		return 0
	}
	return linger
}

// callTime is how long a client that has called waits until it asks again, if its command
// took so long.
func (c *Client) callTime(roundTrip time.Duration) time.Duration {
	if c.Redis.InCluster() {
		return max(roundTrip, leastCallInCluster)
	}
	return max(roundTrip, leastCall)
}

// mayLinger reports whether the tenure, which has no level any more, may stay.
func (t *tenure) mayLinger(now time.Time) bool {
	r, c := t.room, t.room.client
	return t.lingers > 0 && t.lease <= c.Config.Lease && !t.recalled && !t.contested && wire.Lingers(t.text) && r.queue.Len() == 0 &&
		t.worth(now) && !c.Closed.Load() && c.hears() && !r.rests(now)
}

// worth reports whether enough is left of the trust, which is valid, to begin a hold.
func (t *tenure) worth(now time.Time) bool {
	return t.trust.Until().Sub(now) >= min(t.room.client.Config.Lease/lingerWorth, time.Second)
}

// linger has the tenure stay, in which nobody has a level any more.
func (t *tenure) linger(now time.Time) {
	r, s := t.room, t.room.shard
	if s.lingering >= maxLingering {
		s.oldest().drop(now)
	}
	s.lingering++
	r.escaped = true
	r.dismiss()
	if r.sub != nil {
		r.sub.Close()
		r.sub = nil
	}
	t.phase = lingering
	t.levels, t.ends = t.levels[:0], time.Time{}
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
		t.room.shard.lingering--
	}
}

// oldest returns the lingering tenure whose time to linger ends first.
func (s *shard) oldest() (oldest *tenure) {
	for _, r := range s.rooms {
		if t := r.tenure; t != nil && t.phase == lingering && (oldest == nil || t.lingerEnd < oldest.lingerEnd) {
			oldest = t
		}
	}
	return oldest
}

// mayReuse reports whether the request may begin in the lingering tenure.
func (t *tenure) mayReuse(now time.Time, req *Request) bool {
	return t.worth(now) && !t.tokens.spent() && !t.recalled && (req.shared || !t.shared)
}

// reuse begins the hold of the request in the lingering tenure.
func (t *tenure) reuse(now time.Time, req Request) {
	req.Way = ByLinger
	t.begin(now, req)
	t.reused = true
}

// drop ends a lingering tenure: the keeper releases it.
func (t *tenure) drop(now time.Time) {
	t.room.tenure = nil
	t.disown(now)
}

// letGo ends a lingering tenure by a release that is sent at once, for a waiter here or
// elsewhere. No waiter here asks for the lock before the answer has come.
func (r *room) letGo(t *tenure, now time.Time) {
	r.escaped = true
	wasTicket, first := r.beginRelease(t, now), !t.flying
	if !r.client.Redis.Start(func() { _ = r.finishRelease(t, nobody, nil, wasTicket, first, now) }) {
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
		if !t.contested {
			t.heardOfOthers(now, 1)
		}
	}
}

// calledBack notes that the tenure was called while it lingered.
func (r *room) calledBack(t *tenure, now time.Time) {
	if t.reused {
		delete(r.shard.restless, r.name.room)
		return
	}
	r.disturbed(now)
}

// disturbed notes that others wanted the lock before it was of use here that it lingered.
func (r *room) disturbed(now time.Time) {
	rest := r.shard.restless[r.name.room]
	rest.calls++
	if n := rest.calls - patientCalls; n >= 0 {
		rest.until = later(rest.until, now.Add(min(firstRest<<min(n, 10), lastRest)))
	}
	r.remember(rest, now)
}

// met notes the holder that Redis has named: a guest cannot call.
func (r *room) met(holder string, now time.Time) {
	if holder == "" || wire.IsOurs(holder) || !r.name.kind().foreign {
		return
	}
	rest := r.shard.restless[r.name.room]
	rest.until = later(rest.until, now.Add(guestMemory))
	r.remember(rest, now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (r *room) remember(rest restless, now time.Time) {
	s := r.shard
	if s.restless == nil {
		s.restless = make(map[string]restless)
	}
	if _, ok := s.restless[r.name.room]; !ok && len(s.restless) >= maxRestless {
		s.forgetRestless(now)
	}
	s.restless[r.name.room] = rest
}

// forgetRestless makes room for one more name: it forgets those that may linger again, or
// any one.
func (s *shard) forgetRestless(now time.Time) {
	for name, rest := range s.restless {
		if now.After(rest.until) {
			delete(s.restless, name)
		}
	}
	for name := range s.restless {
		if len(s.restless) >= maxRestless {
			delete(s.restless, name)
		}
	}
}

// rests reports whether the name does not linger now.
func (r *room) rests(now time.Time) bool {
	if len(r.shard.restless) == 0 {
		return false
	}
	rest, ok := r.shard.restless[r.name.room]
	return ok && now.Before(rest.until)
}
