package terms

import (
	"context"
	"sync/atomic"
	"time"
)

// A Whole is a hold of several locks, as the client of each of them knows it. The Observer, the log and the owner are
// told of the whole in place of its parts.
type Whole struct {
	Name string
	Kind Kind
	Site *Site // where it was acquired, nil if that is not recorded

	held atomic.Bool // enough parts are held, and it is neither released nor lost
	long atomic.Bool // it was told that it is held for a long time
}

// SetHeld notes whether the whole is held. It is told once when that begins, and once when it ends.
func (w *Whole) SetHeld(held bool) { w.held.Store(held) }

// IsHeld reports whether the whole is held: parts of an attempt that goes on, or has failed, are no holds of the owner.
func (w *Whole) IsHeld() bool { return w.held.Load() }

// TellsLong reports whether it is yet to be told that the whole is held for a long time. Only its first call returns true.
func (w *Whole) TellsLong() bool { return !w.long.Swap(true) }

// A Part is one level of a lock that was acquired, as a lock over several knows it. Its methods may be called concurrently.
type Part interface {
	// Context returns a context that ends when the part does.
	Context() context.Context
	// Err returns nil while the part is held, [ErrNotHeld] after its release, and why it was lost after that.
	Err() error
	// ValidUntil returns until when the lock is certainly held, the zero time if it is not.
	ValidUntil() time.Time
	// SetLease asks for the lease from now on, 0 for the watchdog. It waits for nothing, and changes nothing of a
	// part that is over.
	SetLease(lease time.Duration)
	// Release gives the part back, and returns once that is confirmed.
	Release(ctx context.Context) error
	// ReleaseLater is Release that waits for nothing, and changes nothing of a part that is being released. The next
	// acquire of the lock in this process waits for the release.
	ReleaseLater()
}

// A State is what this client knows of a lock without asking Redis, for an owner.
type State struct {
	Depth   int  // how often the owner has to unlock the lock
	Taken   bool // another owner of this process has the lock, or waits for it
	Freeing bool // this client is about to free the lock
	// Silent is for how long the server has answered nothing, although commands are in flight.
	Silent time.Duration
}

// IsSilent reports whether the server is taken for dead.
func (s State) IsSilent() bool { return s.Silent >= Silence }
