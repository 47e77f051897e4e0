package contract

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A HoldContext is the context of a hold, with the contexts that are merged with it. The struct of
// a hold embeds it, and calls Begin before all else.
type HoldContext struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	life   *Life // the life of the hold; nil for a part, since its whole has one

	mu     sync.Mutex                  // guards the fields below
	wanted chan struct{}               // closed once another owner waits; nil while the hold does not ask for others
	merged map[<-chan struct{}]*merged // the contexts of Merge, by the Done channel of the context from which each is made
	most   int                         // the largest number of entries since merged was made
	stop   func() bool                 // ends the watch of ctx, whose end also ends the contexts of Merge; nil before the first Merge
}

// A merged is a context that ends with a hold and with another context.
type merged struct {
	context.Context
	end context.CancelCauseFunc
}

// Begin makes the context from parent. End ends the life as well, unless it is nil.
func (c *HoldContext) Begin(parent context.Context, life *Life) {
	c.life = life
	c.ctx, c.cancel = context.WithCancelCause(parent)
}

// Context returns the context that ends when the hold does.
func (c *HoldContext) Context() context.Context { return c.ctx }

// End ends the context and the contexts merged with it; the second call changes nothing.
func (c *HoldContext) End(cause error) {
	if c.life != nil {
		c.life.over.Store(true)
	}
	c.mu.Lock()
	if c.stop != nil {
		c.stop()
	}
	c.mu.Unlock()
	c.cancel(cause)
	c.endMerged()
	c.mu.Lock()
	c.merged = nil
	c.mu.Unlock()
}

// AskedWanted returns the channel that TellWanted closes. first is false if an earlier call has
// asked for the channel.
func (c *HoldContext) AskedWanted() (wanted <-chan struct{}, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first = c.wanted == nil; first {
		c.wanted = make(chan struct{})
	}
	return c.wanted, first
}

// TellWanted closes the channel of AskedWanted, since another owner waits. The hold may have ended
// meanwhile.
func (c *HoldContext) TellWanted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.wanted:
	default:
		close(c.wanted)
	}
}

// endMerged ends the contexts of Merge. The context of the hold has ended before: so no entry is
// added or removed any more, and two concurrent calls end the same contexts.
func (c *HoldContext) endMerged() {
	c.mu.Lock()
	merged := c.merged
	c.mu.Unlock()
	cause := context.Cause(c.ctx)
	for _, m := range merged {
		m.end(cause)
	}
}

// Merge returns a context that is made from ctx, and also ends when the context of the hold ends,
// before End returns. Contexts that end together share one, since a caller cannot cancel it: a
// program may merge a context that lasts as long as the process, again and again, while the hold
// lasts.
func (c *HoldContext) Merge(ctx context.Context) context.Context {
	done := ctx.Done()
	if m := c.find(done); m != nil {
		return &sharing{ctx, m}
	}
	m := new(merged)
	m.Context, m.end = context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		m.end(context.Cause(c.ctx))
		return m.Context
	}
	if other := c.merged[done]; other != nil { // another goroutine has made the context meanwhile
		m.end(nil)
		return &sharing{ctx, other}
	}
	if c.merged == nil {
		c.merged = make(map[<-chan struct{}]*merged)
	}
	c.sweep()
	c.merged[done] = m
	c.most = max(c.most, len(c.merged))
	if c.stop == nil { // the context of the hold may also end with its parent, without End
		c.stop = context.AfterFunc(c.ctx, c.endMerged)
	}
	return m.Context
}

// swept is the number of entries that sweep looks at for each entry added: more are removed than
// added once some have ended.
const swept = 4

// sweep removes some contexts that have ended. A map keeps the memory of its largest size: a map
// that has lost most of its entries is copied to a new one. The caller holds mu.
func (c *HoldContext) sweep() {
	left := swept
	for done, m := range c.merged {
		if m.Err() != nil {
			delete(c.merged, done)
		}
		if left--; left == 0 {
			break
		}
	}
	if n := len(c.merged); c.most > 64 && n < c.most/4 {
		smaller := make(map[<-chan struct{}]*merged, n)
		maps.Copy(smaller, c.merged)
		c.merged, c.most = smaller, n
	}
}

// find returns the context that Merge has made from a context with that Done channel; nil if there
// is none, or the hold is over.
func (c *HoldContext) find(done <-chan struct{}) *merged {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil
	}
	return c.merged[done]
}

// A sharing is a context with the values of one context and the end of another.
type sharing struct {
	context.Context
	ends context.Context
}

