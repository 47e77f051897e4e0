package history

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Recorder writes the events of one process: of one client of it, where it has
// several. Its methods, and those of its calls, may be called concurrently.
type Recorder struct {
	process string
	numbers atomic.Uint64

	mu  sync.Mutex // protects following
	w   io.Writer
	err error // of the first write that failed: nothing is written after it
}

// Create returns a Recorder that writes a new file. The name of the process must
// be that of no other recorder of the history; a process that is started again
// is another.
func Create(path, process string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return NewRecorder(file, process), nil
}

// NewRecorder returns a Recorder that writes to w, one line a Write, and closes
// it at Close if it can be closed.
func NewRecorder(w io.Writer, process string) *Recorder {
	return &Recorder{process: process, w: w}
}

// Close says that the process ended in order, and returns the first error there
// was: after one the history is not complete.
func (r *Recorder) Close() error {
	r.write(Event{At: Now(), Kind: Ended})
	r.mu.Lock()
	defer r.mu.Unlock()
	if file, ok := r.w.(io.Closer); ok {
		if err := file.Close(); r.err == nil {
			r.err = err
		}
	}
	if r.err != nil {
		return fmt.Errorf("history: of process %s: %w", r.process, r.err)
	}
	return nil
}

// Begin notes that op is about to be called. The Call is to be ended when it has
// returned; without an end the outcome is unknown.
func (r *Recorder) Begin(op Op) *Call {
	c := &Call{recorder: r, number: r.numbers.Add(1)}
	r.write(Event{At: Now(), Kind: Called, Number: c.number, Op: &op})
	return c
}

// Inject notes that a fault is about to begin, and returns a function that notes
// that it is over. A fault that is never healed lasts to the end of the history.
func (r *Recorder) Inject(f Fault) (heal func()) {
	number := r.numbers.Add(1)
	r.write(Event{At: Now(), Kind: Injected, Number: number, Fault: &f})
	return sync.OnceFunc(func() {
		r.write(Event{At: Now(), Kind: Healed, Number: number})
	})
}

// Happened notes a fault that nobody injected, and that was found only when it was
// over: it has lasted since the time that is given.
func (r *Recorder) Happened(f Fault, since Time) {
	number := r.numbers.Add(1)
	r.write(Event{At: since, Kind: Injected, Number: number, Fault: &f})
	r.write(Event{At: Now(), Kind: Healed, Number: number})
}

// Leftover notes something that was found after everybody had let go: a key, a
// subscription, a goroutine.
func (r *Recorder) Leftover(what string) {
	r.write(Event{At: Now(), Kind: Left, Leftover: what})
}

func (r *Recorder) write(e Event) {
	e.Process = r.process
	line, err := json.Marshal(e)
	line = append(line, '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
	case err != nil:
		r.err = err
	default:
		_, r.err = r.w.Write(line)
	}
}

// A Call is an operation that was begun; if it took a lock, it stands for that
// level of it.
type Call struct {
	recorder *Recorder
	number   uint64
}

// End notes that the call has returned. Its time is read now: whatever is asked
// for the Result must be asked before.
func (c *Call) End(result Result) {
	c.recorder.write(Event{At: Now(), Kind: Returned, Number: c.number, Result: &result})
}

// Look notes what the holder believes, which look finds out. The time is read
// before: what look finds was true at that time or later.
func (c *Call) Look(look func() Belief) {
	at := Now()
	belief := look()
	belief.Seen = Now()
	c.recorder.write(Event{At: at, Kind: Looked, Number: c.number, Belief: &belief})
}

// Told notes that the holder was told that it has lost the lock, and in which way:
// "Done", say. What Unlock says is noted as its outcome.
func (c *Call) Told(way string) {
	c.recorder.write(Event{At: Now(), Kind: Told, Number: c.number, Way: way})
}

// A Hold is a handle that knows how long it is valid; rlock's is one.
type Hold interface {
	ValidUntil() time.Time // zero if it is not valid
}

// Sight returns the look at a handle.
func Sight(h Hold) func() Belief {
	return func() Belief {
		until := h.ValidUntil()
		return Belief{Held: !until.IsZero(), Until: At(until)}
	}
}
