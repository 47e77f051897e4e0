package engine

import (
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

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

// told deals with a message on the client's own channel. An answer is heard by the call that
// has asked: see package diag.
func (c *Client) told(message string) {
	m, ok := wire.ParseClientMessage(message)
	switch {
	case !ok || c.Closed.Load():
	case m.Verb == wire.Asks:
		c.diag.Asked(m)
	case m.Verb != wire.Answers && strings.HasPrefix(m.Owner, c.ID.Prefix):
		c.toldOfTenure(m)
	}
}

// toldOfTenure deals with a message about a tenure. Rooms of all kinds share the name. It may
// be untrue, and so is a reason to ask Redis or to release the lock, and no proof of a loss. A
// verb that is not known is of a later version.
func (c *Client) toldOfTenure(m wire.ClientMessage) {
	for r := range c.roomsFor(m.Text, m.Owner) {
		t := r.tenureOf(m.Owner)
		switch {
		case t == nil:
			continue
		case m.Verb == wire.Forced && t.kept():
			t.mirror()
		case m.Verb == wire.Wanted:
			t.recall(time.Now())
		}
		return
	}
	for _, b := range c.besides() {
		if b.Told(m) {
			return
		}
	}
}

// tenureOf returns the tenure of an owner in Redis, nil if it is over: that of the room, or
// one whose answer is on its way.
func (r *room) tenureOf(owner string) *tenure {
	if t := r.tenure; t != nil && t.is(owner) {
		return t
	}
	if w := r.waiterWith(owner); w != nil {
		return w.ticket
	}
	return nil
}
