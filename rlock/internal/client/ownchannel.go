package client

import (
	"strings"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// HearOfTenures subscribes to the client's own channel, with its first tenure: one that never
// holds a lock needs none. It waits for nothing, and may be called with a mutex held. The
// subscription ends with the hub.
func (c *Client) HearOfTenures() {
	if !c.Config.NoClientChannel {
		c.hearing.Do(func() { c.own.Store(c.Hub.ListenPlain(wire.ClientChannel(c.ID.Prefix), c.told)) })
	}
}

// Hears reports whether messages on the client's own channel come.
func (c *Client) Hears() bool {
	own := c.own.Load()
	return own != nil && own.Confirmed()
}

// told deals with a message on the client's own channel. An answer is heard by the call that
// has asked: see package diag. A message about a tenure may be untrue, and so is a reason to ask
// Redis or to release the lock, and no proof of a loss. A verb that is not known is of a later version.
func (c *Client) told(message string) {
	m, ok := wire.ParseClientMessage(message)
	switch {
	case !ok || c.Closed.Load():
	case m.Verb == wire.Asks:
		c.diag.Asked(m)
	case m.Verb != wire.Answers && strings.HasPrefix(m.Owner, c.ID.Prefix):
		c.locks.Told(m)
	}
}