func (s *sharing) Done() <-chan struct{} { return s.ends.Done() }
func (s *sharing) Err() error            { return s.ends.Err() }

// Value returns the value of the context. Package context asks for a value under a key of its own
// to find the end and the cause of a context.
func (s *sharing) Value(key any) any {
	if key == endKey {
		return s.ends.Value(key)
	}
	return s.Context.Value(key)
}

// endKey is the key by which package context asks for the end of a context.
var endKey = func() (key any) {
	_ = context.Cause(asked{context.Background(), &key})
	return key
}()

// An asked is a context that has ended, and notes the key for which its value is asked.
type asked struct {
	context.Context
	key *any
}

func (a asked) Err() error { return context.Canceled }

func (a asked) Value(key any) any {
	*a.key = key
	return nil
}

// A Life says whether a hold is held. The contexts of the hold refer to the Life, so that it lives
// as long as they do.
type Life struct{ over, dropped atomic.Bool }

// IsOver reports whether the hold is about to be released, or was released, lost or passed on.
func (l *Life) IsOver() bool { return l.over.Load() }

// Drop notes that the program has dropped the handle of the hold, and cannot release it any more.
// It does no more: it is called by the runtime's goroutine for cleanups, which belongs to no bubble
// of testing/synctest.
func (l *Life) Drop() { l.dropped.Store(true) }

// IsDropped reports whether the hold is held, and the program has dropped its handle.
func (l *Life) IsDropped() bool { return l != nil && l.dropped.Load() && !l.over.Load() }

// An Outlived is the error of a call that was a guest of a hold which has ended. The call has taken
// nothing, and is repeated as another owner. The Observer is told of both attempts as of one call.
type Outlived struct {
	Lock      string    // the name of the lock
	Began     time.Time // the time at which the call began
	Contended bool      // the Observer was told that the call waits
}

func (e *Outlived) Error() string {
	return fmt.Sprintf("rlock: lock %q: the hold that the context comes from is over", e.Lock)
}

// A Whole is a hold of a multi or red lock, as the clients of its parts know it. The Observer, the
// log and the owner are told of the whole in place of its parts.
type Whole struct {
	Name string
	Kind Kind
	Site *Site // the place where it was acquired; nil if that is not recorded

	held atomic.Bool // enough parts are held, and the whole is neither released nor lost
	long atomic.Bool // TellsLong was called
}

// SetHeld notes whether the whole is held. It is called once when the hold begins, and once when it
// ends.
func (w *Whole) SetHeld(held bool) { w.held.Store(held) }

// IsHeld reports whether the whole is held. If it is not, its parts belong to an attempt, and do
// not count as holds of the owner.
func (w *Whole) IsHeld() bool { return w.held.Load() }

// TellsLong reports whether the long hold of the whole has yet to be logged. Only the first call
// returns true.
func (w *Whole) TellsLong() bool { return !w.long.Swap(true) }

// A Part is one level of a lock, as the multi or red lock knows it whose part it is. Its methods
// may be called concurrently.
type Part interface {
	// Context returns a context that ends when the part does.
	Context() context.Context
	// Err returns nil while the part is held, [ErrNotHeld] after its release, and the cause of the
	// loss after a loss.
	Err() error
	// ValidUntil returns the time until which the lock is certainly held; zero if it is not held.
	ValidUntil() time.Time
	// SetLease sets the lease from now on, or has the watchdog renew the part if the lease is 0. It
	// waits for nothing, and does not change a part that is over.
	SetLease(lease time.Duration)
	// WhenWanted has tell called, under a mutex, when another owner waits for the part while the part
	// is held: once, or once for each of the parts that it is made of. The last function counts.
	WhenWanted(tell func())
	// Release gives the part back, and returns once Redis confirms the release.
	Release(ctx context.Context) error
	// ReleaseLater gives the part back, and waits for nothing. It does not change a part that is
	// being released. The next acquire of the lock in this process waits for the release.
	ReleaseLater()
}

// A State is what this client knows of a lock without asking Redis, for an owner.
type State struct {
	Depth   int  // the number of times that the owner has to unlock the lock
	Taken   bool // another owner of this process has the lock, or waits for it
	Freeing bool // this client is about to free the lock
	// Silent is the time for which the server has answered nothing, although commands are in
	// flight.
	Silent time.Duration
}

// IsSilent reports whether the server is taken for dead.
func (s State) IsSilent() bool { return s.Silent >= Silence }
