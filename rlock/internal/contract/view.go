package contract

import "time"

// A Look says which locks of a client are looked at.
type Look struct {
	Holds bool // locks that are held
	Waits bool // locks for which calls wait, and these calls
	// Locate is the time before which calls began that are to find out where they were made, for a
	// later look; zero for none.
	Locate time.Time
}

// A View is a lock as one client has it at one moment, or a part of its waits.
type View struct {
	Name       string
	Kind       Kind      // the kind of its writers
	ReadKind   Kind      // the kind of its readers
	ValidUntil time.Time // the time until which this client certainly has it
	Permits    int       // the number of permits of a semaphore that are held; 0 for other locks
	Levels     []Level
	Waits      []Wait

	// The tenure in Redis, "<uuid>:", and the first level of a lock that is held here while calls
	// wait for it.
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

// A Level is one level of an owner that is held.
type Level struct {
	Owner     Owner
	Goroutine uint64 // the goroutine that has called; 0 if it is not known
	Reads     bool
	First     bool      // the owner held nothing before
	Since     time.Time // the time at which it was acquired
	Until     time.Time // the end of its lease; zero: it is renewed until its Unlock
	Site      *Site
	Whole     *Whole // the whole that it is held for, or nil
	Standing  bool   // it is held for long by design: see Standing
	Release   func() // releases the level, if its own handle was dropped; else nil
	Dropped   bool   // its handle, or that of its whole, was dropped
}

// A Wait is one call that waits for the lock.
type Wait struct {
	Owner     Owner
	Goroutine uint64 // the goroutine that has called; 0 if it is not known
	Reads     bool
	Since     time.Time
	Site      *Site  // the place of the call; nil if it is neither recorded nor found yet
	Whole     *Whole // the whole that it waits for, or nil
	Holder    string // the holder that Redis has named last, or ""
	Endless   bool   // the key of that holder has no TTL
	Logged    bool   // it was logged that it waits for its own goroutine
	Standing  bool   // it waits for long by design: see Standing
}
