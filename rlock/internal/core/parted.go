package core

import "slices"

// A tenure that this client has parted with is forgotten as soon as it needs no command any more, though Redis shows it until
// its lease ends: most locks that were passed on are resumed and released long before. Then only its number is known, so that
// a message which is late, doubled or forged does not give the lock back that another client may have by now.

// partings are the tenures of a client that were parted with and forgotten, in the order of their numbers.
type partings []parting

// A parting is a tenure that Redis may show until then.
type parting struct {
	n     uint64 // of its ID
	until Time
}

// fewPartings is for how many there is room at first.
const fewPartings = 8

// partsFrom notes that the tenure is about to be forgotten. Those whose leases have ended are dropped when there is no room,
// and so is the memory of many: a parting costs the same however many there are.
func (c *Client) partsFrom(t *Tenure, now Now) {
	until := t.endsItself()
	if until <= now.Time {
		return
	}
	s := c.partings
	if len(s) == cap(s) {
		s = slices.DeleteFunc(s, func(p parting) bool { return p.until <= now.Time })
		s = append(make(partings, 0, max(2*len(s), fewPartings)), s...)
	}
	i, _ := s.search(t.ID.N)
	c.partings = slices.Insert(s, i, parting{t.ID.N, until})
}

// hasPartedFrom reports whether the tenure was parted with and forgotten, and its lease has not ended.
func (c *Client) hasPartedFrom(id ID, now Now) bool {
	i, found := c.partings.search(id.N)
	return found && now.Time < c.partings[i].until
}

func (s partings) search(n uint64) (int, bool) {
	return slices.BinarySearchFunc(s, n, func(p parting, n uint64) int {
		switch {
		case p.n < n:
			return -1
		case p.n > n:
			return 1
		}
		return 0
	})
}
