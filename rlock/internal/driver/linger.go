package driver

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

const (
	// maxLingering is how many tenures of a shard linger at most: some ten thousand of all shards of a
	// kind. The oldest is released for the next.
	maxLingering = 10_000 / shardCount
	// leastCall is how long a client that has called waits at least until it asks again, if it does not wait
	// in the queue: in a Cluster a message goes from node to node.
	leastCall, leastCallInCluster = time.Millisecond, 5 * time.Millisecond
)

// lingerOf returns for how long the tenure of the request is to linger at its end.
func (l *lock) lingerOf(req *client.Request, now core.Now) time.Duration {
	config := &l.shard.client.shared.Config
	linger := req.Linger
	if linger == 0 {
		linger = config.Linger
	}
	if linger <= 0 || config.RedissonPolls == wire.RedissonPollsAlways || config.NoClientChannel || req.Whole != nil || l.kind().permits || l.backsOff(now) {
		return 0
	}
	return linger
}

// mayLinger keeps the tenure from lingering at its end if calls of other clients would not be
// heard, or came too often of late.
func (l *lock) mayLinger(now core.Now) {
	if l.MayLinger() && (!l.shard.client.shared.Hears() || l.backsOff(now)) {
		l.NoLinger()
	}
}

// lingers notes whether the tenure lingers.
func (s *shard) lingers(k *work) {
	switch lingers := k.lock.Lingers() && k.lock.Owner() == k.tenure; {
	case lingers == k.lingers():
		return
	case !lingers:
		s.endsLinger(k)
		return
	}
	if s.lingering.Len() >= maxLingering {
		first := s.lingering.Head().Value
		s.endsLinger(first)
		first.lock.EndLinger(s.at)
	}
	if k.linger == nil {
		k.linger = &waitqueue.Waiter[*work]{Value: k}
	}
	s.lingering.Join(k.linger)
}

func (s *shard) endsLinger(k *work) { s.lingering.Leave(k.linger) }

// lingers reports whether the tenure is among the shard's lingering.
func (k *work) lingers() bool { return k.linger != nil && k.linger.InLine() }

// callTime is how long a call waits after a holder elsewhere was called until it asks again, if its command took
// so long. A holder with our latency releases half a round trip after the call. A call that may join the
// queue then does not wait for one that is slower.
func (c *Client) callTime(took time.Duration, queues bool) time.Duration {
	switch {
	case queues:
		return took / 2
	case c.wire.traits().cluster:
		return max(took, leastCallInCluster)
	}
	return max(took, leastCall)
}

const (
	// foreignMemory is for how long a name does not linger on which a foreign client was met. Those cannot call.
	foreignMemory = 5 * time.Minute
	// maxBackoffs is how many names a shard remembers that do not linger.
	maxBackoffs = 256
	// callsAllowed is how often in a row a name is called back, without a Lock here that profited from it,
	// before it stops lingering; then for firstBackoff, doubling to lastBackoff.
	callsAllowed              = 2
	firstBackoff, lastBackoff = time.Second, time.Minute
)

// A backoff says that a lock does not linger for a while, since others want it as often as this client does,
// or a foreign client was met. The shard's mutex protects it.
type backoff struct {
	calls int       // in a row without a profit
	until core.Time // it does not linger
}

// calledBack notes that the tenure was called while it lingered.
func (l *lock) calledBack(now core.Now) {
	if l.reused {
		delete(l.shard.backoffs, l.name.Key)
		return
	}
	l.contendedFor(now)
}

// contendedFor notes that others wanted the lock before it was of use here that it lingered.
func (l *lock) contendedFor(now core.Now) {
	least := time.Duration(0)
	if n := l.shard.backoffs[l.name.Key].calls + 1 - callsAllowed; n >= 0 {
		least = min(firstBackoff<<min(n, 10), lastBackoff)
	}
	l.backOff(1, least, now)
}

// met notes the holder that Redis has named: a foreign client cannot call.
func (l *lock) met(holder string, lingers bool, now core.Now) {
	if (lingers || l.shard.client.shared.Config.Linger > 0) && holder != "" && !wire.IsOurs(holder) && l.kind().foreign {
		l.backOff(0, foreignMemory, now)
	}
}

// backOff keeps the lock from lingering for at least so long, after so many more calls.
func (l *lock) backOff(calls int, least time.Duration, now core.Now) {
	s, name := l.shard, l.name.Key
	if s.backoffs == nil {
		s.backoffs = make(map[string]backoff)
	}
	b, known := s.backoffs[name]
	if !known && len(s.backoffs) >= maxBackoffs {
		s.forgetBackoffs(now)
	}
	b.calls += calls
	b.until = max(b.until, now.Time.After(core.Span(least)))
	s.backoffs[name] = b
}

// forgetBackoffs makes room for one more name: it forgets those that may linger again, or any one.
func (s *shard) forgetBackoffs(now core.Now) {
	for name, b := range s.backoffs {
		if now.Time > b.until {
			delete(s.backoffs, name)
		}
	}
	for name := range s.backoffs {
		if len(s.backoffs) >= maxBackoffs {
			delete(s.backoffs, name)
		}
	}
}

// backsOff reports whether the lock does not linger now.
func (l *lock) backsOff(now core.Now) bool {
	if len(l.shard.backoffs) == 0 {
		return false
	}
	b, ok := l.shard.backoffs[l.name.Key]
	return ok && now.Time < b.until
}
