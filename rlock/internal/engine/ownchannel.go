package engine

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// verbs are what a client does when it is told of a tenure that holds the lock: each is
// called with the shard's mutex held. A message may be untrue, so that none of them may
// believe it.
var verbs = map[wire.Verb]func(t *tenure, now time.Time){
	wire.Forced: func(t *tenure, _ time.Time) {
		if t.kept() {
			t.mirror()
		}
	},
}

// hearOfTenures subscribes to the client's own channel, with its first tenure: one that never
// holds a lock needs none. It waits for nothing, and may be called with a mutex held. The
// subscription ends with the hub.
func (c *Client) hearOfTenures() {
	if !c.Config.NoClientChannel {
		c.hearing.Do(func() { c.own.Store(c.hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.told)) })
	}
}

// hears reports whether messages on the client's own channel come.
func (c *Client) hears() bool {
	own := c.own.Load()
	return own != nil && own.Confirmed()
}

// told deals with a message on the client's own channel. Rooms of all kinds share the name.
func (c *Client) told(message string) {
	m, ok := wire.ParseClientMessage(message)
	do := verbs[m.Verb]
	if !ok || do == nil || !strings.HasPrefix(m.Owner, c.ID.Prefix) || c.Closed.Load() {
		return
	}
	for id := range kinds {
		n := &Name{Keys: wire.Keys{Key: m.Lock}, KindID: KindID(id), room: m.Lock, shard: c.shardOf(KindID(id), m.Lock)}
		r := c.enterIfAny(c.nameForText(n, m.Owner))
		if r == nil {
			continue
		}
		t := r.tenureOf(m.Owner)
		known := t != nil
		if known {
			do(t, time.Now())
		}
		r.exit()
		if known {
			return
		}
	}
}

// tenureOf returns the tenure of an owner in Redis, nil if it is over: that of the room, or
// one whose answer is on its way.
func (r *room) tenureOf(owner string) *tenure {
	if t := r.tenure; t != nil && strings.HasPrefix(owner, t.text[:wire.TenureLen]) {
		return t
	}
	if w := r.waiterWith(owner); w != nil {
		return w.Value.ticket
	}
	return nil
}
