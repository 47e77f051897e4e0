package driver

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// locate finds out where the call was made, if that is not recorded. It is called by its own goroutine.
func (w *waiter) locate() {
	if w.site == nil {
		w.site = terms.Here()
	}
	if w.site == nil {
		w.site = new(terms.Site) // which is not known
	}
}

// tellOwnWait logs at once that w waits for a lock that its own goroutine holds as its owner: an
// Acquire after a Lock. No other goroutine can end that hold, so the wait lasts until the call
// ends. A handle may be released by another goroutine: a wait for one is logged once it lasts, by
// the search for deadlocks, of which w then is no reason. The mutex is held.
func (l *lock) tellOwnWait(w *waiter, now core.Now) {
	goroutine := w.req.Goroutine()
	if goroutine == 0 || goroutine == w.req.Owner.ID || w.logged {
		return
	}
	levels, c := l.Levels(), l.shard.client
	for i := range levels {
		v := &levels[i]
		if o := ownerOf(v); o.Guest || o.ID != goroutine || !l.Holds(v.Owner, now) {
			continue
		}
		w.logged = true
		w.locate()
		c.Config.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest",
			"lock", l.name.Key, "kind", l.name.KindOf(w.req.Shared), "owner", w.req.Owner, "waited", time.Duration(0), "site", terms.Known(w.site).String(),
			"holder", ownerOf(v), "held", time.Duration(now.Time.Since(v.Since)).Round(time.Millisecond), "holder_site", terms.Known(siteOf(v)).String())
		return
	}
}
