package pubsub

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	// A lost connection is opened again after minBackoff, which doubles with each failure up to
	// maxBackoff. Each pause is shorter by up to a half at random: when a server returns, its
	// clients do not connect all at once.
	minBackoff = time.Millisecond
	maxBackoff = 500 * time.Millisecond
	// plainBackoff is the pause when the server bars all channels of a link, and none of them has a
	// waiter: it leaves a full server alone.
	plainBackoff = 30 * time.Second

	// barredAfter is the number of consecutive connections that the server ends before they work,
	// after which their channels count as barred. A server that stops ends one or two.
	barredAfter = 3
	// warnEvery is the least time between two warnings about barred channels.
	warnEvery = time.Minute

	// tick is the time after which a link checks that it still leads to the right node, and asks
	// again for channels that the server could not serve. The check sends nothing if there are no
	// such channels.
	tick = 250 * time.Millisecond
)

var (
	errIdle       = errors.New("pubsub: nothing subscribed")
	errNotPrimary = errors.New("pubsub: node is not a primary")
	errNodeGone   = errors.New("pubsub: node is not known to the client")
	errLost       = errors.New("pubsub: connection closed")
	errCrowded    = errors.New("pubsub: too many channels are left")
	errNotAdopted = errors.New("pubsub: the new connection has not confirmed all channels")
)

// A link keeps one connection to one node, for all channels that are routed there; a second one is
// opened to replace it (renew.go). One goroutine opens the connection, and no other sends commands
// over it. It sends one batch at a time, so that the requests meanwhile form the next batch.
type link struct {
	hub  *Hub
	addr string        // the node's address; "" for the node that the client chooses
	wake chan struct{} // has a value when the fields below give the goroutine something to do

	// Hub.mu guards the fields below.
	conn      *conn               // the connection; nil while there is none
	channels  map[string]*channel // the channels whose link is this one, by name
	asked     []*channel          // the channels to subscribe with the next batch
	later     []*channel          // the channels to route again at the next tick
	lingering list.List           // the channels without subscribers that linger, sorted by the end of lingering
	left      list.List           // the channels that have lingered, the first one in front; the server may still have them
	lostAt    time.Time           // the time of the last loss that was logged; zero once a connection works
	until     time.Time           // the time at which the goroutine looks again by itself
	moveAt    time.Time           // the time at which conn is opened again, since it leads to a wrong server; else zero: see follow.go
	move      time.Duration       // the next pause before moveAt
}

// newLinkLocked starts a link. Needs Hub.mu, and an open hub.
func (h *Hub) newLinkLocked(addr string) *link {
	l := &link{hub: h, addr: addr, wake: make(chan struct{}, 1), channels: make(map[string]*channel)}
	h.links[addr] = l
	h.running.Go(l.run)
	return l
}

func (l *link) run() {
	for failures := 0; l.inUse(failures); {
		failures++
		c, err := l.open()
		if err != nil {
			l.lost(nil, err)
			continue
		}
		l.hub.mu.Lock()
		l.useLocked(c)
		l.hub.mu.Unlock()
		c, err = l.serve(c)
		// This comes first, since rueidis takes a second to close a connection to a silent server.
		l.lost(c, err)
		c.close()
		if c.worked {
			failures = 1
		}
	}
}

// pause waits before the next connection, and for longer if the link leaves the server alone.
func (l *link) pause(failures int) {
	if failures > 0 {
		pause := min(minBackoff<<min(failures-1, 16), maxBackoff)
		select {
		case <-time.After(pause - rand.N(pause/2)):
		case <-l.hub.ctx.Done():
		}
	}
	select {
	case <-l.wake: // all channels were asked for again
	default:
	}
	if l.leavesAlone() {
		select {
		case <-time.After(plainBackoff - rand.N(plainBackoff/2)):
		case <-l.wake: // there is another channel
		case <-l.hub.ctx.Done():
		}
	}
}

// leavesAlone reports whether the server bars all channels, and none has a waiter.
func (l *link) leavesAlone() bool {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	for _, ch := range l.channels {
		if !ch.plain || ch.barred == nil {
			return false
		}
	}
	return len(l.channels) > 0
}

// inUse waits out the pause after a failure, and reports whether the link still has channels. It
// removes the link if the link has none, or the hub is closed.
func (l *link) inUse(failures int) bool {
	h := l.hub
	l.pause(failures)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(l.channels) > 0 && h.ctx.Err() == nil {
		return true
	}
	// This is done in the critical section in which channels was read, so that nothing is routed to
	// a link that has ended.
	delete(h.links, l.addr)
	return false
}

