package wire

import (
	"context"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// tracking has Redis tell when somebody else changes a key: CLIENT TRACKING with OPTIN, so
// that it costs nothing but for the keys that are asked for, and NOLOOP, so that what this
// connection changes itself is not told. A key is told of once; and what this connection
// changes is not tracked any more after that.
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
	// changed is called with keys that somebody changed, and with none where it may have
	// been any; nil until the client is made.
	changed atomic.Pointer[func(keys []string)]
}

// listen has o's connections tell of changed keys.
func (t *tracking) listen(o rueidis.ClientOption) rueidis.ClientOption {
	others := o.OnInvalidations
	o.OnInvalidations = func(messages []rueidis.RedisMessage) {
		if others != nil {
			others(messages)
		}
		changed := t.changed.Load()
		if changed == nil {
			return
		}
		var keys []string
		for _, message := range messages {
			if key, err := message.ToString(); err == nil {
				keys = append(keys, key)
			}
		}
		(*changed)(keys)
	}
	return o
}

// sparesOwn reports whether NOLOOP works: before Redis 7 a server takes what a script changes
// for somebody else's change, and would tell of every renewal. A server that does not say its
// version is asked to track.
func (r *Redis) sparesOwn() bool {
	ctx, cancel := r.Within(r.ctx)
	defer cancel()
	hello, err := r.Client.Do(ctx, r.Client.B().Hello().Build()).AsMap()
	if err != nil {
		return true
	}
	version := hello["version"]
	text, err := version.ToString()
	return err != nil || leading(text) >= 7
}

// OnKeysChanged has changed called with tracked keys that somebody else has changed, with
// none where it may have been any of them. It is called by the reader of a connection, so
// that it must not wait.
func (r *Redis) OnKeysChanged(changed func(keys []string)) { r.tracking.changed.Store(&changed) }

// Tracks reports whether Redis is asked to tell of changed keys: not after it has refused,
// until a connection has ended.
func (r *Redis) Tracks() bool { return r.tracking.on && r.tracking.refused.Load() != r.Mark() }

// doTracked is doAll where some calls have keys to be tracked. Each is followed by a command
// that reads the keys, for which CACHING is set: reading is what has them tracked. A key that
// is not there any more by then is as good as one that Redis tells of.
func (r *Redis) doTracked(ctx context.Context, calls []Call) []rueidis.RedisResult {
	mark := r.Mark()
	results := make([]rueidis.RedisResult, len(calls))
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	again := r.pipeline(ctx, mark, calls, all, Call.evalsha, results)
	if len(again) > 0 {
		r.pipeline(ctx, mark, calls, again, Call.eval, results)
	}
	return results
}

// pipeline sends the calls at these places and fills in their results. It returns the places
// of those whose script the server does not know.
func (r *Redis) pipeline(ctx context.Context, mark uint64, calls []Call, places []int, build func(Call, rueidis.Client) rueidis.Completed, results []rueidis.RedisResult) (again []int) {
	b, tracks := r.Client.B, r.Tracks()
	cmds := make([]rueidis.Completed, 0, 1+3*len(places))
	if tracks {
		cmds = append(cmds, b().ClientTracking().On().Optin().Noloop().Build())
	}
	for _, i := range places {
		cmds = append(cmds, build(calls[i], r.Client))
		if keys := calls[i].Track; tracks && len(keys) > 0 {
			cmds = append(cmds, b().ClientCaching().Yes().Build(), b().Exists().Key(keys...).Build())
		}
	}
	replies := r.Client.DoMulti(ctx, cmds...)
	at := 0
	if tracks {
		at++
		if err := replies[0].Error(); err != nil && Answered(err) {
			r.tracking.refused.Store(mark)
		}
	}
	for _, i := range places {
		results[i] = replies[at]
		if forgotten(results[i]) {
			again = append(again, i)
		}
		at++
		if keys := calls[i].Track; tracks && len(keys) > 0 {
			at += 2
			if there, err := replies[at-1].AsInt64(); err == nil && there < int64(len(keys)) && !forgotten(results[i]) {
				if changed := r.tracking.changed.Load(); changed != nil {
					(*changed)(keys)
				}
			}
		}
	}
	return again
}
