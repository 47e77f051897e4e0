package server

import (
	"maps"
	"slices"

	"github.com/go-rlock/rlock/internal/core"
)

// A Queue has tickets in the order in which they joined. To join, to leave and to be looked for takes the same time
// whatever its length. Its zero value is empty.
type Queue struct {
	all   []core.Ticket // the zero Ticket has left
	gone  int           // how many were in front of all
	first int           // in all: before it there are none
	len   int
	at    map[core.Ticket]int // where each is, counted with those that are gone; nil while the queue is short
}

const short = 16

// Len returns how many tickets there are.
func (q *Queue) Len() int { return q.len }

// First returns the first ticket, if there is one.
func (q *Queue) First() (t core.Ticket, ok bool) {
	if q.len == 0 {
		return t, false
	}
	for q.all[q.first] == noTicket {
		q.first++
	}
	return q.all[q.first], true
}

// Last returns the last ticket. There is one.
func (q *Queue) Last() core.Ticket {
	for q.all[len(q.all)-1] == noTicket {
		q.all = q.all[:len(q.all)-1]
	}
	return q.all[len(q.all)-1]
}

// All calls yield with each ticket in order.
func (q *Queue) All(yield func(core.Ticket) bool) {
	for _, t := range q.all[min(q.first, len(q.all)):] {
		if t != noTicket && !yield(t) {
			return
		}
	}
}

// Has reports whether the ticket is there.
func (q *Queue) Has(t core.Ticket) bool { return q.find(t) >= 0 }

func (q *Queue) find(t core.Ticket) int {
	if q.at != nil {
		if i, ok := q.at[t]; ok {
			return i - q.gone
		}
		return -1
	}
	if q.len == 0 {
		return -1
	}
	if i := slices.Index(q.all[q.first:], t); i >= 0 {
		return q.first + i
	}
	return -1
}

// Join adds the ticket at the end, unless it is there.
func (q *Queue) Join(t core.Ticket) {
	if q.Has(t) {
		return
	}
	if q.len == 0 {
		q.gone += len(q.all)
		q.all, q.first = q.all[:0], 0
	} else if q.first > 64 && q.first > len(q.all)/2 {
		q.gone += q.first
		q.all = append(q.all[:0], q.all[q.first:]...)
		q.first = 0
	}
	q.all = append(q.all, t)
	q.len++
	switch {
	case q.at != nil:
		q.at[t] = q.gone + len(q.all) - 1
	case q.len > short:
		q.at = make(map[core.Ticket]int)
		for i, t := range q.all[q.first:] {
			if t != noTicket {
				q.at[t] = q.gone + q.first + i
			}
		}
	}
}

// Leave takes the ticket out, and reports whether it was there.
func (q *Queue) Leave(t core.Ticket) bool {
	i := q.find(t)
	if i < 0 {
		return false
	}
	q.take(i)
	return true
}

// LeaveAll takes out those for which out returns true.
func (q *Queue) LeaveAll(out func(core.Ticket) bool) {
	for i := q.first; i < len(q.all); i++ {
		if t := q.all[i]; t != noTicket && out(t) {
			q.take(i)
		}
	}
}

func (q *Queue) take(i int) {
	if q.at != nil {
		delete(q.at, q.all[i])
	}
	q.all[i] = noTicket
	if q.len--; q.len == 0 {
		q.gone += len(q.all)
		q.all, q.first, q.at = q.all[:0], 0, nil
		if cap(q.all) > 4*short {
			q.all = nil
		}
	}
}

func (q *Queue) clone() Queue {
	n := *q
	n.all, n.at = slices.Clone(q.all), maps.Clone(q.at)
	return n
}
