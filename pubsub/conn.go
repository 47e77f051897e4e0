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
	// batchSize is how many channels one SUBSCRIBE carries.
	batchSize = 1000

	// answerWithin bounds every batch. Without a bound rueidis would retry a
	// SUBSCRIBE for ever (it counts as retryable). It is longer than a busy
	// script may hold up a server before the server says so (5 s).
	answerWithin = 6 * time.Second
)

// A conn is one dedicated connection of a link. It only ever subscribes and
// unsubscribes (and asks HELLO in a Cluster), since the embedded server accepts
// nothing else on a connection with subscriptions.
type conn struct {
	link   *link
	client rueidis.DedicatedClient
	addr   string       // the node's, "" if the client does not say
	lost   <-chan error // gets a value, or is closed, when the connection is gone
	worked bool         // a batch went well; owned by the link's goroutine
}

// connect opens the link's connection. Dialing is bounded by the client's own
// time limits, there is no context for it.
func (l *link) connect() (*conn, error) {
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
	l.hub.mu.Lock()
	l.conn = c
	l.hub.mu.Unlock()
	return c, nil
}

// onMessage runs on the connection's reader, as onSubscription does. A hook that
// blocks stops the connection in silence, so both only take the hub's mutex,
// under which nobody waits.
func (c *conn) onMessage(m rueidis.PubSubMessage) {
	h := c.link.hub
	h.mu.Lock()
	var hearers []func(string)
	if ch := h.channels[m.Channel]; ch != nil {
		hearers = ch.messageLocked()
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
	if ch == nil || ch.link != l || l.conn != c {
		return
	}
	switch s.Kind {
	case "subscribe", "ssubscribe":
		ch.confirmLocked(c, !h.cluster)
	case "unsubscribe", "sunsubscribe":
		// Not the answer to an UNSUBSCRIBE of ours: a channel is forgotten
		// before that is sent, and one of the same name is confirmed only after
		// it is answered. The server has let go of the channel because its slot
		// moved or the node is no longer a primary.
		if ch.conn != c {
			return
		}
		if ch.unconfirmLocked(); len(ch.subs) == 0 {
			h.forgetLocked(ch)
		} else {
			l.askLocked(ch)
		}
	}
}

// subscribe asks for a batch of channels. The confirmations come through
// onSubscription: the reply of a SUBSCRIBE of many says only that the first is
// confirmed. An error means that the connection is of no use any more.
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
	c.worked = true
	return nil
}

// together divides channels into those that one command may carry: channels of different
// slots in one SSUBSCRIBE are an error.
func (h *Hub) together(batch []*channel) (parts [][]*channel) {
	var many []*channel
	for _, ch := range batch {
		if h.shards(ch) {
			parts = append(parts, []*channel{ch})
		} else {
			many = append(many, ch)
		}
	}
	return slices.AppendSeq(parts, slices.Chunk(many, batchSize))
}

// shards reports whether the channel is subscribed with SSUBSCRIBE.
func (h *Hub) shards(ch *channel) bool { return h.sharded && !ch.plain }

// ask sends one command for each part, all in one pipeline. One channel
// that is not permitted fails the whole command, so the channels of a failed
// command are then asked for one by one.
func (c *conn) ask(parts [][]*channel) error {
	var commands rueidis.Commands
	for _, part := range parts {
		commands = append(commands, c.subscribeCommand(part))
	}
	replies := c.do(commands)
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

// unsubscribe ends the subscription of channels. One that the server does not
// want to end is left behind with the connection: any error says that the
// connection is of no use any more.
func (c *conn) unsubscribe(batch []*channel) error {
	if len(batch) == 0 {
		return nil
	}
	var commands rueidis.Commands
	for _, part := range c.link.hub.together(batch) {
		commands = append(commands, c.unsubscribeCommand(part))
	}
	for _, reply := range c.do(commands) {
		if err := reply.Error(); err != nil {
			return fmt.Errorf("pubsub: unsubscribe: %w", err)
		}
	}
	return nil
}

// do sends commands in one pipeline. They are pinned: where only some are answered
// rueidis gives these away for others to use, and then sends all of them again.
func (c *conn) do(commands rueidis.Commands) []rueidis.RedisResult {
	for i, command := range commands {
		commands[i] = command.Pin()
	}
	ctx, cancel := context.WithTimeout(c.link.hub.ctx, answerWithin)
	defer cancel()
	return c.client.DoMulti(ctx, commands...)
}

func (c *conn) subscribeCommand(part []*channel) rueidis.Completed {
	names := namesOf(part)
	if c.link.hub.shards(part[0]) {
		return c.client.B().Ssubscribe().Channel(names...).Build()
	}
	return c.client.B().Subscribe().Channel(names...).Build()
}

func (c *conn) unsubscribeCommand(part []*channel) rueidis.Completed {
	names := namesOf(part)
	if c.link.hub.shards(part[0]) {
		return c.client.B().Sunsubscribe().Channel(names...).Build()
	}
	return c.client.B().Unsubscribe().Channel(names...).Build()
}

func namesOf(part []*channel) []string {
	names := make([]string, len(part))
	for i, ch := range part {
		names[i] = ch.name
	}
	return names
}

// notConfirmed settles a channel that the server has answered with an error.
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
	ch.markLocked()
	if ch.plain {
		h.log.Info("pubsub: the server refuses a subscription that nobody waits for", "channel", ch.name, "error", secret.HideUser(err.Error()))
		return
	}
	h.warnRefused.Do(func() {
		h.log.Warn("pubsub: the server refuses a subscription; its waiters have to poll", "channel", ch.name, "error", secret.HideUser(err.Error()))
	})
}

// passing reports whether an error reply says "not now" and not "never".
func passing(err *rueidis.RedisError) bool {
	for _, prefix := range []string{"LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "ASK", "max number of clients"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}
