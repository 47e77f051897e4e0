// Package composite makes locks of locks: the holder of a multi-lock has all of its parts, the
// holder of a red lock the majority of its parts, one on each of several servers. The package uses
// locks by the methods of [Locker], and does not know how they are kept.
//
//	Lock ──► multi: one part after the other ──┐
//	     └─► red: an attempt at all at once  ──┴─► Hold: valid while enough parts are ──► Part
//
// Nothing runs while a Hold has its parts: a part that is lost calls Options.Lost. A red lock
// acquires it again (heal.go). A mutex of this package is taken before the mutexes of the packages
// below: State, SetLease and ReleaseLater may be called while it is held.
package composite