// serve carries out the link's requests until the connection is lost, or no channel was needed for
// as long as channels linger (errIdle). It returns the link's present connection, and an error,
// which is never nil.
func (l *link) serve(c *conn) (*conn, error) {
	h := l.hub
	now := time.Now()
	nextTick, usedAt := now.Add(tick), now
	timer := time.NewTimer(tick)
	defer timer.Stop()
	var r renewal
	defer r.stop()
	for {
		if now = time.Now(); !now.Before(nextTick) {
			nextTick = now.Add(tick)
			if !h.leadsTo(c.addr) {
				return c, fmt.Errorf("%w: %s", errNodeGone, c.addr)
			}
			l.askLater()
		}
		moveAt := l.moveTime()
		if !moveAt.IsZero() && !now.Before(moveAt) {
			return c, errElsewhere
		}
		ask, until, used := l.take(now, nextTick)
		if used {
			usedAt = now
		} else if now.Sub(usedAt) >= h.linger {
			return c, errIdle
		}
		if len(ask) > 0 {
			if err := c.subscribe(ask); err != nil {
				return c, err
			}
			continue
		}
		if used {
			until = earlier(until, l.renew(&r, now))
		}
		if !moveAt.IsZero() {
			until = earlier(until, moveAt)
		}
		timer.Reset(until.Sub(now))
		select {
		case <-l.wake:
		case <-timer.C:
		case next := <-r.opened:
			var err error
			if c, err = l.finish(&r, next, c); err != nil {
				return c, err
			}
		case err := <-c.lost:
			return c, fmt.Errorf("%w: %w", errLost, err)
		case <-h.ctx.Done():
			return c, ErrClosed
		}
	}
}

// take returns the next batch. If the batch is empty, until is the time of the next look. used
// reports whether a channel of the link is needed.
func (l *link) take(now, nextTick time.Time) (ask []*channel, until time.Time, used bool) {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	until = nextTick
	for e := l.lingering.Front(); e != nil; e = l.lingering.Front() {
		ch := e.Value.(*channel)
		if ch.until.After(now) {
			until = earlier(until, ch.until)
			break
		}
		if ch.refused != nil {
			h.forgetLocked(ch) // the server does not have it
			continue
		}
		l.lingering.Remove(e)
		ch.unused = l.left.PushBack(ch)
	}
	ask, l.asked = l.asked, nil
	ask = slices.DeleteFunc(ask, func(ch *channel) bool { return ch.link != l })
	l.until = until
	return ask, until, len(l.channels) > l.left.Len()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// noteServed notes that a connection has served its first batch. After a loss the log says so.
func (l *link) noteServed(c *conn) {
	c.worked = true
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.lostAt.IsZero() {
		h.log.Info("rlock: Redis notifies waiters again", "addr", c.addr, "after", time.Since(l.lostAt).Round(time.Millisecond))
		l.lostAt = time.Time{}
	}
}

// lost notes that a connection is lost, or could not be opened: then c is nil. The link's channels
// are asked for again, at another node if this node cannot serve them; channels that only lingered
// are forgotten.
func (l *link) lost(c *conn, err error) {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	elsewhere := errors.Is(err, errElsewhere)
	// Of consecutive connections that lead elsewhere only the first is logged.
	if c != nil && c.worked && !errors.Is(err, errIdle) && h.ctx.Err() == nil && !(elsewhere && l.move > 0) {
		h.log.Warn("rlock: Redis does not notify waiters, who look every two seconds: the connection is lost, and is opened again", "addr", c.addr, "channels", len(l.channels), "error", err)
		l.lostAt = time.Now()
	}
	if elsewhere {
		l.doubleMoveLocked()
	}
	l.conn, l.moveAt, l.asked, l.later = nil, time.Time{}, nil, nil
	avoid := ""
	if c == nil || errors.Is(err, errNotPrimary) {
		avoid = l.addr
	}
	barred := c == nil && endedByServer(err)
	for _, ch := range slices.Collect(maps.Values(l.channels)) { // a copy, since routing changes l.channels
		ch.unconfirmLocked()
		if barred {
			h.barLocked(ch, err)
		}
		if len(ch.subs) == 0 || ch.refused == nil {
			h.rerouteLocked(ch, avoid)
		}
	}
}

// endedByServer reports whether err is the error of a connection that was opened, and that the
// server then ended or refused to serve, for example since it has too many clients.
func endedByServer(err error) bool {
	reply := (*rueidis.RedisError)(nil)
	return errors.As(err, &reply) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// barLocked notes that a connection for the channel was ended by the server. Needs Hub.mu.
func (h *Hub) barLocked(ch *channel, err error) {
	if ch.ended++; ch.ended < barredAfter || ch.barred != nil {
		return
	}
	ch.barred = err
	ch.wakeLocked()
	if ch.plain {
		return
	}
	if now := time.Now(); now.Sub(h.warnedBarred) >= warnEvery && h.ctx.Err() == nil {
		h.warnedBarred = now
		h.log.Warn("rlock: Redis ends the connections over which it notifies waiters; they poll until it keeps one", "channel", ch.name, "error", err)
	}
}

// askLater routes the channels of later again.
func (l *link) askLater() {
	h := l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ch := range l.later {
		if ch.link == l {
			ch.redirects = 0
			h.rerouteLocked(ch, l.addr)
		}
	}
	l.later = nil
}

// askLocked puts a channel into the next batch. Needs Hub.mu.
func (l *link) askLocked(ch *channel) {
	l.asked = append(l.asked, ch)
	l.kick()
}

// lingerLocked begins the lingering of a channel. Needs Hub.mu.
func (l *link) lingerLocked(ch *channel) {
	ch.until = time.Now().Add(l.hub.linger)
	ch.unused = l.lingering.PushBack(ch)
	if l.lingering.Len() == 1 && ch.until.Before(l.until) {
		l.kick()
	}
}

func (l *link) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
