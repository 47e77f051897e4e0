package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/pubsub"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A Beside has locks of the same client that are kept by another engine (package driver). What the
// client does for all of its locks it does for these, too. Its methods wait for nothing, and are called
// without a mutex.
type Beside interface {
	// Counts returns its part of the figures.
	Counts() Counts
	// Look and LongWaits are as those of the client: see uses.go.
	Look(waits bool, yield func(*terms.View))
	LongWaits(now time.Time) (waits, long bool)
	// Verify has Redis asked about all tenures, AskAbout about the lock of a name and its waiters.
	Verify()
	AskAbout(key string)
	// Changed says that Redis has told of a change of a tracked key.
	Changed(key string)
	// Told says what another client has told this one about a tenure. It reports whether it knows that.
	Told(m wire.ClientMessage) bool
	// Knows reports whether the ticket is, or was a moment ago, one of a lock of that name.
	Knows(key, ticket string) bool
	// Close begins the release of all tenures, and ends all calls. Stop ends the rest, once nothing is
	// to be sent any more.
	Close()
	Stop()
}

// Beside has the client do for the locks of b what it does for its own, from now on. It is called once, before
// the client has locks; its goroutines run already.
func (c *Client) Beside(b Beside) { c.beside.Store(&[]Beside{b}) }

func (c *Client) besides() []Beside {
	if all := c.beside.Load(); all != nil {
		return *all
	}
	return nil
}

// knowBeside reports whether the ticket is one of a lock that another engine keeps: locks of different
// kinds share the channel of a name.
func (c *Client) knowBeside(key, ticket string) bool {
	return slices.ContainsFunc(c.besides(), func(b Beside) bool { return b.Knows(key, ticket) })
}

// What follows is here for package driver, as long as it shares the client with this package.

// Hub returns the subscriptions of the client.
func (c *Client) Hub() *pubsub.Hub { return c.hub }

// Tick is how exactly the keeper keeps times.
func (c *Client) Tick() time.Duration { return c.tick }

// Began is what the times of the client are counted from.
func (c *Client) Began() time.Time { return c.start }

// TenureBegan counts a tenure that is not over, before its first command is sent. Each ends with
// TenureOver: Close waits for that.
func (c *Client) TenureBegan() { c.live.Add(1) }

// TenureOver counts a tenure that has ended.
func (c *Client) TenureOver() { c.over() }

// HearOfTenures subscribes to the client's own channel: see ownchannel.go.
func (c *Client) HearOfTenures() { c.hearOfTenures() }

// Knows reports whether the ticket is, or was a moment ago, one of a lock of that name in this package.
func (c *Client) Knows(key, ticket string) bool {
	for r := range c.roomsFor(key, ticket) {
		if r.tenureOf(ticket) != nil {
			return true
		}
	}
	for id := range kinds {
		s := c.shardOf(KindID(id), key)
		s.mu.Lock()
		leaving := s.leavingAs(ticket) != nil
		s.mu.Unlock()
		if leaving {
			return true
		}
	}
	return c.detached.has(ticket)
}

// Hears reports whether messages on the client's own channel come.
func (c *Client) Hears() bool { return c.hears() }

// SearchDeadlocks has deadlocks searched for, since a call waits for a lock that is held here.
func (c *Client) SearchDeadlocks() { c.diag.Waits() }

// Check refuses a request that can be refused by itself.
func (c *Client) Check(ctx context.Context, n *Name, req *Request) error { return c.check(ctx, n, req) }

// LeavesTurns, SeesStep and SeesAcquire note that the client wants the lock: see foreign.go.
func (c *Client) LeavesTurns(n *Name, now time.Time) bool { return c.leavesTurns(n, now) }

// SeesStep is LeavesTurns for a step.
func (c *Client) SeesStep(n *Name, s wire.Step, now time.Time) bool { return c.seesStep(n, s, now) }

// SeesAcquire is LeavesTurns for an acquire, which leaves none.
func (c *Client) SeesAcquire(n *Name, now time.Time) { c.seesAcquire(n, now) }

