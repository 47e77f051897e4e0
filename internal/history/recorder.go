package history

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Recorder writes the events of one process, or of one of its clients. Its methods, and those of
// its calls, may be called concurrently.
type Recorder struct {
	process string
	numbers atomic.Uint64

	mu  sync.Mutex // protects following
	w   io.Writer
	err error // the first failed write: nothing is written after it
}

// Create returns a Recorder that writes a new file. The name of the process must be unique in the
// history; a process that is started again needs another name.
func Create(path, process string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return NewRecorder(file, process), nil
}

// NewRecorder returns a Recorder that writes to w, one line a Write, and closes it at Close if it
// can be closed.
func NewRecorder(w io.Writer, process string) *Recorder {
	return &Recorder{process: process, w: w}
}

// Close notes that the process ended in order, and returns the first error, after which the history
// is incomplete.
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

func (r *Recorder) write(e Event) {
	e.Process = r.process
	line, err := json.Marshal(e)
	line = append(line, '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = cmp.Or(r.err, err); r.err == nil {
		_, r.err = r.w.Write(line)
	}
}

// Begin notes that op is about to be called. Call End when it has returned; without an end the
// outcome is unknown.
func (r *Recorder) Begin(op Op) *Call { return r.Began(op, Now()) }

// Began is Begin for a call that began at a time before: of some calls it is known only when they
// have returned whether they have taken or given a level.
func (r *Recorder) Began(op Op, at Time) *Call {
	c := &Call{recorder: r, number: r.numbers.Add(1)}
	r.write(Event{At: at, Kind: Called, Number: c.number, Op: &op})
	return c
}

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

// Leftover notes something that was found after all locks were given back: a key, a subscription, a
// goroutine.
func (r *Recorder) Leftover(what string) {
	r.write(Event{At: Now(), Kind: Left, Leftover: what})
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

// A Call is an operation that has begun; if it took a lock, it stands for that level of the lock.
type Call struct {
	recorder *Recorder
	number   uint64
}

// End notes that the call has returned. End reads the time: determine the fields of the Result
// before.
func (c *Call) End(result Result) {
	c.recorder.write(Event{At: Now(), Kind: Returned, Number: c.number, Result: &result})
}

// Look notes the state that look returns. The time is read before: the state holds at that time or
// later.
func (c *Call) Look(look func() Belief) {
	at := Now()
	belief := look()
	belief.Seen = Now()
	c.recorder.write(Event{At: at, Kind: Looked, Number: c.number, Belief: &belief})
}

// Told notes that the holder was notified of the loss of the lock, and in which way, such as
// "Done". The result of Unlock is noted as its outcome.
func (c *Call) Told(way string) {
	c.recorder.write(Event{At: Now(), Kind: Told, Number: c.number, Way: way})
}

// ReadFiles returns the events of all files together, in the order of their times.
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
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events, nil
}

// Read returns the events that one Recorder wrote, in order. A last line without its end is
// ignored: its writer was killed.
func Read(r io.Reader) (events []Event, err error) {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		var e Event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		events = append(events, e)
	}
}
