package together

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// Clients of Redisson that only poll, as spin locks and loops of tryLock do. They are scripts, without nested levels. Where a
// fault from outside takes a right, such a script is executed in part, and leaves a lock without an end.
func init() {
	lanes = append(lanes, row{"guest", 2, func(w *World) bool { return !w.Outside }, func(g *generator, o *Op) {
		o.Lock = some(g, Lock{"plain", "p"}, Lock{"plain", "q"}, Lock{"write", "rw"}, Lock{"read", "rw"})
		o.add(Choice{Name: "polls", N: 1 + g.IntN(20)})
		o.add(Choice{Name: "for", D: g.ms(some(g, 5, 60))})
		o.add(Choice{Name: "publishes", N: g.IntN(2)})
	}, (*caller).guest})
}

const (
	guestTakes = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], ARGV[1], 1)
		return redis.call('pexpire', KEYS[1], 3000)`
	guestWrites = `
		if redis.call('exists', KEYS[1]) == 1 then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'write', ARGV[1] .. ':write', 1)
		return redis.call('pexpire', KEYS[1], 3000)`
	guestReads = `
		if redis.call('hget', KEYS[1], 'mode') == 'write' then
			return 0
		end
		redis.call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
		redis.call('set', ARGV[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:1', 1, 'px', 3000)
		return redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), 3000))`
	guestLeaves = `
		redis.call('hdel', KEYS[1], ARGV[1], ARGV[1] .. ':write')
		redis.call('del', ARGV[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:1')
		local left = redis.call('hkeys', KEYS[1])
		if #left > 1 or left[1] and left[1] ~= 'mode' then
			return 0
		end
		redis.call('del', KEYS[1])
		return ARGV[2] == '' and 0 or redis.call('publish', ARGV[2], '0')`
)

// guest polls for a lock, and holds it for a while.
func (c *caller) guest(o *Op) {
	r, a := c.run, c.run.admin[0]
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	key, owner := r.program.World.Prefix+o.Lock.Name, fmt.Sprintf("4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:%d", o.ID)
	tagged := "{" + key + "}"
	if strings.Contains(key, "{") {
		tagged = key // as in Redisson's prefixName and suffixName
	}
	takes, channel := guestTakes, "redisson_lock__channel:"+tagged
	switch o.Lock.Kind {
	case "write":
		takes, channel = guestWrites, "redisson_rwlock:"+tagged
	case "read":
		takes, channel = guestReads, "redisson_rwlock:"+tagged
	}
	if o.arg("publishes").N == 0 {
		channel = ""
	}
	for range o.arg("polls").N {
		got, err := a.Do(ctx, a.B().Eval().Script(takes).Numkeys(1).Key(key).Arg(owner, tagged).Build()).AsInt64()
		if err != nil {
			return
		}
		if got == 0 {
			time.Sleep(40 * ms)
			continue
		}
		r.face.call("guest")
		op := history.Op{Worker: c.lane, Method: history.Acquire, Name: o.Lock.Name, Owner: owner, Lease: 3 * time.Second, Shared: o.Lock.Kind == "read"}
		c.m.recorder.Begin(op).End(history.Result{Outcome: history.Acquired, Until: history.At(time.Now().Add(o.arg("for").D))})
		from := r.now()
		time.Sleep(o.arg("for").D)
		op.Method = history.Release
		leaves := c.m.recorder.Begin(op)
		if err := a.Do(ctx, a.B().Eval().Script(guestLeaves).Numkeys(1).Key(key).Arg(owner, channel, tagged).Build()).Error(); err != nil {
			leaves.End(history.Result{Outcome: history.Unconfirmed})
			return // it ends with its lease
		}
		leaves.End(history.Result{Outcome: history.Released})
		// Without a message waiters look within two seconds. Open: a writer has waited for a second more (the program of seed 200
		// has it), nearly until the end of a guest's lease.
		r.apart(o.Lock, from, r.now()+looks+time.Second)
		return
	}
}
