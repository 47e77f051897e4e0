package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// Tenures without a holder here: passed on, held for a least time, or left to a lease that other readers keep in the hash.

// isOver reports whether the lease of a reader has ended, whom other readers keep in the hash.
func (w *world) isOver(h server.Holder) bool { return h.Ends > 0 && core.Time(h.Ends) <= w.now }

// isPassed reports whether the lock is on its way to a client that resumes it.
func (w *world) isPassed() bool {
	return w.passed.id != core.ID{} && !w.passed.used && w.now < w.passed.until
}

// isParted reports whether the client has left the holder to its lease, and need not know it any more: it stays, or
// was passed on, also if Redis has lost that.
func (w *world) isParted(c *client, h server.Holder) bool {
	switch {
	case h.ID == w.passed.id:
		return w.now < w.passed.until
	case h.Owner == 0:
		return w.now < w.passed.untilAll()
	}
	return slices.ContainsFunc(c.users, func(u user) bool { return u.parted == h.ID })
}

// missedBy returns when each waiter has found out, by a look, that a lock which was passed on until then was not resumed:
// no message says that a lease has ended.
func (w *world) missedBy(until core.Time) core.Time {
	if until == 0 {
		return 0
	}
	return until.After(or(w.Look, 2))
}

// checkParted fails a lock that stays and is released before its lease ends.
func (w *world) checkParted(c *client) {
	for j := range c.users {
		u := &c.users[j]
		if u.parted == (core.ID{}) {
			continue
		}
		if w.now >= u.partedUntil {
			u.parted, u.partedUntil = core.ID{}, 0
			continue
		}
		if !slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == u.parted }) && !w.wiped {
			w.fail("client %d: a lock that stays is released before its time", c.id)
		}
	}
}

// checkPassedOn fails a lock that was passed on, and is released before its time.
func (w *world) checkPassedOn() {
	if w.isPassed() && w.passed.known && !w.wiped && !slices.ContainsFunc(w.server.Holders, func(h server.Holder) bool { return h.ID == w.passed.id && h.Owner == 0 }) {
		w.fail("client %d: a lock that was passed on is released before its time", w.passed.id.Client)
	}
}
