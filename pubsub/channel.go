package pubsub

import (
	"container/list"
	"sync/atomic"
	"time"
)

// A channel is the hub's state of one name with a subscriber, now or lately. Hub.mu protects its
// fields.
type channel struct {
	name  string // never changes
	plain bool   // SUBSCRIBE, also on a hub that is Sharded; it has no waiters
	subs  []*Subscription
	// hear is the function of the last Listen. It gets the messages while subs is empty: the server
	// still counts a subscriber, so other clients may rely on it.
	hear func(message string)
	link *link // the link that has the channel; nil once forgotten

	// conn is the connection over which the server has confirmed the channel, or nil. It is read
	// without the mutex, too.
	conn atomic.Pointer[conn]
	// next is another connection that has confirmed the channel, and may take the place of conn:
	// see link.moveTo.
	next *conn
	// counted is true while the server counts conn as a subscriber where commands about this
	// channel go.
	counted bool
	// refused is the server's final refusal of the channel.
	refused error
	// ended counts the connections, since the last confirmation, that the server ended before they
	// worked. From barredAfter on barred is the error of the last one.
	ended  int
	barred error
	// redirects counts the MOVED replies since the last confirmation or pause.
	redirects int

	// unused is the channel's place in link.lingering or link.left: not nil only while subs is
	// empty and the link is connected.
	unused *list.Element
	until  time.Time // the end of lingering
}

// leftLocked reports whether the channel is not needed any more, though the server may still have
// it.
func (ch *channel) leftLocked(now time.Time) bool { return len(ch.subs) == 0 && !now.Before(ch.until) }

func (ch *channel) joinLocked(s *Subscription) {
	s.ch, s.at = ch, len(ch.subs)
	ch.subs = append(ch.subs, s)
	ch.wantLocked()
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
		// No server knows of it, so there is nothing to keep.
		ch.link.hub.forgetLocked(ch)
	default:
		ch.link.lingerLocked(ch)
	}
}

// wantLocked takes the channel off the lists of unused channels.
func (ch *channel) wantLocked() {
	if ch.unused != nil {
		ch.link.lingering.Remove(ch.unused) // one of the two is not its list, and does nothing
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

// refusalLocked returns why messages do not come, if a server has decided so.
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
