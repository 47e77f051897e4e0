package wire

import (
	"sync/atomic"

	"github.com/redis/rueidis"
)

// tracking asks Redis for notices of keys that other clients change: CLIENT TRACKING with
// OPTIN, so that only chosen keys cost anything, and NOLOOP, so that changes over this
// connection send no notice. Redis stops tracking a key after one notice, and after a
// change over this connection.
//
// A pipeline that tracks begins with CLIENT TRACKING ON, which changes nothing where it is on:
// so no connection has to be known. The server forgets all with the connection.
type tracking struct {
	// on is set if keys are tracked: not with a shared client, whose messages go elsewhere,
	// and not in a Cluster, where rueidis does not send commands without a key where those
	// with the key go.
	on bool
	// refused is the mark of the connection over which tracking was refused last: see Mark.
	refused atomic.Uint64
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

// sparesOwn reports whether NOLOOP works: before Redis 7 a script's change counts as another
// client's, and every renewal would send a notice. A server that does not say its version is
// asked to track.
func (r *Redis) sparesOwn() bool {
	hello, err := r.Hello(r.ctx, r.Client)
	return err != nil || hello["version"] == "" || leading(hello["version"]) >= 7
}

// Tracks reports whether Redis is asked to tell of changed keys: not after it has refused,
// until a connection has ended.
func (r *Redis) Tracks() bool { return r.tracking.on && r.tracking.refused.Load() != r.Mark() }

// trackingOn begins a pipeline that tracks.
func (r *Redis) trackingOn() rueidis.Completed {
	return r.Client.B().ClientTracking().On().Optin().Noloop().Build()
}

func (r *Redis) trackingAnswered(reply rueidis.RedisResult, mark uint64) {
	if err := reply.Error(); err != nil && Answered(err) {
		r.tracking.refused.Store(mark)
	}
}

// appendReads has the keys of a call tracked that has just been appended: reading them, with
// CACHING set, is what does it.
func (r *Redis) appendReads(cmds []rueidis.Completed, keys []string) []rueidis.Completed {
	if len(keys) == 0 {
		return cmds
	}
	return append(cmds, r.Client.B().ClientCaching().Yes().Build(), r.Client.B().Exists().Key(keys...).Build())
}

// readsAnswered reads the replies to what appendReads has appended, and returns those that
// follow. A key that is not there any more after its call is as good as one that Redis tells of.
func (r *Redis) readsAnswered(replies []rueidis.RedisResult, keys []string, called bool) []rueidis.RedisResult {
	if len(keys) == 0 {
		return replies
	}
	if there, err := replies[1].AsInt64(); called && err == nil && there < int64(len(keys)) {
		r.conns.change(keys)
	}
	return replies[2:]
}
