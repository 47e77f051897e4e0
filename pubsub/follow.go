package pubsub

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// An address (a DNS name, a service, a balancer) may lead to another server one day, while the old
// one lives on and keeps its connections. The client's commands follow the address when their
// connection is opened anew. The subscriptions would stay with the old server, and no message would
// come. So a connection asks its server for its run id before it subscribes, and the hub compares
// the run ids of this server and of the commands' server: once for each connection, and whenever
// [Hub.CheckServer] is called. A connection that leads elsewhere is opened again.
//
// A server that does not say its run id is believed to be the right one. In a Cluster nothing is
// compared: messages come from any node, or from the node that the Cluster names.

const (
	// A connection that leads elsewhere is opened again at once, then after firstMove, and each
	// time after twice the last pause, up to lastMove: behind some proxies each connection has
	// another run id.
	firstMove, lastMove = time.Second, 30 * time.Second
)

var errElsewhere = errors.New("pubsub: messages come from another server than the one of the commands")

// CheckServer finds out, in the background, whether messages come from the server to which the
// client sends commands. If not, it subscribes at that server. The caller calls it when the
// connection of the commands was opened anew, since the address may lead to another server by then.
func (h *Hub) CheckServer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.links[""]; l != nil && l.conn != nil {
		l.compareLocked()
	}
}

// useLocked makes c the connection of the link. Needs Hub.mu.
func (l *link) useLocked(c *conn) {
	l.conn, l.moveAt = c, time.Time{}
	l.compareLocked()
}

// compareLocked finds out whether the link's connection leads to the server of the commands. Needs
// Hub.mu.
func (l *link) compareLocked() {
	h, c := l.hub, l.conn
	if c.server == "" || h.ctx.Err() != nil {
		return
	}
	h.running.Go(func() {
		server := h.serverOf(h.client)
		h.mu.Lock()
		defer h.mu.Unlock()
		if server == "" || l.conn != c {
			return
		}
		switch {
		case server == c.server:
			l.move, l.moveAt = 0, time.Time{}
		case l.moveAt.IsZero():
			l.moveAt = time.Now().Add(l.move)
		}
		l.kick()
	})
}

// moveTime returns the time at which the connection is to be opened again, since it leads to
// another server than the commands; zero if it is not known to lead elsewhere.
func (l *link) moveTime() time.Time {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	return l.moveAt
}

// doubleMoveLocked doubles the pause before the connection is opened again the next time, since it
// is about to be opened again now. Needs Hub.mu.
func (l *link) doubleMoveLocked() { l.move = min(max(2*l.move, firstMove), lastMove) }

// compares reports whether the hub compares the servers of its connections with the server of the
// commands.
func (h *Hub) compares() bool { return !h.cluster }

// serverOf returns the run id of the server to which commands of a client go, or "".
func (h *Hub) serverOf(client rueidis.CommandClient) string {
	ctx, cancel := context.WithTimeout(h.ctx, answerWithin)
	defer cancel()
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	return ""
}
