package terms

import "time"

// A Look says what of the locks of a client is looked at.
type Look struct {
	Holds bool // locks that are held
	Waits bool // locks for which calls wait, and these calls
	// Locate makes calls that have waited since before then find out where they were made, for a later look. Zero: none.
	Locate time.Time
}

// A View is a lock as one client has it at one moment, or a part of its waits.
type View struct {
	Name       string
	Kind       Kind      // of its writers
	ReadKind   Kind      // of its readers
	ValidUntil time.Time // until when its holders may be believed, whatever they have asked for
	Permits    int       // how many permits of a semaphore are held; 0 for other locks
	Levels     []Level
	Waits      []Wait

	// Of a lock that is held here while calls wait for it: its tenure as it stands in Redis, "<uuid>:", and its first level.
	Tenure string
	Holder Level
}

// KindOf returns the kind of a reader or of a writer.
func (v *View) KindOf(reads bool) Kind {
	if reads {
		return v.ReadKind
	}
	return v.Kind
}

// A Level is one Lock that was not unlocked yet.
type Level struct {
	Owner     Owner
	Goroutine uint64 // that has called, 0 if it is not known
	Reads     bool
	First     bool      // the owner held nothing before
	Since     time.Time // when it was acquired
	Until     time.Time // the end of its lease; zero: it is renewed until its Unlock
	Site      *Site
	Whole     *Whole // that it is held for, nil for none
	Standing  bool   // it is held for long by design: see Standing
	Release   func() // releases a level whose handle was dropped, and that of no whole; nil for any other
	Dropped   bool   // its handle, or that of its whole, was dropped
}

// A Wait is one call that waits for the lock.
type Wait struct {
	Owner     Owner
	Goroutine uint64 // that has called, 0 if it is not known
	Reads     bool
	Since     time.Time
	Site      *Site  // nil if it is not recorded, and was not found yet
	Whole     *Whole // that it waits for, nil for none
	Holder    string // that Redis has named last, "" if it named none
	Endless   bool   // that holder's key has no TTL
	Logged    bool   // it was logged that it waits for its own goroutine
	Standing  bool   // it waits for long by design: see Standing
}
