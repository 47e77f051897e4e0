package driver

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The causes of a loss, beside [ErrLeaseEnded].
var (
	ErrGone   = errors.New("its key is gone, or another's")
	ErrForced = errors.New("it was unlocked by force")
)

// leaseEndedAt is the cause of a loss by a lease that ended.
func leaseEndedAt(at time.Time) error {
	return fmt.Errorf("%w at %s", terms.ErrLeaseEnded, at.Format(time.TimeOnly))
}

// lossReasonOf returns the reason of a loss; kept says whether the watchdog kept the level.
func lossReasonOf(why error, kept bool) terms.LossReason {
	switch {
	case errors.Is(why, ErrGone):
		return terms.LostKeyGone
	case errors.Is(why, ErrForced):
		return terms.LostForced
	case errors.Is(why, terms.ErrHeldTooLong):
		return terms.LostHeldTooLong
	case errors.Is(why, terms.ErrLeaseEnded) && !kept:
		return terms.LostLeaseEnded
	}
	return terms.LostUnrenewed
}

// lostError is the error of an owner that has lost the lock.
func (n *Name) lostError(o terms.Owner, why error) error {
	return fmt.Errorf("rlock: lock %q of %s: %w: %w", n.Key, o.Title(), terms.ErrLost, why)
}

// closedError is the error of an owner whose lock was released by Close.
func (n *Name) closedError(o terms.Owner) error {
	return fmt.Errorf("rlock: lock %q of %s: %w", n.Key, o.Title(), wire.ErrClosed)
}

// upgradeError is the error of a reader that asks for the write lock, and of an owner that asks for more permits than it has.
func upgradeError(req *Request) error {
	if req.More > 0 {
		return fmt.Errorf("%s: %w: it has fewer than %d permits, which it has to release first", req.Owner.Title(), terms.ErrUpgrade, 1+req.More)
	}
	return fmt.Errorf("%s: %w: a reader cannot become a writer: unlock the read lock first", req.Owner.Title(), terms.ErrUpgrade)
}

// NothingToUnlock is the error of an owner that has lost the lock, for that cause, or that has
// nothing otherwise.
func (c *Client) NothingToUnlock(name string, o terms.Owner, cause, nothing error) error {
	switch {
	case cause != nil:
		return cause
	case c.Closed.Load():
		return fmt.Errorf("rlock: unlock %q: %w", name, wire.ErrClosed)
	}
	return fmt.Errorf("rlock: unlock %q: %s: %w", name, o.Title(), nothing)
}

// holderWords says which client has the lock, by the holder that Redis has named last; "" if that is not known.
func (c *Client) holderWords(holder string) string {
	switch {
	case len(holder) < wire.TenureLen:
		return ""
	case !wire.IsOurs(holder):
		return fmt.Sprintf("held by %s, which is no client of rlock", holder)
	case holder[:len(c.ID.Prefix)] == c.ID.Prefix:
		return "" // it has been released since, or is about to be
	}
	if p := c.Redis.KnownProcess(holder); p != nil {
		return fmt.Sprintf("held by %s, owner %s", p, holder)
	}
	return fmt.Sprintf("held by %s of another client", holder)
}

// A call that waits for a lock goes on while Redis refuses to serve it, or does not answer,
// since a failover may cure that. If it lasts, one line in the log says why.

const (
	troubleTime  = 5 * time.Second // how long it lasts before it is logged
	troubleEvery = time.Minute     // how often a client logs it at most
)

// TellTrouble tells those that watch the lock that an attempt of a call has failed with err, and logs that every attempt has
// since then, if that lasts and was not logged just now. It may be called with a mutex held.
func (c *Client) TellTrouble(lock string, since time.Time, err error) {
	c.troubles.tell(lock, err)
	now := time.Now()
	if now.Sub(since) < troubleTime {
		return
	}
	at, next := int64(now.Sub(c.clock.start)), c.troubleAt.Load()
	if at >= next && c.troubleAt.CompareAndSwap(next, at+int64(troubleEvery)) {
		c.Config.Logger.Warn("rlock: Redis does not serve the calls for a lock, which go on trying", "lock", lock,
			"for", now.Sub(since).Round(time.Millisecond), "error", err)
	}
}

// mostRefusals is how many refusals of releases a client tells apart.
const mostRefusals = 16

// tellRefused logs that Redis has refused a release since its user lacks a right, once for each right: the lock stays until its
// lease ends, and a caller that leaves the error of Unlock unread does not know. It may be called with a mutex held.
func (c *Client) tellRefused(lock string, err error) {
	if err = wire.Explain(err); !errors.Is(err, wire.ErrNoPermission) {
		return
	}
	text := err.Error()
	c.refusals.Lock()
	defer c.refusals.Unlock()
	if slices.Contains(c.refusals.texts, text) || len(c.refusals.texts) >= mostRefusals {
		return
	}
	c.refusals.texts = append(c.refusals.texts, text)
	c.Config.Logger.Warn("rlock: Redis has refused a release, since its user lacks a right", "lock", lock, "error", err)
}

// Connect connects a client whose Redis was made without a connection, in the background. The log says why that takes
// longer, once, and once more when the server can be reached but refuses the client; and when it is over.
func (c *Client) Connect() {
	var waits, refused bool
	log := c.Config.Logger
	c.Redis.Connect(c.ID.Prefix, func(err error) {
		switch {
		case err == nil:
			c.Hub.Open(c.Redis.Client, c.Redis.Sharded)
			if waits || refused {
				log.Info("rlock: connected to Redis")
			}
		case wire.MayOpen(err) && !waits:
			waits = true
			log.Warn("rlock: there is no connection to Redis yet: calls wait or fail as in an outage until there is one", "error", err)
		case !wire.MayOpen(err) && !refused:
			refused = true
			log.Error("rlock: Redis cannot be used: calls fail until it can", "error", err)
		}
	})
}
