package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// A Use is what one owner does with one lock in this client: it holds the lock, or waits for
// it. Package rlock says what each field means.
type Use struct {
	Name       string
	Kind       Kind
	Owner      Owner
	Goroutine  uint64 // that has called, 0 if it is not known
	Waits      bool
	Since      time.Time
	ValidUntil time.Time // zero for a wait
	Depth      int       // 0 for a wait
	PartOf     string    // "" for none
	Place      Place
}

// Uses returns a use for each owner of each lock that this client holds, and one for each call
// that waits if waiting is set. They are in the order of time, and by name and owner where the
// times are equal, so that the same uses have the same order at every look. The shards are looked
// at one after the other, so that two uses may be of different moments.
func (c *Client) Uses(waiting bool) (uses []Use) {
	now := time.Now()
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms {
			if t := r.tenure; t != nil && t.valid(now) {
				uses = t.appendHeld(uses, now)
			}
			if waiting {
				uses = r.appendWaiting(uses)
			}
		}
		s.mu.Unlock()
	}
	for _, b := range c.besides() {
		uses = b.AppendUses(uses, waiting)
	}
	slices.SortStableFunc(uses, func(a, b Use) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Owner.ID, b.Owner.ID))
	})
	return uses
}

// appendHeld appends what each owner holds. The mutex is held.
func (t *tenure) appendHeld(uses []Use, now time.Time) []Use {
	r := t.room
	for i := range t.levels {
		first := &t.levels[i]
		until := t.validUntilFor(first.Owner)
		if first.way == ByNesting || !now.Before(until) {
			continue
		}
		u := Use{
			Name: r.name.Key, Kind: KindRead, Owner: first.Owner, Goroutine: first.caller,
			Since: r.client.start.Add(first.since), ValidUntil: until, Place: first.place.Known(),
		}
		for j := range t.levels {
			if l := &t.levels[j]; l.Owner == first.Owner {
				u.Depth++
				if !l.Shared {
					u.Kind = r.name.kindOf(false)
				}
			}
		}
		u.IsPartOf(first.wholeOf())
		uses = append(uses, u)
	}
	return uses
}

// appendWaiting appends the calls that wait for anything but the answer to their first
// attempt. The mutex is held.
func (r *room) appendWaiting(uses []Use) []Use {
	for w := range r.waiters {
		if !w.waits {
			continue
		}
		u := Use{
			Name: r.name.Key, Kind: r.name.kindOf(w.Shared), Owner: w.Owner, Goroutine: w.caller(),
			Waits: true, Since: w.began, Place: w.place.Known(),
		}
		u.IsPartOf(w.Whole)
		uses = append(uses, u)
	}
	return uses
}

// IsPartOf names the whole that the use is for, nil for none.
func (u *Use) IsPartOf(p *terms.Whole) {
	if p != nil {
		u.PartOf, u.Place = p.Name, p.Place.Known()
	}
}

// wholeOf returns what the level is a part of, nil for none.
func (l *Level) wholeOf() *terms.Whole {
	if l.hold == nil || !l.hold.IsHeld() {
		return nil
	}
	return l.hold.Whole
}
