package group

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/task"
)

// A red lock heals: a valid hold takes parts that it is without again.
//
// A server that has forgotten its locks grants parts of which other clients believe that they have them, until their
// leases end. So a part is taken on a server only if the same process of it answered before the longest lease of any
// client began, by this client's own clock: all that it has forgotten had ended by then. The run id tells processes
// apart. It is asked for again after a grant, since the server may have been restarted just before; then the grant
// does not count.

// The part is waited for in the line of its lock: where processes wait for the red lock, one of them has the part most of the
// time, though never for long. Each hold waits by itself, and many grants are looked at together.

const (
	// lookEvery is how often a server is looked at while a hold is without its part there, at most.
	lookEvery = 3 * time.Second
	// healWait is how long a part is waited for until the server is looked at once more. A waiter for the red lock keeps a
	// part for no longer than lookAround.
	healWait = 20 * time.Second
	// confirmEvery is how often a server is asked, at most, whether grants count.
	confirmEvery = 10 * time.Millisecond
)

// A healer takes parts on the server of one client again.
type healer struct {
	home     *Home
	looks    task.Task // while a valid hold is without a part
	confirms task.Task // of grants

	// The goroutine of looks has following.

	server string    // the run id at the last look, "" if there was no answer
	since  time.Time // when that was first seen, with no look in between that failed

	mu      sync.Mutex         // protects following; it comes after the mutex of a hold
	lack    map[*Hold]*lacking // the part that each is without
	granted []regrant          // that are not confirmed yet
}

// A lacking is a hold without a part.
type lacking struct {
	hold *Hold
	part Locker
	quit chan struct{} // closed when the hold has the part, or is over
	asks bool          // the part is waited for; the healer's mutex protects it
}

// A regrant is a part that was granted again, on the server with that run id.
type regrant struct {
	hold   *Hold
	got    *member
	server string
}

func newHealer(h *Home) *healer {
	l := &healer{home: h, lack: make(map[*Hold]*lacking)}
	l.looks = task.Task{Start: h.Start, Done: h.Done, Work: l.look}
	l.confirms = task.Task{Start: h.Start, Done: h.Done, Work: l.confirm}
	return l
}

// without makes the healer take the parts again, if the hold is valid.
func (h *Hold) without(parts ...Locker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.lacks = append(h.lacks, parts...)
	for _, p := range parts {
		homeOf(p).healer.add(&lacking{hold: h, part: p, quit: make(chan struct{})})
	}
}

// forget forgets the parts that the hold is without. Its mutex is held.
func (h *Hold) forget() {
	for _, p := range h.lacks {
		homeOf(p).healer.drop(h)
	}
	h.lacks = nil
}

func (l *healer) add(k *lacking) {
	l.drop(k.hold)
	l.mu.Lock()
	l.lack[k.hold] = k
	l.mu.Unlock()
	l.looks.Ask()
}

func (l *healer) drop(h *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.lack[h]; k != nil {
		close(k.quit)
		delete(l.lack, h)
	}
}

// look asks for the run id, and has the parts waited for that may be taken by then.
func (l *healer) look() (pause time.Duration, again bool) {
	server, err := l.home.Server()
	if err != nil && incurable(err) {
		l.refused(err)
		return lookEvery, false
	}
	if server == "" || server != l.server {
		l.server, l.since = server, time.Now()
	}
	due, next, lack := l.due()
	for _, k := range due {
		if k.hold.isKept() {
			l.home.do(func() { l.heal(k, server) })
		} else {
			l.done(k, regrant{})
		}
	}
	if lack == 0 {
		l.server = "" // the next look is not known to be soon
	}
	return min(next, lookEvery), lack > 0
}

// due returns the parts that may be taken and are not waited for, how soon others may be taken, and how many are lacking in
// all.
func (l *healer) due() (due []*lacking, next time.Duration, lack int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stood := time.Since(l.since)
	next = lookEvery
	for h, k := range l.lack {
		switch left := h.of.longest - stood; {
		case l.server == "" || k.asks:
		case left > 0:
			next = min(next, left)
		default:
			k.asks = true
			due = append(due, k)
		}
	}
	return due, next, len(l.lack)
}

// heal waits for the part.
func (l *healer) heal(k *lacking, server string) {
	got, _ := k.hold.take(context.Background(), k.part, Options{Wait: healWait, Quit: k.quit})
	l.done(k, regrant{k.hold, got, server})
}

// done notes that the part is not waited for any more. A part that was granted is confirmed next.
func (l *healer) done(k *lacking, g regrant) {
	l.mu.Lock()
	k.asks = false
	if g.got != nil {
		l.granted = append(l.granted, g)
	}
	l.mu.Unlock()
	if g.got != nil {
		l.confirms.Ask()
	}
}

// confirm adds to their holds the parts that were granted, if the server is the same afterwards.
func (l *healer) confirm() (pause time.Duration, again bool) {
	l.mu.Lock()
	granted := l.granted
	l.granted = nil
	l.mu.Unlock()
	if len(granted) == 0 {
		return 0, false
	}
	server, _ := l.home.Server()
	for _, g := range granted {
		if server == "" || g.server != server || !g.hold.regain(g.got) {
			g.got.part.ReleaseLater()
			continue
		}
		l.home.Logger.Info("rlock: a red lock has a part again", "lock", g.hold.of.name, "owner", g.hold.owner, "server", l.home.Where())
	}
	return confirmEvery, false
}

// isKept reports whether the hold is valid and kept by the watchdog. A fixed lease ends before a part may be taken again.
func (h *Hold) isKept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over && h.lease == 0
}

// regain adds a part that the hold was without. It reports false if the hold is over, has the part, or is not kept any more.
func (h *Hold) regain(m *member) bool {
	h.mu.Lock()
	i := slices.IndexFunc(h.lacks, func(p Locker) bool { return homeOf(p) == homeOf(m.lock) })
	if h.over || h.lease != 0 || i < 0 {
		h.mu.Unlock()
		return false
	}
	h.lacks = slices.Delete(h.lacks, i, i+1)
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
	for h, k := range l.lack {
		close(k.quit)
		delete(l.lack, h)
	}
	l.server = ""
}
