package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Recorder notes the events of one process, or of one of its clients. Its methods, and those of
// its calls, may be called concurrently.
type Recorder struct {
	process string
	numbers atomic.Uint64

	mu   sync.Mutex // guards the fields below
	note func(Event) error
	err  error // the first one of note, which is not called after it
	file io.Closer
}

// Create returns a Recorder that writes a new file, one line a write(2). The name of the process
// must be unique in the history; a process that is started again needs another name.
func Create(path, process string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	lines := json.NewEncoder(file)
	r := NewRecorder(process, func(e Event) error { return lines.Encode(e) })
	r.file = file
	return r, nil
}

// NewRecorder returns a Recorder that gives each event to note, one after the other.
func NewRecorder(process string, note func(Event) error) *Recorder {
	return &Recorder{process: process, note: note}
}

// Close notes that the process ended in order, and returns the first error, after which the history
// is incomplete.
func (r *Recorder) Close() error {
	r.write(Event{At: Now(), Kind: Ended})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		r.err = cmp.Or(r.err, r.file.Close())
	}
	if r.err != nil {
		return fmt.Errorf("history: of process %s: %w", r.process, r.err)
	}
	return nil
}

func (r *Recorder) write(e Event) {
	e.Process = r.process
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.note(e)
	}
}

// Begin notes that op is about to be called. Call End when it has returned; without an end the
// outcome is unknown.
func (r *Recorder) Begin(op Op) *Call {
	c := &Call{recorder: r, number: r.numbers.Add(1)}
	c.write(Event{At: Now(), Kind: Called, Op: &op})
	return c
}

// Closes notes that the client is about to be closed.
func (r *Recorder) Closes() { r.write(Event{At: Now(), Kind: Closes}) }

// Inject notes that a fault is about to begin, and returns a function that notes its end. A fault
// that is never healed lasts to the end of the history.
func (r *Recorder) Inject(f Fault) (heal func()) {
	number := r.numbers.Add(1)
	r.write(Event{At: Now(), Kind: Injected, Number: number, Fault: &f})
	return sync.OnceFunc(func() {
		r.write(Event{At: Now(), Kind: Healed, Number: number})
	})
}

// Happened notes a fault that lasted from one time to another, which was found afterwards or was
// known before.
func (r *Recorder) Happened(f Fault, from, to Time) {
	number := r.numbers.Add(1)
	r.write(Event{At: from, Kind: Injected, Number: number, Fault: &f})
	r.write(Event{At: to, Kind: Healed, Number: number})
}

// beat is the interval of a pulse, and the delay that it notes.
const beat = 20 * time.Millisecond

// Pulse notes, until ctx ends, each time at which the process could not run because the machine had
// no time for it: its work of that time is done later.
func (r *Recorder) Pulse(ctx context.Context) {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		due := time.Now().Add(beat)
		timer.Reset(beat)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if stall := time.Since(due); stall > beat {
			r.write(Event{At: Now(), Kind: Stalled, Stall: stall})
		}
	}
}

// A Call is a call for a lock that has begun; if it took the lock, it stands for that level of it.
type Call struct {
	recorder *Recorder
	number   uint64
}

func (c *Call) write(e Event) {
	e.Number = c.number
	c.recorder.write(e)
}

// End notes that the call has returned. End reads the time: determine the fields of the Result
// before.
func (c *Call) End(result Result) { c.write(Event{At: Now(), Kind: Returned, Result: &result}) }

// Look notes the state that look returns. The time is read before: the state holds at that time or
// later.
func (c *Call) Look(look func() Belief) {
	at := Now()
	belief := look()
	belief.Seen = Now()
	c.write(Event{At: at, Kind: Looked, Belief: &belief})
}

// Told notes that the context of the hold has ended because the lock was lost.
func (c *Call) Told() { c.write(Event{At: Now(), Kind: Told}) }

// Gives notes that the level is given back, since a time before: of some calls it is known only
// when they have returned whether they have given it back.
func (c *Call) Gives(since Time) { c.write(Event{At: since, Kind: Gives}) }

// Gave notes that the call which gives the level back has returned; without it the outcome is
// unknown.
func (c *Call) Gave(result Result) { c.write(Event{At: Now(), Kind: Gave, Result: &result}) }

// ReadFiles returns the events of all files.
func ReadFiles(paths ...string) (events []Event, err error) {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		read, err := Read(file)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("history: %s: %w", path, err)
		}
		events = append(events, read...)
	}
	return events, nil
}

// Read returns the events that one Recorder wrote, in order. A last line without its end is
// ignored: its writer was killed.
func Read(r io.Reader) (events []Event, err error) {
	for lines := json.NewDecoder(r); ; {
		var e Event
		switch err := lines.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return events, nil
		case err != nil:
			return nil, fmt.Errorf("event %d: %w", len(events)+1, err)
		}
		events = append(events, e)
	}
}
