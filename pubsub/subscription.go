package pubsub

import (
	"fmt"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/secret"
)

// A Subscription notifies one waiter when to look again. Its methods may be called concurrently,
// and under a mutex of the caller.
type Subscription struct {
	hub  *Hub
	c    chan struct{} // the wakes; has room for one
	hear func(message string)
	// confirmed is called in place of a wake; nil for a waiter that receives from C. See
	// ListenConfirmed.
	confirmed func()

	// hub.mu guards the fields below.
	ch     *channel
	at     int // the index in ch.subs, until Close
	closed bool
}

// C delivers wakes. A wake means "look again" and nothing more: messages may have been lost before
// it, and several wakes may have become one. A wake comes
//
//   - at every confirmation of the subscription: the first, and each one after a
//     reconnect, a failover, a slot move, or a renewal of the connection. Messages that
//     were published before the wake may be missed; none after it is, until the next loss;
//   - when the server has refused the channel or the connection (see Refused), or the
//     hub is closed; at once, if that was so before Listen was called.
//
// There is no wake at once if the channel is confirmed already when Listen is called: look at
// [Subscription.Confirmed]. The channel that C returns is never closed.
func (s *Subscription) C() <-chan struct{} { return s.c }

// Also listens to one more channel on behalf of s: a confirmation or a refusal of that channel
// wakes s. The caller must Close the subscription that Also returns, and s as well. After this
// Close, hear is called at most once more.
func (s *Subscription) Also(channel string, hear func(message string)) *Subscription {
	also := &Subscription{hub: s.hub, c: s.c, hear: hear, confirmed: s.confirmed}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	ch := s.hub.channelLocked(channel, false)
	ch.joinLocked(also)
	return also
}

// Confirmed reports whether messages come: the server has confirmed the subscription over a
// connection that is not known to be lost.
func (s *Subscription) Confirmed() bool { return s.ch.conn.Load() != nil }

// Refused returns nil while messages come or may come soon. It returns a [*Refusal] if the server
// does not let this client subscribe to the channel (NOPERM, unknown command), another error if the
// server accepts connections and ends them again (maxclients), and [ErrClosed] if the hub is
// closed: then the caller should poll. A refused channel is asked for again by a Listen that comes
// Linger after its last Close. A connection is asked for all the time.
func (s *Subscription) Refused() error {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.ch.refusalLocked()
}

// A Refusal is a server's answer that this client may not subscribe to the channel.
type Refusal struct {
	Channel string
	Reply   *rueidis.RedisError // the reply, which may name the user; Error does not
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("pubsub: subscribe %q: %s", r.Channel, secret.HideUser(r.Reply.Error()))
}

// Close ends the subscription. After its last Close a channel lingers: see the package comment.
// Closing again is harmless.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.ch.leaveLocked(s)
	}
}

// wake leaves one wake in the channel, and never blocks.
func (s *Subscription) wake() {
	if s.confirmed != nil {
		s.confirmed()
	}
	select {
	case s.c <- struct{}{}:
	default:
	}
}
