package wire

import (
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// tracking asks Redis for notices of keys that other clients change: CLIENT TRACKING with
// OPTIN, so that only chosen keys cost anything, and NOLOOP, so that changes over this
// connection send no notice. Redis stops tracking a key after one notice, and after a
// change over this connection.
//
// A pipeline that tracks begins with CLIENT TRACKING ON, which changes nothing where it is on:
// so no connection has to be known. The server forgets all with the connection. The first
// pipeline over a connection also asks whether notices can come over it. Nothing is asked before
// a key is to be tracked.
type tracking struct {
	// on is set if keys are tracked: not with a shared client, whose messages go elsewhere, not
	// over several connections to a node, of which all but one would be others, and not in RESP2,
	// which has no messages between the answers.
	on bool
	// allowed and refused are the marks of the connections over which tracking was allowed, and
	// refused, last: see Mark.
	allowed, refused atomic.Uint64
	refusals         atomic.Int64
}

// tracks reports whether keys may be tracked.
func (o *Options) tracks() bool {
	return o.Tracking && o.Client == nil && o.Redis.PipelineMultiplex < 0 && !o.Redis.AlwaysRESP2
}

// listen makes o's connections report changed keys.
func (c *connections) listen(o rueidis.ClientOption) rueidis.ClientOption {
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
		c.change(keys)
	}
	return o
}

// Tracks reports whether Redis is asked to tell of changed keys: not after it has refused,
// until a connection has ended.
func (r *Redis) Tracks() bool { return r.tracking.on && r.tracking.refused.Load() != r.Mark() }

// TrackingRefused returns over how many connections tracking was refused.
func (r *Redis) TrackingRefused() int64 { return r.tracking.refusals.Load() }

// refuse notes that no keys are tracked over the connection of that mark.
func (t *tracking) refuse(mark uint64) {
	if t.refused.Swap(mark) != mark {
		t.refusals.Add(1)
	}
}

// A trackingStart begins a pipeline that tracks keys.
type trackingStart struct {
	redis *Redis
	mark  uint64
	asks  bool   // whether tracking works over this connection
	near  string // one of the keys: in a Cluster its node is meant
}

// startTracking returns the start of a pipeline with the calls, nil if they track no keys.
func (r *Redis) startTracking(calls []Call) *trackingStart {
	if !r.tracking.on {
		return nil
	}
	for i := range calls {
		if track := calls[i].Track; len(track) > 0 && r.Tracks() {
			mark := r.Mark()
			return &trackingStart{r, mark, r.tracking.allowed.Load() != mark, track[0]}
		}
	}
	return nil
}

func (s *trackingStart) append(cmds []rueidis.Completed) []rueidis.Completed {
	if s == nil {
		return cmds
	}
	b := s.redis.Client.B()
	if s.asks {
		cmds = append(cmds, b.Hello().Build().SetSlot(s.near))
	}
	return append(cmds, b.ClientTracking().On().Optin().Noloop().Build().SetSlot(s.near))
}

// answered reads the replies to what append has appended, and returns those that follow.
func (s *trackingStart) answered(replies []rueidis.RedisResult) []rueidis.RedisResult {
	if s == nil {
		return replies
	}
	if s.asks {
		hello, err := replies[0].AsMap()
		switch {
		case err != nil:
			s.heed(err)
		case reports(hello):
			s.redis.tracking.allowed.Store(s.mark)
		default:
			s.redis.tracking.refuse(s.mark)
		}
		replies = replies[1:]
	}
	s.heed(replies[0].Error())
	return replies[1:]
}

// heed notes the refusal of a command. One that the server cannot execute now is none.
func (s *trackingStart) heed(err error) {
	if f, _ := Diagnose(err); err != nil && Answered(err) && f == Never {
		s.redis.tracking.refuse(s.mark)
	}
}

// reports reports whether a server that says this of a connection reports changed keys over it. That needs RESP3. Before
// Redis 7 NOLOOP does not work: a script's change counts as another client's, and every renewal would send a notice.
func reports(hello map[string]rueidis.RedisMessage) bool {
	proto, version := hello["proto"], hello["version"]
	number, _ := proto.AsInt64()
	text, err := version.ToString()
	return number >= 3 && (err != nil || leading(text) >= 7)
}

// appendReads has the keys of a call tracked that has just been appended: reading them, with
// CACHING set, is what does it.
func (s *trackingStart) appendReads(cmds []rueidis.Completed, keys []string) []rueidis.Completed {
	if s == nil || len(keys) == 0 {
		return cmds
	}
	b := s.redis.Client.B()
	return append(cmds, b.ClientCaching().Yes().Build().SetSlot(keys[0]), b.Exists().Key(keys...).Build())
}

// readsAnswered reads the replies to what appendReads has appended, and returns those that
// follow. A key that is not there any more after its call is as good as one that Redis tells of.
func (s *trackingStart) readsAnswered(replies []rueidis.RedisResult, keys []string, called bool) []rueidis.RedisResult {
	if s == nil || len(keys) == 0 {
		return replies
	}
	if err := Explain(replies[0].Error()); errors.Is(err, ErrNoPermission) || errors.Is(err, ErrUnsupported) {
		s.redis.tracking.refuse(s.mark)
	}
	if there, err := replies[1].AsInt64(); called && err == nil && there < int64(len(keys)) {
		s.redis.conns.change(keys)
	}
	return replies[2:]
}
