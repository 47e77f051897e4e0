// Package group makes locks of locks: a multi-lock is all of them, a red lock the majority of one
// on each of several servers. It knows a lock by what a [Locker] offers, and nothing of how one is
// kept.
//
//	Lock ──► multi: one part after the other ──┐
//	     └─► red: an attempt at all at once  ──┴─► Hold: valid while enough parts are ──► Part
//
// Nothing runs while a Hold has its parts: one that is lost tells it, by Options.Lost. A red lock
// takes it again (heal.go). A mutex of this package comes before all of the packages below: State,
// SetLease and ReleaseLater may be called with it.
package group
