package rlock

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/client"
)

// A HeldLock is a lock that a client holds, see [Client.Held].
type HeldLock struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Since is when the owner acquired it. It is counted by the monotonic clock, and so later
	// than it was if the machine has slept since.
	Since time.Time
	// ValidUntil is until when it is certainly held, as Redis has confirmed it by now; see
	// [Hold.ValidUntil].
	ValidUntil time.Time
	// Depth is how often the owner has to unlock it.
	Depth int
	// PartOf is the name of the lock over several that it is held for, "" for none. While
	// that is still being acquired it is not known.
	PartOf string
	// Place is where in the code it was acquired, if [Config.RecordPlaces] is set.
	Place Place
}

// Held returns the locks that this client holds, those that it has held the longest first,
// and by name where the times are equal: one for each owner of each lock. Of a lock over
// several these are the locks that it is made of. It is for people and for tests: it asks
// Redis nothing, but looks at every lock, one of 64 parts of a kind after the other.
// [Client.Stats] has the number at less cost.
func (c *Client) Held() []HeldLock {
	all := c.diag.Held()
	held := make([]HeldLock, len(all))
	for i, h := range all {
		held[i] = HeldLock{
			Name: h.Name, Kind: Kind(h.Kind), Owner: Owner{h.Owner}, Since: h.Since, ValidUntil: h.ValidUntil,
			Depth: h.Depth, PartOf: h.PartOf, Place: Place(h.Place),
		}
	}
	return held
}

// A Place is where in the code a lock was taken. The zero Place is not known.
type Place struct {
	Function string // with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Place.
func (p Place) String() string { return client.Place(p).String() }
