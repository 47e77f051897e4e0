package pubsub

import (
	"container/list"
	"sync/atomic"
	"time"
)

// A channel is the hub's state of one name that has, or lately had, a subscriber. Hub.mu guards its
// fields.
type channel struct {
	name  string // the name; it never changes
	plain bool   // the channel is subscribed with SUBSCRIBE although the hub is Sharded, and has no waiters
	subs  []*Subscription
	// hear is the function of the last Listen. It gets the messages while subs is empty: the server
	// still counts this client as a subscriber, and others may rely on the subscriber.
	hear func(message string)
	link *link // the link that has the channel; nil once forgotten

	// conn is the connection over which the server has confirmed the channel, or nil. It may be
	// read without Hub.mu.
	conn atomic.Pointer[conn]
	// next is the connection that is about to replace conn and has confirmed the channel, or nil:
	// see link.moveTo.
	next *conn
	// counted is set while the node to which commands about this channel go counts conn as a
	// subscriber.
	counted bool
	// refused is the server's final refusal of the channel.
	refused error
	// ended is the number of connections, since the last confirmation, that the server ended before
	// they worked.
	ended int
	// barred is the error of the last of these connections, once there are barredAfter of them.
	barred error
	// redirects is the number of MOVED replies since the last confirmation or pause.
	redirects int

	// unused is the channel's element in link.lingering or link.left; nil while subs is not empty,
	// or the link is not connected.
	unused *list.Element
	until  time.Time // the end of lingering
}

// leftLocked reports whether the channel is no longer needed. The server may still have it.
func (ch *channel) leftLocked(now time.Time) bool { return len(ch.subs) == 0 && !now.Before(ch.until) }

func (ch *channel) joinLocked(s *Subscription) {
	s.ch, s.at = ch, len(ch.subs)
	ch.subs = append(ch.subs, s)
	ch.wantLocked()
	if ch.refusalLocked() != nil {
		s.wake()
	}
}

func (ch *channel) leaveLocked(s *Subscription) {
	last := len(ch.subs) - 1
	ch.subs[s.at] = ch.subs[last]
	ch.subs[s.at].at = s.at
	ch.subs[last] = nil
	ch.subs = ch.subs[:last]
	switch {
	case last > 0 || ch.link == nil:
	case ch.link.conn == nil:
		// No server has the channel: there is nothing to keep.
		ch.link.hub.forgetLocked(ch)
	default:
		ch.link.lingerLocked(ch)
	}
}

// wantLocked takes the channel off the lists of unused channels.
func (ch *channel) wantLocked() {
	if ch.unused != nil {
		ch.link.lingering.Remove(ch.unused) // the list that does not have the element ignores the call
		ch.link.left.Remove(ch.unused)
		ch.unused = nil
	}
}

// detachLocked takes the channel off its link.
func (ch *channel) detachLocked() {
	if ch.link == nil {
		return
	}
	ch.wantLocked()
	ch.unconfirmLocked()
	delete(ch.link.channels, ch.name)
	ch.link = nil
}

func (ch *channel) confirmLocked(c *conn, counted bool) {
	ch.conn.Store(c)
	ch.next, ch.counted = nil, counted
	ch.refused, ch.redirects = nil, 0
	ch.barred, ch.ended = nil, 0
	ch.wakeLocked()
}

func (ch *channel) unconfirmLocked() {
	ch.conn.Store(nil)
	ch.next, ch.counted = nil, false
}

// refusalLocked returns the error by which the server has refused the channel or the connection, or
// nil.
func (ch *channel) refusalLocked() error {
	if ch.refused != nil {
		return ch.refused
	}
	return ch.barred
}

// hearersLocked returns the functions that get a message.
func (ch *channel) hearersLocked() (hearers []func(string)) {
	if len(ch.subs) == 0 && ch.hear != nil {
		return []func(string){ch.hear}
	}
	for _, s := range ch.subs {
		hearers = append(hearers, s.hear)
	}
	return hearers
}

func (ch *channel) wakeLocked() {
	for _, s := range ch.subs {
		s.wake()
	}
}
