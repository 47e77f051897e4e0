package server

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// ReadWrite is a read-write lock: a hash of the mode, the readers and the writer, and a key for
// each reader that lives as long as its lease.
var ReadWrite Kind = readWrite{}

type readWrite struct{}

func modeOf(m core.Mode) Mode {
	if m == core.Shared {
		return Read
	}
	return Write
}

func (readWrite) acquire(r *run, c *core.Command) core.Reply {
	writes := c.Mode == core.Alone
	open := len(r.Holders) == 0 && !r.queueExists() || !writes && r.Server.Mode == Read && len(r.Queue) == 0
	again := r.find(c.ID, c.Owner, writes) >= 0
	if !open && !again {
		return r.lastHolder()
	}
	if !again {
		r.entered(c.Ticket)
		r.show(c.Ticket, 1, c.Lease)
	}
	return core.Reply{Found: core.Holds}
}

// lastHolder returns what a refused acquire is answered, which names the last holder, foreign or
// not.
func (r *run) lastHolder() core.Reply {
	a := core.Reply{TTL: r.LeaseLeft(r.now)}
	if n := len(r.Holders); n > 0 {
		a.Holder = r.Holders[n-1].ID
	}
	if IsForeign(a.Holder) {
		a.Holder, a.Foreign = core.ID{}, true
	}
	return a
}

// show sets the field of a reader or a writer, the mode, and a lease: that of the hash is the
// longest of all.
func (r *run) show(t core.Ticket, count int, lease core.Span) {
	ends := r.now.after(lease)
	h := Holder{ID: t.ID, Owner: t.Owner, Writes: t.Mode == core.Alone, Count: count}
	if !h.Writes {
		h.Ends = ends
	}
	r.set(h)
	r.Server.Mode = modeOf(t.Mode)
	r.Ends = max(r.Ends, ends)
}

// set sets a field of the hash. A field that is there keeps its place.
func (r *run) set(h Holder) {
	if i := r.find(h.ID, h.Owner, h.Writes); i >= 0 {
		r.Holders = change(r.Holders, i, h)
		return
	}
	r.Holders = with(r.Holders, h)
}

func (readWrite) mirror(r *run, c *core.Command) core.Reply {
	reads := 0
	if c.Reads {
		reads = 1
	}
	again := r.count(c, true) == c.Writes && r.count(c, false) == reads
	var shown Time
	if !again {
		if shown = r.shownFor(c.ID); !r.showAll(c) {
			return core.Reply{}
		}
	}
	ends := r.endsWith(c, again, r.Ends)
	if c.Reads {
		for _, h := range r.Holders { // others read, and keep the hash for the longest lease among them
			if h.ID != c.ID && c.Writes == 0 {
				ends = max(ends, h.Ends)
			}
		}
		i := r.find(c.ID, c.Owner, false)
		r.set(Holder{ID: c.ID, Owner: c.Owner, Count: 1, Ends: r.endsWith(c, again, max(shown, r.Holders[i].Ends))})
	}
	r.Ends = ends
	r.wrote = true // all readers are told
	r.shortened(c)
	return core.Reply{Found: core.Holds, Others: r.others(c)}
}

// count returns the count of the field of the command's owner, 0 if there is none.
func (r *run) count(c *core.Command, writes bool) int {
	if i := r.find(c.ID, c.Owner, writes); i >= 0 {
		return r.Holders[i].Count
	}
	return 0
}

// shownFor returns until when the tenure is shown. That lasts when another owner of it is the
// reader, or its writer only reads.
func (r *run) shownFor(id core.ID) (ends Time) {
	if r.Server.Mode == Write {
		return r.Ends
	}
	for _, h := range r.Holders {
		if h.ID == id {
			ends = max(ends, h.Ends)
		}
	}
	return ends
}

