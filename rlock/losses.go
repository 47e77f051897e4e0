package rlock

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// maxLosses bounds what is remembered of losses that nobody came to unlock.
const maxLosses = 10_000

// losses remembers who lost a lock and has not unlocked it yet, so that the
// Unlock to come says ErrLost and not ErrNotHeld, and a nested Lock is refused.
// Handles remember for themselves; this is for owners who come back by name. The
// oldest are forgotten first, since a fixed lease may end with nobody coming.
type losses struct {
	count atomic.Int64 // of entries, so that the usual case asks for no mutex

	mu      sync.Mutex // protects following
	entries map[lossKey]*list.Element
	order   list.List // of *loss, the oldest first
}

type lossKey struct {
	kind  kindID
	name  string
	owner Owner
}

type loss struct {
	key            lossKey
	cause          error
	writes, shared int  // levels that are not yet unlocked
	kept           bool // by the watchdog, at one of the levels: its end was not the caller's choice
}

// levels is how many levels of the one sort are not yet unlocked.
func (l *loss) levels(shared bool) *int {
	if shared {
		return &l.shared
	}
	return &l.writes
}

// add remembers that the owner lost the level.
func (l *losses) add(key lossKey, lost level, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		if l.entries == nil {
			l.entries = make(map[lossKey]*list.Element)
		}
		e = l.order.PushBack(&loss{key: key})
		l.entries[key] = e
		if l.order.Len() > maxLosses {
			l.removeLocked(l.order.Front())
		}
		l.count.Store(int64(l.order.Len()))
	}
	was := e.Value.(*loss)
	was.cause = cause
	was.kept = was.kept || lost.kept()
	*was.levels(lost.shared)++
}

// unlock takes one level off what the owner lost, and returns the cause of the
// loss, nil if the owner lost nothing.
func (l *losses) unlock(key lossKey, shared bool) error {
	if l.count.Load() == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.entries[key]
	if !ok {
		return nil
	}
	lost := e.Value.(*loss)
	levels := lost.levels(shared)
	if *levels == 0 {
		return nil
	}
	if *levels--; lost.writes+lost.shared == 0 {
		l.removeLocked(e)
	}
	return lost.cause
}

// blocks returns why the owner may not lock the name again before it has
// unlocked what it lost, nil if it may. A fixed lease that ended blocks nothing:
// that it would end was the caller's choice.
func (l *losses) blocks(key lossKey) error {
	cause, kept := l.find(key)
	if !kept {
		return nil
	}
	return cause
}

// find returns why the owner lost what it has not unlocked yet, nil if there is
// nothing, and whether the watchdog kept it.
func (l *losses) find(key lossKey) (cause error, kept bool) {
	if l.count.Load() == 0 {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.entries[key]; ok {
		lost := e.Value.(*loss)
		return lost.cause, lost.kept
	}
	return nil, false
}

func (l *losses) removeLocked(e *list.Element) {
	delete(l.entries, e.Value.(*loss).key)
	l.order.Remove(e)
	l.count.Store(int64(l.order.Len()))
}