// TellAcquired tells the Observer of a call that has the lock. It is called without a mutex, as GaveUp.
func (c *Client) TellAcquired(ctx context.Context, n *Name, req *Request, waited time.Duration, contended bool) {
	c.tellAcquired(ctx, n, req, waited, contended)
}

// GaveUp tells the Observer of a call that has failed with err, and returns that.
func (c *Client) GaveUp(ctx context.Context, n *Name, req *Request, err error, waited time.Duration, contended bool) error {
	return c.gaveUp(ctx, n, req, err, waited, contended)
}

// TellRenewed tells the Observer of a batch of renewals, if there were any.
func (c *Client) TellRenewed(i RenewedInfo) { c.tellRenewed(i) }

// Turn is the channel on which this client is told of its tickets for the lock.
func (n *Name) Turn() string { return n.turn }

// KindOf returns the kind of the lock as users see it.
func (n *Name) KindOf(shared bool) Kind { return n.kindOf(shared) }

// LossKey is what the losses know the owner by.
func (n *Name) LossKey(o Owner) LossKey { return n.lossKey(o) }

// Event returns an event about the lock for an owner, of the read lock if shared is set.
func (n *Name) Event(o Owner, shared bool) Event { return n.event(o, shared) }

// Permits returns how many permits there are, 0 for a lock that is no semaphore.
func (n *Name) Permits() int { return n.permits }

// Goroutine returns the goroutine that makes the request, 0 if that is not known.
func (r *Request) Goroutine() uint64 { return r.caller() }

// Over reports whether Quit is closed.
func (r *Request) Over() bool { return r.over() }

// The causes of a loss, beside [ErrLeaseEnded].
var (
	ErrGone   = errGone
	ErrForced = errForced
)

// LeaseEndedAt is the cause of a loss by a lease that ended.
func LeaseEndedAt(at time.Time) error { return errEnded(at) }

// LostError is the error of an owner that has lost the lock.
func (n *Name) LostError(o Owner, why error) error { return errLost(n, o, why) }

// ClosedError is the error of an owner whose lock was released by Close.
func (n *Name) ClosedError(o Owner) error { return errClosed(n, o) }

// LossReasonOf returns the reason of a loss; kept says whether the watchdog kept the level.
func LossReasonOf(why error, kept bool) LossReason {
	l := Level{Until: time.Unix(0, 0)}
	if kept {
		l.Until = time.Time{}
	}
	return l.lossReason(why)
}

// UpgradeError is the error of a reader that asks for the write lock.
func UpgradeError(o Owner) error { return errUpgrade(o) }

// Opened counts a level, as the methods that follow.
func (n *Counts) Opened(w Way) { n.opened(w) }

// Undone takes back what was counted for a level that was closed before its caller had it, and that was the
// first of its owner's by then or not.
func (n *Counts) Undone(w Way, first bool) {
	n.Acquired[w]--
	n.Closed(first)
}

// Closed counts a level that is over, which was the first of its owner's by then or not.
func (n *Counts) Closed(first bool) {
	if first {
		n.Held--
	}
}

// LostOne is Closed for a loss.
func (n *Counts) LostOne(first bool, r LossReason) {
	if first {
		n.Held--
		n.Lost[r]++
	}
}

// GaveUp counts a call that failed, whose context had ended or not.
func (n *Counts) GaveUp(err error, canceled bool) { n.gaveUp(err, canceled) }

// Add adds the other ones.
func (n *Counts) Add(other *Counts) { n.add(other) }

// HolderWords says in whose hands the lock was when Redis named the holder last, "" if that is not known.
func (c *Client) HolderWords(holder string) string {
	switch {
	case len(holder) < wire.TenureLen:
		return ""
	case !wire.IsOurs(holder):
		return fmt.Sprintf("held by %s, which is no client of rlock", holder)
	case holder[:len(c.ID.Prefix)] == c.ID.Prefix:
		return "" // it has been released since, or is about to be
	}
	return fmt.Sprintf("held by %s of another client", holder)
}

// ForceOut is [Lock.ForceUnlock]. It calls out with each holder that Redis has named, and whether Redis
// has released that one, or why it is not known.
func (l *Lock) ForceOut(ctx context.Context, out func(holder string, released bool, err error)) (bool, error) {
	return l.forceUnlock(ctx, out)
}
