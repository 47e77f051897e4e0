package pubsub

import (
	"fmt"
	"net"
	"slices"

	"github.com/redis/rueidis"
)

// maxRedirects is the number of consecutive MOVED replies that a channel follows before it pauses:
// while a slot changes hands, its nodes may send a client back and forth.
const maxRedirects = 5

// routed reports whether channels belong to particular nodes. If they do not, one link has all
// channels, and leads to wherever the client leads.
func (h *Hub) routed() bool { return h.sharded && h.cluster }

// routeLocked gives ch to the link that should subscribe to it next. In a Cluster this is the link
// of the node that owns the channel's slot. If the owner is not known, any node will do, since it
// answers with MOVED. The node to avoid is taken only if there is no other. Needs mu.
func (h *Hub) routeLocked(ch *channel, avoid string) {
	if h.client == nil { // Open will call it
		return
	}
	addr := ""
	switch {
	case !h.routed():
	case ch.plain:
		addr = h.anyNodeLocked(avoid) // each node gets every PUBLISH
	default:
		slot := h.slot(ch.name)
		addr = h.owners[slot]
		if addr == "" || addr == avoid {
			delete(h.owners, slot)
			addr = h.anyNodeLocked(avoid)
		}
	}
	ch.detachLocked()
	if h.ctx.Err() != nil {
		return
	}
	l := h.links[addr]
	if l == nil {
		l = h.newLinkLocked(addr)
	}
	ch.link = l
	l.channels[ch.name] = ch
	l.askLocked(ch)
}

// movedLocked follows a MOVED. Needs mu.
func (h *Hub) movedLocked(ch *channel, addr string) {
	// A node that does not know its own host name omits it, and means the host that was asked.
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		host, _, _ = net.SplitHostPort(ch.link.addr)
		addr = net.JoinHostPort(host, port)
	}
	h.owners[h.slot(ch.name)] = addr
	if ch.redirects++; ch.redirects > maxRedirects {
		ch.link.later = append(ch.link.later, ch)
		return
	}
	h.rerouteLocked(ch, "")
}

// rerouteLocked is routeLocked for a channel whose link could not subscribe to it. A channel that
// only lingered is forgotten: no server has it, and on another link nothing would end its
// lingering. Needs mu.
func (h *Hub) rerouteLocked(ch *channel, avoid string) {
	if len(ch.subs) == 0 {
		h.forgetLocked(ch)
		return
	}
	h.routeLocked(ch, avoid)
}

// anyNodeLocked returns a node to ask, preferably one with a connection. Needs mu.
func (h *Hub) anyNodeLocked(avoid string) string {
	for addr, l := range h.links {
		if addr != avoid && l.conn != nil {
			return addr
		}
	}
	for addr := range h.client.Nodes() {
		if addr != avoid {
			return addr
		}
	}
	return avoid
}

func (h *Hub) slot(name string) uint16 {
	command := h.client.B().Ssubscribe().Channel(name).Build()
	return command.Slot()
}

// node returns a client that opens connections to addr, and the address to which the client leads,
// or "" if it is not known. The address "" stands for the primary of a single server, and for any
// node of a Cluster, since each node gets every PUBLISH.
func (h *Hub) node(addr string) (rueidis.Client, string, error) {
	nodes := h.client.Nodes()
	if addr != "" {
		if node, ok := nodes[addr]; ok {
			return node, addr, nil
		}
		// a MOVED has named the node, and the client's next refresh will find it
		return nil, "", fmt.Errorf("%w: %s", errNodeGone, addr)
	}
	if len(nodes) == 1 || h.cluster {
		for addr, node := range nodes {
			return node, addr, nil
		}
	}
	return h.client, "", nil // the client knows the primary
}

// leadsTo reports whether the client still sends commands to addr. After a planned failover by
// Sentinel it does not, while the demoted primary keeps its connections for some 10 s, without
// messages. leadsTo sends no command.
func (h *Hub) leadsTo(addr string) bool {
	if addr == "" {
		return true
	}
	_, ok := h.client.Nodes()[addr]
	return ok
}

// count notes which channels of a batch the server counts, in so far as this connection has
// confirmed them.
func (c *conn) count(batch []*channel) error {
	h := c.link.hub
	counts, err := c.counts(batch)
	if err != nil || !counts || !h.routed() {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range batch {
		if ch.conn.Load() == c && h.shards(ch) { // else a MOVED has led the channel elsewhere
			ch.counted = true
		}
	}
	return nil
}

// counts reports whether the node counts the subscribers of a batch that commands about these
// channels find there. For SSUBSCRIBE it asks the node whether it is a primary, and returns an
// error for a replica: a replica accepts SSUBSCRIBE for the slots of its primary and gets the
// messages, but the primary does not count the subscriber. The node is asked after the batch, since
// a primary that becomes a replica ends all its subscriptions.
func (c *conn) counts(batch []*channel) (bool, error) {
	h := c.link.hub
	if !h.routed() || !slices.ContainsFunc(batch, h.shards) {
		return true, nil
	}
	replies := c.do(rueidis.Commands{c.client.B().Hello().Build()})
	hello, err := replies[0].AsMap()
	if _, refused := rueidis.IsRedisErr(err); refused {
		return false, nil // the role is not known
	} else if err != nil {
		return false, fmt.Errorf("pubsub: hello: %w", err)
	}
	role := hello["role"]
	if name, _ := role.ToString(); name != "master" {
		return false, fmt.Errorf("%w: %s", errNotPrimary, c.addr)
	}
	return true, nil
}
