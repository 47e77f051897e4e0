package driver

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A longHold is a hold that was told to last for a long time, known by its owner and its beginning.
type longHold struct {
	owner core.OwnerID
	since core.Time
}

// longHoldAt returns when a hold will have lasted too long.
func (l *lock) longHoldAt() core.Time {
	limit := l.shard.client.shared.Config.LongHold
	if limit <= 0 {
		return core.Never
	}
	at, levels := core.Never, l.Levels()
	for i := range levels {
		if v := &levels[i]; v.First && !slices.Contains(l.long, longHold{v.Owner, v.Since}) {
			at = min(at, v.Since.After(span(limit)))
		}
	}
	return at
}

// tellLongHolds logs the holds that have lasted too long. Of a lock over several only the first part tells, in
// its name.
func (l *lock) tellLongHolds(now core.Now) {
	if l.longHoldAt() > now.Time {
		return
	}
	c, levels := l.shard.client, l.Levels()
	var long []longHold
	for i := range levels {
		v := &levels[i]
		held := duration(now.Time.Since(v.Since))
		if !v.First || held < c.shared.Config.LongHold {
			continue
		}
		known := longHold{v.Owner, v.Since}
		long = append(long, known)
		if slices.Contains(l.long, known) {
			continue
		}
		lock, kind, place := l.name.Key, l.name.KindOf(v.Mode == core.Shared), placeOf(v)
		if p := wholeOf(v); p != nil {
			if !p.TellsLong() {
				continue
			}
			lock, kind, place = p.Name, p.Kind, p.Place
		}
		c.shared.Config.Logger.Warn("rlock: a lock is held for a long time", "lock", lock, "kind", kind,
			"owner", ownerOf(v), "held", held.Round(time.Millisecond), "place", place.Known().String())
	}
	l.long = long
}

// patience is until when the wait may go on until it is told as a long one, which it is now if it has lasted
// for so long. A whole tells of its own long waits.
func (l *lock) patience(w *waiter, now core.Now) core.Time {
	limit := l.shard.client.shared.Config.LongWait
	if limit <= 0 || w.long || w.req.Whole != nil {
		return core.Never
	}
	at := w.began.After(span(limit))
	if at > now.Time {
		return at
	}
	l.tellLongWait(w, now)
	return core.Never
}

// tellLongWait logs a wait that has lasted too long, with the holder as far as it is known. It is called by the goroutine
// that waits, so that its place can be found.
func (l *lock) tellLongWait(w *waiter, now core.Now) {
	w.long = true
	place := w.place
	if place == nil {
		place = terms.Here()
	}
	c, holder, where := l.shard.client, w.holder, ""
	if l.IsHeld() {
		first := &l.Levels()[0]
		holder, where = c.textOf(l.Owner().ID, 0)[:wire.TenureLen]+ownerOf(first).String(), placeOf(first).Known().String()
		if p := wholeOf(first); p != nil {
			where = p.Place.Known().String()
		}
	}
	c.shared.Config.Logger.Warn("rlock: a call waits for a lock for a long time", "lock", l.name.Key, "kind", l.name.KindOf(w.req.Shared),
		"owner", w.req.Owner, "waited", duration(now.Time.Since(w.began)).Round(time.Millisecond), "place", place.Known().String(),
		"holder", holder, "holder_place", where)
}
