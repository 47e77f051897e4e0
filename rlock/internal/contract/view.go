package contract

import "time"

// A Look says what ReadLocks reads of a client.
type Look struct {
	Holds bool // read the locks that are held
	Waits bool // read the locks for which calls wait, and these calls
	// Locate has the calls that began before this time find out their sites, for a later look; zero
	// for none.
	Locate time.Time
}

// A View is a lock as one client has it at one moment. A lock with many waits has several views.
type View struct {
	Name       string
	Kind       Kind      // the kind of its writers
	ReadKind   Kind      // the kind of its readers
	ValidUntil time.Time // the time until which this client certainly has the lock
	Permits    int       // the number of permits of a semaphore that are held; 0 for other locks
	Levels     []Level
	Waits      []Wait

	// Tenure is "<uuid>:" of the tenure in Redis, and Holder its first level, for a lock that is
	// held here while calls wait for it. Note is the note of Holder in words, or "".
	Tenure string
	Holder Level
	Note   string
}

// KindOf returns the kind of a reader or of a writer.
func (v *View) KindOf(reads bool) Kind {
	if reads {
		return v.ReadKind
	}
	return v.Kind
}

// A Level is one open level of an owner.
type Level struct {
	Owner     Owner
	Goroutine uint64 // the goroutine that has called; 0 if it is not known
	Reads     bool
	First     bool      // the owner held nothing before
	Since     time.Time // the time at which the level was acquired
	Note      string    // the text of the note of the owner's hold, which is the note of its first level; or ""
	Until     time.Time // the end of the lease; zero if the level is renewed until its Unlock
	Site      *Site
	Whole     *Whole // the multi or red lock as whose part the lock is held, or nil
	Standing  bool   // the hold is long by design: see Standing
	Release   func() // releases the level, if its own handle was dropped; else nil
	Dropped   bool   // the handle of the level, or of its whole, was dropped
}

// A Wait is one call that waits for the lock.
type Wait struct {
	Owner     Owner
	Goroutine uint64 // the goroutine that has called; 0 if it is not known
	Reads     bool
	Since     time.Time
	Site      *Site  // the place of the call; nil if it is neither recorded nor found yet
	Whole     *Whole // the multi or red lock as whose part the lock is waited for, or nil
	Holder    string // the holder that Redis has named last, or ""
	Note      string // the note of that holder in words, or ""
	Endless   bool   // the key of the holder has no TTL
	Logged    bool   // the log says that the call waits for its own goroutine
	Standing  bool   // the wait is long by design: see Standing
}
