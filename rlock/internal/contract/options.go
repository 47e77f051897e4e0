package contract

import (
	"context"
	"math"
	"time"
)

// An Answer is filled in by an Acquire with WithAnswer, with which package once takes the value
// that another caller has left behind.
type Answer struct {
	Text   string    // the string that the script of ReleaseWith, or of Unless, returned
	Waited bool      // the call had to wait; it may hold the lock now
	Clock  int64     // Redis' clock in µs, read by the first command of the call; 0 if there was none
	Read   time.Time // the time at which the first command was sent

	// Unless is a Lua script, or "", with Keys and Args as for Hold.Exec. It runs in the step that
	// takes the lock or a place in the queue, and before that. If it returns a string, the string
	// is the answer, and nothing is taken. Checked says that the step was executed, with either
	// result.
	Unless     string
	Keys, Args []string
	Checked    bool
}

// AcquireOptions are the options of an acquire.
type AcquireOptions struct {
	Lease      time.Duration // the lease of the hold; 0 if the watchdog renews it until Unlock
	MaxHold    time.Duration // the longest time of the hold, for which the watchdog renews it; 0 for none
	MinHold    time.Duration // the least time for which the lock stays taken after the acquire, only with a handle; 0 for none
	Wait       time.Duration // the time to wait for the lock; 0 for a single attempt
	More       int           // the number of permits of a semaphore beside the first
	MaxWaiters int32         // the number of callers that may wait, this one included; 0 for any number, negative for none
	Note       *string       // the text of the note of the hold, at most wire.MaxNote bytes; nil for no note
	Line       string        // the line in which the call waits, which has a note then; "" for none
	Takeover   time.Duration // the grace of the holders that the call takes the lock over from; 0 for a call that waits for its turn
	Standing   bool          // long waits and holds of the caller are by design, and are not logged

	// Progress is called with the caller's place among the waiters, once the place is known and
	// whenever it changes. It may be nil.
	Progress func(place, waiting int)
	// Answer is filled in when the call returns. It is nil for a call that takes no answer from
	// another holder.
	Answer *Answer
}

// Standing is an rlock.AcquireOption of package elect: the call waits for long by design, like a
// standby, and is not logged.
func Standing(o *AcquireOptions) { o.Standing = true }

// WithAnswer is an rlock.AcquireOption which lets another holder answer a call that waits: if the
// script of its Hold.ReleaseWith returns a string, Acquire returns ErrAnswered, and *a has the
// string. If several calls of one client wait for a lock, only the call that has the client's place
// in Redis' queue is answered. Only plain, fenced and fair locks have answers (else
// errors.ErrUnsupported).
func WithAnswer(a *Answer) func(*AcquireOptions) {
	return func(o *AcquireOptions) { o.Answer = a }
}

// A Kind is the sort of a lock, as users see it.
type Kind string

// The kinds of locks.
const (
	KindPlain     Kind = "plain"
	KindFenced    Kind = "fenced"
	KindFair      Kind = "fair"
	KindRead      Kind = "read"
	KindWrite     Kind = "write"
	KindSemaphore Kind = "semaphore"
	KindMulti     Kind = "multi"
	KindRed       Kind = "red"
)

// Forever is the wait of a call that only its context ends.
const Forever time.Duration = math.MaxInt64

// Silence is the time after which a server that answers no command is taken for dead, until it
// answers again.
const Silence = 250 * time.Millisecond

type freshKey struct{}

// WithFresh returns a context that tells package once whether to return only values of functions
// that begin after the call.
func WithFresh(ctx context.Context, fresh bool) context.Context {
	return context.WithValue(ctx, freshKey{}, fresh)
}

// IsFresh returns the value of the innermost WithFresh; false if there is none.
func IsFresh(ctx context.Context) bool {
	fresh, _ := ctx.Value(freshKey{}).(bool)
	return fresh
}
