package terms

import (
	"errors"
	"sync/atomic"
)

// A Life is the time for which a hold is held. A context of the hold refers to it for as long as the context exists.
type Life struct{ over, dropped atomic.Bool }

// IsOver reports whether the hold is about to be released, or was released, lost or passed on.
func (l *Life) IsOver() bool { return l.over.Load() }

// Drop notes that the program has dropped the handle of the hold, and cannot release it any more. It is called by the
// runtime's goroutine for cleanups, which belongs to no bubble of testing/synctest: so it does no more.
func (l *Life) Drop() { l.dropped.Store(true) }

// IsDropped reports whether the hold is held, and the program has dropped its handle.
func (l *Life) IsDropped() bool { return l != nil && l.dropped.Load() && !l.over.Load() }

func (l *Life) end() {
	if l != nil {
		l.over.Store(true)
	}
}

// ErrOutlived says that a call was made as a guest of a hold that is over. The call has taken nothing.
var ErrOutlived = errors.New("the hold that the context comes from is over: the call begins again as another owner")
