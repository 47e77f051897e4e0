package pubsub

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/secret"
)

const (
	// batchSize is the largest number of channels in one SUBSCRIBE.
	batchSize = 1000

	// answerWithin bounds every batch. Without a bound rueidis would retry a SUBSCRIBE for ever,
	// since it takes SUBSCRIBE for a command that only reads. It is longer than the 5 s after which
	// a server that is busy with a script says so.
	answerWithin = 6 * time.Second
)

// A conn is one dedicated connection of a link. It asks for its server (INFO; HELLO in a Cluster),
// and after that it only subscribes: the embedded server accepts nothing else on a connection with
// subscriptions.
//
// It never unsubscribes. rueidis follows an UNSUBSCRIBE by a PING. If a server answers both with an
// error (BUSY while a script runs for too long, or any other refusal), rueidis panics in a
// goroutine of its own, which ends the process (see docs/peers.md). An error in answer to a
// SUBSCRIBE or to a PING alone is harmless. So subscriptions end with their connection: see
// renew.go.
type conn struct {
	link   *link
	client rueidis.DedicatedClient
	addr   string       // the node's address; "" if the client does not know it
	server string       // the run id of the server; "" if it is not known: see follow.go
	lost   <-chan error // gets a value, or is closed, when the connection is gone
	worked bool         // a batch was answered; only the link's goroutine uses the field
}

// open opens a connection for the link. The dial takes no context; the time limits of the client
// bound it.
func (l *link) open() (*conn, error) {
	node, addr, err := l.hub.node(l.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{link: l, addr: addr}
	c.client, _ = node.Dedicate()
	c.lost = c.client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      c.onMessage,
		OnSubscription: c.onSubscription,
	})
	select {
	case err := <-c.lost:
		c.client.Close()
		return nil, fmt.Errorf("pubsub: open a connection: %w", err)
	default:
	}
	if l.hub.compares() {
		c.server = l.hub.serverOf(c.client)
	}
	return c, nil
}

// close ends the connection, and with it its subscriptions. It may take a second if the server is
// silent.
func (c *conn) close() { c.client.Close() }

// onMessage runs on the connection's reader, and so does onSubscription. A hook that blocks would
// stop the reader, so both wait for nothing but the hub's mutex, under which nothing waits.
func (c *conn) onMessage(m rueidis.PubSubMessage) {
	h := c.link.hub
	h.mu.Lock()
	var hearers []func(string)
	if ch := h.channels[m.Channel]; ch != nil && ch.conn.Load() == c {
		hearers = ch.hearersLocked()
	}
	h.mu.Unlock()
	for _, hear := range hearers {
		hear(m.Message)
	}
}

func (c *conn) onSubscription(s rueidis.PubSubSubscription) {
	l := c.link
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	ch := h.channels[s.Channel]
	if ch == nil || ch.link != l {
		return
	}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		switch {
		case l.conn != c:
			ch.next = c
		case ch.conn.Load() != c:
			ch.confirmLocked(c, !h.cluster)
		}
	case "unsubscribe", "sunsubscribe":
		// The server has ended the subscription because the slot moved or the node is no longer a
		// primary: the hub sends no command for it.
		if ch.next == c {
			ch.next = nil
		}
		if ch.conn.Load() != c {
			return
		}
		if ch.unconfirmLocked(); len(ch.subs) == 0 {
			h.forgetLocked(ch)
		} else {
			l.askLocked(ch)
		}
	}
}

// subscribe asks for a batch of channels. When it returns, onSubscription has seen the
// confirmations. An error means that the connection is of no use any more.
func (c *conn) subscribe(batch []*channel) error {
	if len(batch) == 0 {
		return nil
	}
	if err := c.ask(c.link.hub.together(batch)); err != nil {
		return err
	}
	if err := c.count(batch); err != nil {
		return err
	}
	c.link.noteServed(c)
	return nil
}

// together divides channels into groups that one command may carry: channels of different slots in
// one SSUBSCRIBE are an error. rueidis takes the first confirmation of a command for its reply. So
// the last channel of several is subscribed to by another command: its reply comes behind all
// confirmations.
func (h *Hub) together(batch []*channel) (parts [][]*channel) {
	var many []*channel
	for _, ch := range batch {
		if h.shards(ch) {
			parts = append(parts, []*channel{ch})
		} else {
			many = append(many, ch)
		}
	}
	parts = slices.AppendSeq(parts, slices.Chunk(many, batchSize))
	if len(many) > 1 {
		parts = append(parts, many[len(many)-1:])
	}
	return parts
}

// shards reports whether the channel is subscribed with SSUBSCRIBE.
func (h *Hub) shards(ch *channel) bool { return h.sharded && !ch.plain }

// ask sends one command for each part, all in one pipeline. A command fails as a whole if one of
// its channels is not permitted: then its channels are asked for one by one.
func (c *conn) ask(parts [][]*channel) error {
	replies := c.do(c.subscribeCommands(parts))
	var oneByOne [][]*channel
	for i, part := range parts {
		err := replies[i].Error()
		refusal, answered := rueidis.IsRedisErr(err)
		switch {
		case err == nil:
		case !answered:
			return fmt.Errorf("pubsub: subscribe: %w", err)
		case len(part) > 1:
			oneByOne = slices.AppendSeq(oneByOne, slices.Chunk(part, 1))
		default:
			c.notConfirmed(part[0], refusal)
		}
	}
	if len(oneByOne) > 0 {
		return c.ask(oneByOne)
	}
	return nil
}

// do sends commands in one pipeline. They are pinned: otherwise, after a pipeline that was answered
// in part, rueidis reuses the answered commands for other calls, and then sends all of them again.
func (c *conn) do(commands rueidis.Commands) []rueidis.RedisResult {
	for i, command := range commands {
		commands[i] = command.Pin()
	}
	ctx, cancel := context.WithTimeout(c.link.hub.ctx, answerWithin)
	defer cancel()
	return c.client.DoMulti(ctx, commands...)
}

func (c *conn) subscribeCommands(parts [][]*channel) (commands rueidis.Commands) {
	for _, part := range parts {
		names := namesOf(part)
		if c.link.hub.shards(part[0]) {
			commands = append(commands, c.client.B().Ssubscribe().Channel(names...).Build())
		} else {
			commands = append(commands, c.client.B().Subscribe().Channel(names...).Build())
		}
	}
	return commands
}

func namesOf(part []*channel) []string {
	names := make([]string, len(part))
	for i, ch := range part {
		names[i] = ch.name
	}
	return names
}

// notConfirmed notes that the server has answered the subscription of a channel with an error.
func (c *conn) notConfirmed(ch *channel, err *rueidis.RedisError) {
	l := c.link
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if ch.link != l {
		return
	}
	if addr, moved := err.IsMoved(); moved {
		h.movedLocked(ch, addr)
		return
	}
	if passing(err) {
		l.later = append(l.later, ch)
		return
	}
	ch.refused = &Refusal{ch.name, err}
	ch.wakeLocked()
	if ch.plain {
		h.log.Info("rlock: Redis refuses a subscription without waiters", "channel", ch.name, "error", secret.HideUser(err.Error()))
		return
	}
	h.warnRefused.Do(func() {
		h.log.Warn("rlock: Redis refuses to notify waiters of a lock: they poll", "channel", ch.name, "error", secret.HideUser(err.Error()))
	})
}

// passing reports whether an error reply means "not now", and not "never".
func passing(err *rueidis.RedisError) bool {
	for _, prefix := range []string{"LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "ASK", "max number of clients"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}
