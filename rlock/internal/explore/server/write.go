package server

import "github.com/go-rlock/rlock/rlock/internal/core"

// guards returns whether a guarded write is executed: the lock has its tenure, in its mode, and was not passed on. A writer
// may read.
func (r *run) guards(t core.Ticket) (a core.Reply) {
	for _, h := range r.Holders {
		named := h.ID == t.ID && h.Owner != 0 && (h.Owner == t.Owner || r.Kind != Semaphore) // a permit has one owner
		if named && (h.Writes || t.Mode == core.Shared || r.Kind != ReadWrite) && (h.Ends == 0 || h.Ends > r.now) {
			a.Found = core.Holds
		}
	}
	return a
}

// satisfies takes the tickets out of the queue that take an answer, and tells their clients.
func (r *run) satisfies() {
	for _, t := range r.Queue {
		if t.Takes {
			r.send(core.Message{Kind: core.Satisfied, ID: t.ID})
		}
	}
	r.Queue = without(r.Queue, func(t core.Ticket) bool { return t.Takes })
	if !r.queueExists() {
		r.QueueEnds = 0
	}
}
