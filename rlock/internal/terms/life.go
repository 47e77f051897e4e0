package terms

import (
	"errors"
	"sync/atomic"
)

// A Life is the time for which a hold is held. A context of the hold refers to it for as long as the context exists.
type Life struct{ over atomic.Bool }

// IsOver reports whether the hold is about to be released, or was released, lost, detached or passed on.
func (l *Life) IsOver() bool { return l.over.Load() }

func (l *Life) end() {
	if l != nil {
		l.over.Store(true)
	}
}

// ErrOutlived says that a call was made as a guest of a hold that is over. The call has taken nothing.
var ErrOutlived = errors.New("the hold that the context comes from is over: the call begins again as another owner")
