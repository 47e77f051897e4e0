package inspect

import (
	"fmt"
	"time"
)

// A Held is a lock that a client holds.
type Held struct {
	Name  string
	Kind  Kind
	Owner uint64 // the number of the rlock.Owner
	// Since is when the owner acquired it. It is counted by the monotonic clock, and so later
	// than it was if the machine has slept since.
	Since time.Time
	// ValidUntil is until when it is certainly held, as Redis has confirmed it by now: see
	// Hold.ValidUntil.
	ValidUntil time.Time
	// Depth is how often the owner has to unlock it.
	Depth int
	// Permits is how many permits of a semaphore the owner has taken, and 0 for other locks.
	Permits int
	// PartOf is the name of the lock over several that it is held for, "" for none. While
	// that is still being acquired it is not known.
	PartOf string
	// Site is where in the code it was acquired, if Config.RecordSites is set.
	Site Site
}

// A Site is where in the code a lock was taken. The zero Site is not known.
type Site struct {
	Function string // with the path of its package
	File     string
	Line     int
}

// String returns "file:line function", and "" for the zero Site.
func (p Site) String() string {
	if p == (Site{}) {
		return ""
	}
	return fmt.Sprintf("%s:%d %s", p.File, p.Line, p.Function)
}
