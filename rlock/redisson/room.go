package redisson

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/waitqueue"
)

// lookTime is the time after which a waiter looks again without a message: messages may be lost,
// and no message reports an expiry or a shorter lease.
const lookTime = 2 * time.Second

// A room has the callers of this process that wait for messages on one channel, in a line.
type room struct {
	sub   *pubsub.Subscription
	users int // the number of callers; Client.mu guards it

	mu   sync.Mutex // guards the fields below
	line waitqueue.Queue[chan struct{}]
	free int64     // the number of permits that were free by the last message
	at   time.Time // the time of the last message
}

// A seat is a caller's place in the line. Its channel has a token when the caller has to look.
type seat = waitqueue.Waiter[chan struct{}]

// enter joins the line of the channel, and subscribes.
func (c *Client) enter(channel string) (*room, *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rooms[channel]
	if r == nil {
		r = new(room)
		c.rooms[channel] = r
		r.sub = c.shared.Hub.ListenConfirmed(channel, func(message string) {
			c.turns.hear(channel)
			r.hear(message)
		}, func() {
			c.turns.confirmed(channel)
			r.wake()
		})
	}
	r.users++
	s := &seat{Value: make(chan struct{}, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line.Join(s)
	return r, s
}

// leave takes a caller out of the line, and wakes the others: the caller may have consumed a
// wake-up.
func (c *Client) leave(channel string, r *room, s *seat) {
	r.mu.Lock()
	r.line.Leave(s)
	r.mu.Unlock()
	r.wake()
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.users--; r.users == 0 {
		r.sub.Close()
		delete(c.rooms, channel)
	}
}

// isOccupied reports whether callers of this process wait at the channel.
func (c *Client) isOccupied(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rooms[channel] != nil
}

// hear wakes all callers for a message.
func (r *room) hear(message string) {
	r.mu.Lock()
	r.free, _ = strconv.ParseInt(message, 10, 64)
	r.at = time.Now()
	r.mu.Unlock()
	r.wake()
}

// takeFree returns the number of permits that were free a moment ago, and forgets it; 0 if the
// number is not known.
func (r *room) takeFree() (free int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < fresh {
		free = r.free
	}
	r.free = 0
	return free
}

// fresh is the time for which the number in a message counts as present.
const fresh = 10 * time.Millisecond

// wake wakes all callers. Callers for a semaphore that are not the first in the line sleep again.
func (r *room) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.line.All {
		select {
		case s.Value <- struct{}{}:
		default: // the caller has not consumed an earlier wake-up
		}
	}
}

func (r *room) isFirst(s *seat) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.line.Head() == s
}

// An attempt is one look of a waiter, or of a call that does not wait yet. again is the time after
// which another attempt may succeed without a message; 0 if the time is not known.
type attempt func(ctx context.Context, l look) (done bool, again time.Duration, f fate, err error)

// A look has the arguments of an attempt.
type look struct {
	waits bool  // the call waits
	free  int64 // the number of permits that were free a moment ago; 0 if it is not known
}

// wait makes attempts until one succeeds, the wait is over, or ctx ends. If ordered is set, only
// the first caller of this process attempts. A negative wait has no end.
func (o *object) wait(ctx context.Context, wait time.Duration, ordered bool, try attempt) (done bool, err error) {
	c := o.client
	if !ordered || !c.isOccupied(o.channel) && (wait == 0 || o.turnLeft() == 0) {
		if done, _, f, err := try(ctx, look{}); done || f.isFinal() || wait == 0 {
			return done, err
		}
	} else if wait == 0 {
		return false, nil
	}
	r, s := c.enter(o.channel)
	defer c.leave(o.channel, r, s)
	w := waiter{object: o, room: r, seat: s, ordered: ordered, try: try, pause: wire.FirstRetry}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		w.over = timer.C
	}
	w.look = time.NewTimer(lookTime)
	defer w.look.Stop()
	if r.sub.Confirmed() {
		w.look.Reset(0)
	}
	return w.run(ctx)
}

// isFinal reports whether no other attempt may follow: it would be of no use, or might take effect
// twice.
func (f fate) isFinal() bool { return f == refused || f == unknown }

// A waiter is a call that waits.
type waiter struct {
	*object
	room    *room
	seat    *seat
	ordered bool
	try     attempt
	over    <-chan time.Time // has a value at the end of the wait
	look    *time.Timer      // the timer of the next look, if no message comes
	pause   time.Duration    // the pause before the next attempt, if this one is not executed
}

func (w *waiter) run(ctx context.Context) (done bool, err error) {
	for {
		ended := false
		select {
		case <-w.seat.Value:
		case <-w.look.C:
		case <-w.over:
			ended = true
		case <-w.client.shared.Redis.Done():
			return false, w.named(wire.ErrClosed)
		case <-ctx.Done():
			return false, w.named(wire.Over(ctx))
		}
		next := lookTime
		if left := w.turnLeft(); w.ordered && left > 0 && !ended {
			next = left
		} else if !w.ordered || w.room.isFirst(w.seat) {
			done, again, f, err := w.try(ctx, look{waits: true, free: w.room.takeFree()})
			if err == nil {
				w.noteFirst(done) // noteFirst does nothing for a latch
			}
			if done || f.isFinal() || ended {
				return done, err
			}
			next = w.after(again, f)
		} else if ended {
			return false, nil
		}
		w.look.Reset(next)
	}
}

// after returns the time until the next look, after an attempt without success.
func (w *waiter) after(again time.Duration, f fate) (next time.Duration) {
	if f == notNow {
		next, w.pause = wire.Jitter(w.pause), min(2*w.pause, wire.LastRetry)
		return next
	}
	w.pause = wire.FirstRetry
	if again > 0 {
		return min(again, lookTime)
	}
	return lookTime
}
