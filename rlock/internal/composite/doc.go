// Package composite makes locks of locks: a multi-lock is all of them, a red lock the majority of
// one on each of several servers. It uses locks by the methods of [Locker], and does not know how
// they are kept.
//
//	Lock ──► multi: one part after the other ──┐
//	     └─► red: an attempt at all at once  ──┴─► Hold: valid while enough parts are ──► Part
//
// Nothing runs while a Hold has its parts: a part that is lost calls Options.Lost. A red lock
// acquires it again (heal.go). A mutex of this package is taken before the mutexes of the packages
// below: State, SetLease and ReleaseLater may be called with it.
package composite
