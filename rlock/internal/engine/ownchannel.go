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
	wire.Forced: func(t *tenure, _ time.Time) { t.mirror() },
}

// hearOfTenures subscribes to the client's own channel, with its first tenure: one that never
// holds a lock needs none. It waits for nothing, and may be called with a mutex held. The
// subscription ends with the hub.
func (c *Client) hearOfTenures() {
	if !c.Config.NoClientChannel {
		c.hearing.Do(func() { c.hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.told) })
	}
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
		t := r.tenure
		known := t != nil && t.phase == held && strings.HasPrefix(m.Owner, t.text[:wire.TenureLen])
		if known {
			do(t, time.Now())
		}
		r.exit()
		if known {
			return
		}
	}
}
