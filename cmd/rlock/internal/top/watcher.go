package top

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/cmd/rlock/internal/survey"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

const (
	// namesPerLook is the number of names that are read for each lock that may be inspected.
	namesPerLook = 10
	// window is the number of looks in a rate.
	window = 10
)

// A Look is the state in Redis at one moment.
type Look struct {
	At   time.Time
	Took time.Duration
	Rows []Row // the rows, by name

	// LeftOut is the number of held locks that are not among the rows. More marks it as a lower
	// bound, since not all names were read.
	LeftOut int
	More    bool

	// Err is the reason why some or all locks could not be inspected.
	Err error
}

// A Row is a lock. A free lock has a row if it was held at one of the last looks.
type Row struct {
	inspect.Lock
	Seen time.Duration // the longest time for which one of its holders has been seen
	Rate float64       // the number of new holders a second; negative if not known yet
}

// Waiters returns the number of waiters, clients of Redisson included.
func (r Row) Waiters() int { return r.Waiting + max(r.Foreign, 0) }

// Totals are sums over the rows of a look.
type Totals struct {
	Held, Waiters, Processes int
	Rate                     float64
}

// Totals returns the sums.
func (l Look) Totals() (t Totals) {
	processes := make(map[inspect.Process]bool)
	for _, row := range l.Rows {
		if row.HolderCount > 0 {
			t.Held++
		}
		t.Waiters += row.Waiters()
		t.Rate += max(row.Rate, 0)
		for _, h := range row.Holders {
			if h.Process != nil {
				p := *h.Process
				p.Addr = "" // a process may have several connections
				processes[p] = true
			}
		}
	}
	t.Processes = len(processes)
	return t
}

// A Watcher looks at the locks, and remembers the earlier looks. Its methods may be called
// concurrently.
type Watcher struct {
	client *rlock.Client
	limit  int

	mu      sync.Mutex // guards the fields below, and is held for the whole of a look
	pattern string     // the pattern of the last look
	at      time.Time  // the time of that look
	whole   bool       // the last look has shown all locks of the pattern
	past    map[string]*history
}

// NewWatcher returns a Watcher that inspects at most limit locks for a look.
func NewWatcher(client *rlock.Client, limit int) *Watcher {
	return &Watcher{client: client, limit: limit, past: make(map[string]*history)}
}

// Inspect inspects one lock.
func (w *Watcher) Inspect(ctx context.Context, name string) (inspect.Lock, error) {
	return inspect.Of(w.client).Lock(ctx, name)
}

// Look looks at the locks whose names match a pattern of Redis' KEYS.
func (w *Watcher) Look(ctx context.Context, pattern string) (look Look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look.At = time.Now()
	defer func() { look.Took = time.Since(look.At) }()

	held, more, err := survey.Names(ctx, w.client, pattern, namesPerLook*w.limit)
	if look.Err = err; err != nil && len(held) == 0 {
		w.whole = false
		return look
	}
	names := w.choose(held, pattern)
	look.More = more
	inspections, errs := survey.Inspect(ctx, w.client, names)
	w.whole = w.whole && pattern == w.pattern // if so, a lock that is not in w.past was free at the last look
	inspected := make(map[string]bool)
	for at, name := range names {
		inspected[name] = true
		switch err := errs[at]; {
		case errors.Is(err, rlock.ErrWrongType): // kept only if there is no other error
			look.Err = cmp.Or(look.Err, err)
		case err != nil:
			look.Err = err
		default:
			row := w.note(look.At, pattern, inspections[at])
			if row.HolderCount+row.Waiters() > 0 || row.Rate > 0 {
				look.Rows = append(look.Rows, row)
			}
		}
	}
	for _, name := range held {
		if !inspected[name] {
			look.LeftOut++
		}
	}
	slices.SortFunc(look.Rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	w.pattern, w.at, w.whole = pattern, look.At, look.Err == nil && look.LeftOut == 0 && !more
	for name, h := range w.past {
		if !inspected[name] && (w.whole || len(w.past) > 2*namesPerLook*w.limit) || inspected[name] && h.idle() {
			delete(w.past, name)
		}
	}
	return look
}

// choose returns the names of the locks to inspect: the held locks, and those that the same pattern
// matched at one of the last looks and that may be free for a short time only. It needs the mutex.
func (w *Watcher) choose(held []string, pattern string) []string {
	names := slices.Clone(held)
	for name, h := range w.past {
		if _, there := slices.BinarySearch(held, name); !there && h.pattern == pattern && h.rate() > 0 {
			names = append(names, name)
		}
	}
	if len(names) <= w.limit {
		return names
	}
	known := func(name string) history {
		if h := w.past[name]; h != nil {
			return *h
		}
		return history{}
	}
	slices.SortFunc(names, func(a, b string) int {
		one, other := known(a), known(b)
		return cmp.Or(cmp.Compare(other.waiters, one.waiters), one.at.Compare(other.at), strings.Compare(a, b))
	})
	return names[:w.limit]
}

// note compares an inspection with the earlier ones of the lock. It needs the mutex.
func (w *Watcher) note(now time.Time, pattern string, i inspect.Lock) Row {
	row := Row{Lock: i}
	h := w.past[i.Name]
	if h == nil {
		h = &history{}
		if w.whole {
			h.at = w.at // the lock was free then
		}
		w.past[i.Name] = h
	}
	h.add(now, row)
	h.pattern = pattern
	for _, since := range h.since {
		row.Seen = max(row.Seen, now.Sub(since))
	}
	row.Rate = h.rate()
	return row
}

// A history is the record of one lock.
type history struct {
	pattern string               // the pattern of the last look that has inspected the lock
	at      time.Time            // the time of that look; zero if there was none
	since   map[string]time.Time // the time at which each holder was first seen, by owner
	waiters int
	spans   []span // the last spans, at most window
}

// A span is the time between two looks, and the number of new holders at its end.
type span struct {
	length time.Duration
	fresh  int
}

func (h *history) add(now time.Time, row Row) {
	fresh, since := 0, make(map[string]time.Time)
	for _, holder := range row.Holders {
		first, ok := h.since[holder.Owner]
		if !ok {
			first = now
			fresh++
		}
		since[holder.Owner] = first
	}
	if !h.at.IsZero() {
		h.spans = append(h.spans, span{now.Sub(h.at), fresh})
		h.spans = h.spans[max(len(h.spans)-window, 0):]
	}
	h.at, h.since, h.waiters = now, since, row.Waiters()
}

// rate returns the new holders a second, -1 after one look.
func (h *history) rate() float64 {
	var all span
	for _, s := range h.spans {
		all.length += s.length
		all.fresh += s.fresh
	}
	if all.length <= 0 {
		return -1
	}
	return float64(all.fresh) / all.length.Seconds()
}

// idle reports whether the lock is free, and was so at all looks of the window.
func (h *history) idle() bool { return len(h.since)+h.waiters == 0 && h.rate() <= 0 }
