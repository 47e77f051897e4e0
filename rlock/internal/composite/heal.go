package composite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/background"
)

// A red lock heals: a valid hold acquires again the parts that it lacks.
//
// A server that has forgotten its locks grants parts that other clients trust to have until their
// leases end. So the hold acquires a part only on a server whose process is older, by this client's
// clock, than the longest lease of any client: every lease that it may have forgotten has ended.
// The age of a process counts from its first answer to this client. A process is known by its run
// id. The hold asks for the run id again after a grant, since the server may have been restarted
// just before: then the grant does not count.
//
// The hold waits for the part as any other owner, since processes that wait for the red lock have
// the part most of the time, each for a short time.

const (
	// lookEvery is the time between two looks at a server while a hold lacks its part there. A look
	// comes sooner if the part may be acquired sooner.
	lookEvery = 3 * time.Second
	// healWait is the longest wait for a part before the server is looked at again. It is longer
	// than lookAround, for which a waiter for the red lock may keep the part.
	healWait = 20 * time.Second
)

// A healer acquires lacking parts on the server of one client.
type healer struct {
	home  *Home
	looks background.Task // looks at the server, while a valid hold lacks a part

	// Only the goroutine of looks uses these fields.

	server string    // the run id at the last look; "" if there was no answer
	since  time.Time // the first of the looks in a row that have seen that run id

	mu   sync.Mutex         // guards the fields below; taken after the mutex of a hold
	lack map[*Hold]*lacking // the holds that lack a part on this server
}

// A lacking is a hold that lacks its part on this server.
type lacking struct {
	hold *Hold
	part Locker
	quit chan struct{} // closed when the hold has the part, or is over
	asks bool          // a call waits for the part; healer.mu guards it
}

func newHealer(h *Home) *healer {
	l := &healer{home: h, lack: make(map[*Hold]*lacking)}
	l.looks = background.Task{Start: h.Start, Done: h.Done, Work: l.look}
	return l
}

// lackParts makes healers acquire the parts again, while the hold is valid.
func (h *Hold) lackParts(parts ...Locker) {
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

// dropLacks gives up the parts that the hold lacks.
//
// REQUIRES: Hold.mu.
func (h *Hold) dropLacks() {
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

// look asks for the run id, and starts the waits for the parts that the server may grant now.
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
		l.home.do(func() { l.heal(k, server) })
	}
	if lack == 0 {
		l.server = "" // the next look may be late: its run id begins a new row
	}
	return min(next, lookEvery), lack > 0
}

// due returns the lacking parts that may be acquired now and for which no call waits. next is the
// time until another part may be acquired, and lack the number of all lacking parts.
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

// heal waits for the part, and adds it to the hold if the server with that run id granted it. A
// fixed lease would end before a part may be acquired again.
func (l *healer) heal(k *lacking, server string) {
	if k.hold.isKept() {
		got, err := k.hold.take(context.Background(), k.part, Options{Wait: healWait, Quit: k.quit})
		if err == nil {
			if now, _ := l.home.Server(); now == server && k.hold.regain(got) {
				l.home.Logger.Info("rlock: a red lock has a part again", "lock", k.hold.of.name, "owner", k.hold.owner, "server", l.home.Where())
			} else {
				got.part.ReleaseLater()
			}
		}
	}
	l.mu.Lock()
	k.asks = false
	l.mu.Unlock()
}

// isKept reports whether the hold is valid and the watchdog renews it.
func (h *Hold) isKept() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over && h.lease == 0
}

// regain adds a part that the hold lacked. It reports false if the hold is over, has the part, or
// is no longer renewed by the watchdog.
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

// refused gives up the parts on a server that does not tell its run id.
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
