package monitor

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
)

// A Source is the locks of a client.
type Source interface {
	// ReadLocks calls yield with each lock that the look asks for. Calls that wait for the answer
	// to their first attempt do not count. A lock with many waits has several consecutive views,
	// and the first of them has its levels. ReadLocks holds no mutex during yield, and none for
	// longer than a millisecond in between: two views may be of different moments. The view is
	// valid until yield returns.
	ReadLocks(look contract.Look, yield func(*contract.View))
}

// A Use is what one owner does with one lock: it holds the lock, or waits for it.
type Use struct {
	Name       string // the key of the lock
	Kind       contract.Kind
	Owner      uint64    // the number of the owner
	Since      time.Time // the time at which the owner acquired the lock, or began to wait
	ValidUntil time.Time // the time until which the hold is certainly valid; zero for a wait, as are Depth and Permits
	Depth      int       // the number of times that the owner has to unlock the lock
	Permits    int       // the number of permits of a semaphore that the owner has taken
	PartOf     string    // the name of the multi or red lock as whose part the lock is used, or ""
	Note       string    // the text of the note of the hold, or ""
	Site       contract.Site
	Goroutine  uint64 // the goroutine that has called; 0 if it is not known
	Waits      bool   // the owner waits for the lock
}

// Uses returns a use for each owner of each lock that the client holds and, if waits is set, a use
// for each call that waits. They are sorted by time, and by name and owner where the times are
// equal, so that the same uses have the same order at every look. They may be of different moments.
func Uses(s Source, waits bool) []Use {
	b := &builder{now: time.Now(), indexes: make(map[contract.Owner]int)}
	s.ReadLocks(contract.Look{Holds: true, Waits: waits}, b.add)
	return inOrder(b.uses)
}

// inOrder sorts the uses. They are large, so it sorts their indexes.
func inOrder(uses []Use) []Use {
	type index struct {
		since int64
		at    int
	}
	indexes := make([]index, len(uses))
	for i := range uses {
		indexes[i] = index{uses[i].Since.UnixNano(), i}
	}
	slices.SortFunc(indexes, func(a, b index) int {
		if order := cmp.Compare(a.since, b.since); order != 0 {
			return order
		}
		u, v := &uses[a.at], &uses[b.at]
		return cmp.Or(cmp.Compare(u.Name, v.Name), cmp.Compare(u.Owner, v.Owner), a.at-b.at)
	})
	sorted := make([]Use, len(uses))
	for i, p := range indexes {
		sorted[i] = uses[p.at]
	}
	return sorted
}

// A builder makes uses of views.
type builder struct {
	now     time.Time
	uses    []Use
	holds   []hold
	indexes map[contract.Owner]int // the index in holds of each owner, for a lock with many
}

// A hold is all levels that an owner has of a lock.
type hold struct {
	use   Use
	until time.Time // the end of the lease for which the levels ask
	kept  bool      // one of the levels is renewed until its Unlock
}

func (b *builder) add(v *contract.View) {
	b.holds = b.holds[:0]
	clear(b.indexes)
	for i := range v.Levels {
		b.level(v, &v.Levels[i])
	}
	for i := range b.holds {
		h := &b.holds[i]
		if h.kept || v.ValidUntil.Before(h.until) {
			h.until = v.ValidUntil
		}
		if h.use.ValidUntil = h.until; b.now.Before(h.until) {
			b.uses = append(b.uses, h.use)
		}
	}
	for i := range v.Waits {
		w := &v.Waits[i]
		u := Use{Name: v.Name, Kind: v.KindOf(w.Reads), Owner: w.Owner.ID, Since: w.Since, Site: contract.Known(w.Site), Goroutine: w.Goroutine, Waits: true}
		partOf(&u, w.Whole)
		b.uses = append(b.uses, u)
	}
}

// few is the number of owners up to which a search costs less than a map.
const few = 8

// holdOf returns the hold of the owner, and makes it if there is none.
func (b *builder) holdOf(v *contract.View, o contract.Owner) *hold {
	if len(v.Levels) <= few {
		for i := range b.holds {
			if b.holds[i].use.Owner == o.ID {
				return &b.holds[i]
			}
		}
	} else if i, ok := b.indexes[o]; ok {
		return &b.holds[i]
	} else {
		b.indexes[o] = len(b.holds)
	}
	b.holds = append(b.holds, hold{use: Use{Name: v.Name, Kind: v.ReadKind, Owner: o.ID, Permits: v.Permits}})
	return &b.holds[len(b.holds)-1]
}

// level adds a level to the hold of its owner. A hold has the site and the time of its first level.
func (b *builder) level(v *contract.View, l *contract.Level) {
	h := b.holdOf(v, l.Owner)
	h.use.Depth++
	switch {
	case l.Until.IsZero():
		h.kept = true
	case l.Until.After(h.until):
		h.until = l.Until
	}
	if !l.Reads {
		h.use.Kind = v.Kind
	}
	if l.First {
		h.use.Goroutine, h.use.Since, h.use.Note, h.use.Site = l.Goroutine, l.Since, l.Note, contract.Known(l.Site)
		partOf(&h.use, l.Whole)
	}
}

// partOf notes the whole as whose part the lock is used; nil for none.
func partOf(u *Use, w *contract.Whole) {
	if w != nil {
		u.PartOf, u.Site = w.Name, contract.Known(w.Site)
	}
}
