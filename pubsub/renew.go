package pubsub

import (
	"fmt"
	"time"
)

// A connection never unsubscribes (see conn), so the server keeps channels that are no longer
// needed. From time to time the link takes another connection. It is opened in the background,
// subscribes to the needed channels, and replaces the first one, which is closed. Until then
// messages come over the first connection. Each needed channel is woken at the exchange, as after a
// reconnect: one connection may be ahead of the other, so that a message may be missed, or heard
// twice.

// keepLeft is the time, in multiples of Config.Linger, after which a channel that has lingered is a
// reason for a new connection. A connection costs a server far more than a channel. If many
// channels are left, the new connection is made sooner: see crowdedLocked.
const keepLeft = 10

// A renewal is the connection that a link's goroutine waits for.
type renewal struct {
	opened    chan *conn    // gets the connection, or nil after a failure; nil while none is being opened
	given     chan struct{} // closed when the connection is no longer wanted
	notBefore time.Time     // the earliest beginning of the next renewal, after one that has failed
}

func (r *renewal) stop() {
	if r.opened != nil {
		close(r.given)
		r.opened = nil
	}
}

// renew begins a renewal if it is time, and returns the time of the next look.
func (l *link) renew(r *renewal, now time.Time) time.Time {
	due, any := l.renewAt()
	switch {
	case !any || r.opened != nil:
		return now.Add(tick)
	case due.Before(r.notBefore):
		due = r.notBefore
	}
	if due.After(now) {
		return due
	}
	opened, given := make(chan *conn), make(chan struct{})
	r.opened, r.given = opened, given
	l.hub.running.Go(func() {
		next, _ := l.open()
		select {
		case opened <- next:
		case <-given:
			if next != nil {
				next.close()
			}
		}
	})
	return now.Add(tick)
}

// renewAt returns the time at which the link should take another connection. any is false if no
// channel is left.
func (l *link) renewAt() (due time.Time, any bool) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	oldest := l.left.Front()
	if oldest == nil {
		return time.Time{}, false
	}
	due = oldest.Value.(*channel).until
	if !l.crowdedLocked() {
		due = due.Add(keepLeft * l.hub.linger)
	}
	return due, true
}

// crowdedLocked reports whether batchSize more channels are left than are needed. So on average
// each channel is subscribed at most twice.
func (l *link) crowdedLocked() bool {
	return l.left.Len() >= len(l.channels)-l.left.Len()+batchSize
}

// finish replaces c with the new connection, if there is one, and returns the link's connection.
// After a failure another renewal is tried later, but a crowded link is given up, and begins anew.
func (l *link) finish(r *renewal, next, c *conn) (*conn, error) {
	h := l.hub
	r.stop()
	if next != nil && l.moveTo(next, c) == nil {
		l.hub.running.Go(c.close)
		return next, nil
	}
	if next != nil {
		l.hub.running.Go(next.close)
	}
	r.notBefore = time.Now().Add(max(keepLeft*h.linger, maxBackoff))
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.crowdedLocked() {
		return c, errCrowded
	}
	return c, nil
}

// moveTo subscribes over next to the channels of c that are needed. When all are confirmed, next
// replaces c; otherwise the channels stay with c.
func (l *link) moveTo(next, c *conn) error {
	// In between, channels that were left may be needed again, or slots may move.
	for range 3 {
		missing := l.exchange(next, c)
		if len(missing) == 0 {
			return nil
		}
		if err := next.adopt(missing); err != nil {
			return err
		}
	}
	return errNotAdopted
}

// adopt is subscribe for channels that another connection already has: any refusal is an error.
func (c *conn) adopt(batch []*channel) error {
	for _, reply := range c.do(c.subscribeCommands(c.link.hub.together(batch))) {
		if err := reply.Error(); err != nil {
			return fmt.Errorf("pubsub: subscribe: %w", err)
		}
	}
	counts, err := c.counts(batch)
	if err != nil || counts {
		return err
	}
	c.link.hub.mu.Lock()
	defer c.link.hub.mu.Unlock()
	for _, ch := range batch {
		ch.counted = false
	}
	return nil
}

// exchange replaces c with next if next has confirmed all channels of c that are needed. Otherwise
// it changes nothing, and returns the channels that are missing.
func (l *link) exchange(next, c *conn) (missing []*channel) {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, ch := range l.channels {
		if ch.conn.Load() == c && ch.next != next && !ch.leftLocked(now) {
			missing = append(missing, ch)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	l.useLocked(next)
	next.worked = true
	for _, ch := range l.channels {
		switch {
		case ch.conn.Load() == c && ch.next == next:
			ch.confirmLocked(next, ch.counted)
		case len(ch.subs) == 0:
			h.forgetLocked(ch)
		}
	}
	return nil
}
