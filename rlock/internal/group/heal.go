package group

import (
	"context"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/task"
)

// A red lock heals: a valid hold takes parts that it is without again, where they are free.
//
// A server that has forgotten its locks grants parts of which other clients believe that they have them, until their
// leases end. So a part is taken on a server only if the same process of it answered before the longest lease of any
// client began, by this client's own clock: all that it has forgotten had ended by then. The run id tells processes
// apart. It is asked for again after a grant, since the server may have been restarted just before; then the grant
// does not count.

const (
	// lookEvery is how often a server is looked at while a hold is without its part there.
	lookEvery = 3 * time.Second
	// grants is how many parts are taken between two looks, at most.
	grants = 64
)

// A healer takes parts on the server of one client again. Its goroutine runs while a valid hold is without one.
type healer struct {
	home *Home
	task task.Task

	// The task's goroutine has following.

	server string    // the run id at the last look, "" if there was no answer
	since  time.Time // when that was first seen, with no look in between that failed

	mu   sync.Mutex       // protects following; it comes after the mutex of a hold
	lack map[*Hold]Locker // the part that each is without
}

func newHealer(h *Home) *healer {
	l := &healer{home: h, lack: make(map[*Hold]Locker)}
	l.task = task.Task{Start: h.Start, Done: h.Done, Work: l.work}
	return l
}

// without notes that the hold is without the parts, if it is valid.
func (h *Hold) without(parts ...Locker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.lacks = append(h.lacks, parts...)
	for _, p := range parts {
		l := homeOf(p).healer
		l.mu.Lock()
		l.lack[h] = p
		l.mu.Unlock()
		l.task.Ask()
	}
}

// forget forgets the parts that the hold is without. Its mutex is held.
func (h *Hold) forget() {
	for _, p := range h.lacks {
		homeOf(p).healer.drop(h)
	}
	h.lacks = nil
}

func (l *healer) drop(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lack, h)
}

// work is one look, and takes the parts that may be taken by then.
func (l *healer) work() (pause time.Duration, again bool) {
	server, err := l.home.Server()
	if err != nil && incurable(err) {
		l.refused(err)
		return lookEvery, false
	}
	if server == "" || server != l.server {
		l.server, l.since = server, time.Now()
	}
	due, lack := l.due()
	for len(due) > 0 && l.server != "" {
		n := min(len(due), grants)
		l.heal(due[:n])
		due = due[n:]
	}
	if lack == 0 {
		l.server = "" // the next look is not known to be soon
	}
	return lookEvery, lack > 0
}

// A lacking is a hold without a part.
type lacking struct {
	hold *Hold
	part Locker
	got  *member
}

// due returns the parts that may be taken, and how many are lacking in all.
func (l *healer) due() (due []*lacking, lack int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stood := time.Since(l.since)
	for h, p := range l.lack {
		if stood >= h.of.longest {
			due = append(due, &lacking{hold: h, part: p})
		}
	}
	return due, len(l.lack)
}

// heal takes the parts that are free. They count if the server is the same afterwards.
func (l *healer) heal(due []*lacking) {
	for _, d := range due {
		if d.hold.isKept() {
			d.got, _ = d.hold.take(context.Background(), d.part, Options{})
		}
	}
	server, _ := l.home.Server()
	if server != l.server {
		l.server = ""
	}
	for _, d := range due {
		switch {
		case d.got == nil:
		case l.server == "" || !d.hold.regain(d.got):
			d.got.part.ReleaseLater()
		default:
			l.home.Logger.Info("rlock: a red lock has a part again", "lock", d.hold.of.name, "owner", d.hold.owner, "server", l.home.Where())
		}
	}
}

// isKept reports whether the hold is valid and kept by the watchdog. A fixed lease ends before a part may be taken again.
func (h *Hold) isKept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over && h.lease == 0
}

// regain adds a part that the hold was without. It reports false if the hold is over, or not kept any more.
func (h *Hold) regain(m *member) bool {
	h.mu.Lock()
	if h.over || h.lease != 0 {
		h.mu.Unlock()
		return false
	}
	for i, p := range h.lacks {
		if homeOf(p) == homeOf(m.lock) {
			h.lacks = append(h.lacks[:i:i], h.lacks[i+1:]...)
			break
		}
	}
	homeOf(m.lock).healer.drop(h)
	h.mu.Unlock()
	return h.add(m)
}

// refused gives up what this server cannot be asked for.
func (l *healer) refused(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lack) > 0 {
		l.home.Logger.Warn("rlock: red locks take no lost part again on a server that refuses INFO", "server", l.home.Where(), "error", err)
	}
	clear(l.lack)
	l.server = ""
}