// showAll replaces the fields of the tenure, and reports whether it has any. A tenure that gave up
// the write lock does not get it back.
func (r *run) showAll(c *core.Command) bool {
	mine, mode := func(h Holder) bool { return h.ID == c.ID }, r.Server.Mode
	if !slices.ContainsFunc(r.Holders, mine) || mode == Read && c.Writes > 0 || c.Owner != 0 && r.hasPassed(c.ID) {
		return false
	}
	r.Holders = without(r.Holders, func(h Holder) bool {
		kept := h.Owner == c.Owner && (h.Writes && c.Writes > 0 || !h.Writes && c.Reads)
		return mine(h) && !kept
	})
	if c.Writes > 0 {
		r.set(Holder{ID: c.ID, Owner: c.Owner, Writes: true, Count: c.Writes})
	}
	if c.Reads && r.find(c.ID, c.Owner, false) < 0 {
		r.set(Holder{ID: c.ID, Owner: c.Owner, Count: 1})
	}
	if mode == Write && c.Writes == 0 {
		r.Server.Mode, r.wrote = Read, true
		r.tell()
	}
	return true
}

func (readWrite) resume(r *run, c *core.Command) core.Reply {
	writes := c.Mode == core.Alone
	i := r.find(c.Passed, 0, writes)
	if i < 0 && r.find(c.ID, c.Owner, writes) < 0 {
		return core.Reply{}
	}
	ends := r.now.after(c.Lease)
	h := Holder{ID: c.ID, Owner: c.Owner, Writes: writes, Count: 1}
	if !writes {
		h.Ends = ends
	}
	if j := r.find(c.ID, c.Owner, writes); j >= 0 {
		h.Count, h.Ends = r.Holders[j].Count, max(h.Ends, r.Holders[j].Ends)
	}
	if i < 0 || !writes && len(r.Holders) > 1 { // again, or others read
		ends = max(ends, r.Ends)
	}
	if i >= 0 {
		r.entered(c.Ticket)
		r.Holders = without(r.Holders, func(h Holder) bool { return h.ID == c.Passed && h.Owner == 0 && h.Writes == writes })
	}
	r.set(h)
	r.Ends = ends
	return core.Reply{Found: core.Holds, Others: r.others(c)}
}

func (readWrite) expire(*run) []core.ID { return nil }

// removeOwner leaves the hash to the other readers for the longest lease among them. Readers whose
// own lease has ended died without a word, and do not keep the lock once no other reader is left.
func (readWrite) removeOwner(r *run, t core.Ticket) bool {
	var left Time
	ours := false
	for _, h := range r.Holders {
		switch {
		case h.ID == t.ID:
			ours, r.wrote = true, r.wrote || h.Writes
		case h.Writes:
			left = max(left, r.Ends)
		default:
			left = max(left, h.Ends)
		}
	}
	switch {
	case !ours:
		return false
	case left <= r.now:
		r.free()
		return true
	}
	r.Holders, r.Ends = without(r.Holders, func(h Holder) bool { return h.ID == t.ID }), left
	if r.wrote {
		r.Server.Mode = Read
		r.tell()
	}
	return true
}

func (readWrite) open(r *run, m core.Mode, _ int32) bool {
	return len(r.Holders) == 0 || m == core.Shared && r.Server.Mode == Read
}

func (readWrite) inside(r *run, t core.Ticket) bool {
	return r.find(t.ID, t.Owner, t.Mode == core.Alone) >= 0
}

func (readWrite) addOwner(r *run, t core.Ticket, lease core.Span) uint64 {
	r.show(t, 1, lease)
	return 0
}

func (readWrite) keepOwner(r *run, t core.Ticket, lease core.Span) uint64 {
	ends := r.now.after(lease)
	if i := r.find(t.ID, t.Owner, false); t.Mode == core.Shared && r.Holders[i].Ends < ends {
		h := r.Holders[i]
		h.Ends = ends
		r.set(h)
	}
	r.Ends = max(r.Ends, ends)
	return 0
}

func (readWrite) remaining(r *run) core.Span { return r.LeaseLeft(r.now) }

func (readWrite) ungranted(*run, core.Ticket) {}

func (readWrite) freed(r *run) { r.tell() }

func (readWrite) asked(r *run) []Holder { return r.Holders }

func (readWrite) fair() bool { return false }
