package server

import (
	"cmp"
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Semaphore is a semaphore: a sorted set of the owners that have a permit, with the time at which
// the lease of each ends. An owner whose lease has ended has no permit: the next command takes it
// out.
var Semaphore Kind = semaphore{}

type semaphore struct{}

func (semaphore) acquire(r *run, c *core.Command) core.Reply {
	// While clients wait, the owners whose leases have ended are left to the next step, which drops
	// the tickets of their clients.
	waited, over := len(r.Queue) > 0, 0
	if waited {
		over = len(r.Holders) - len(r.valid())
	} else {
		for _, id := range r.endPermits() {
			r.unmark(id)
		}
	}
	full := held(r.valid())+1+int(c.More) > r.permits
	i := r.find(c.ID, c.Owner, false)
	own := i >= 0 && r.Holders[i].Ends > r.now
	if (full || waited) && !own {
		if !full || over == len(r.Holders) {
			return core.Reply{}
		}
		first := r.Holders[over]
		return core.Reply{Holder: first.ID, TTL: first.Ends.since(r.now)}
	}
	if !own {
		r.entered(c.Ticket)
		r.permit(c.Ticket, r.now.after(c.Lease))
	}
	return core.Reply{Found: core.Holds}
}

// valid returns the holders whose leases are not over.
func (r *run) valid() []Holder {
	return without(r.Holders, func(h Holder) bool { return h.Ends <= r.now })
}

// Held returns how many permits are held, of another lock how many owners hold it.
func (s *Server) Held() int { return held(s.Holders) }

// held returns how many permits the holders have.
func held(all []Holder) (n int) {
	for _, h := range all {
		n += 1 + int(h.More)
	}
	return n
}

// endPermits takes out the owners whose leases have ended.
func (r *run) endPermits() (ended []core.ID) {
	for _, h := range r.Holders {
		if h.Ends <= r.now {
			ended = append(ended, h.ID)
		}
	}
	if r.Holders = r.valid(); len(r.Holders) == 0 {
		r.free()
	}
	return ended
}

// permit gives the ticket a permit until then. The key lives as long as the longest.
func (r *run) permit(t core.Ticket, ends Time) {
	kept := without(r.Holders, func(h Holder) bool { return h.ID == t.ID && h.Owner == t.Owner })
	h := Holder{ID: t.ID, Owner: t.Owner, More: t.More, Count: 1, Ends: ends}
	i, _ := slices.BinarySearchFunc(kept, h, compare)
	r.Holders = slices.Insert(slices.Clone(kept), i, h)
	r.Ends = r.Holders[len(r.Holders)-1].Ends
}

// compare orders permits as the sorted set does: by the ends of their leases, then by the owners'
// texts.
func compare(a, b Holder) int {
	return cmp.Or(cmp.Compare(a.Ends, b.Ends), cmp.Compare(a.ID.Client, b.ID.Client), cmp.Compare(a.ID.N, b.ID.N), cmp.Compare(a.Owner, b.Owner))
}

func (semaphore) mirror(r *run, c *core.Command) core.Reply {
	i := r.find(c.ID, c.Owner, false)
	if c.Owner == 0 && i < 0 {
		i = slices.IndexFunc(r.Holders, func(h Holder) bool { return h.ID == c.ID })
	}
	if i < 0 || r.Holders[i].Ends <= r.now {
		return core.Reply{}
	}
	r.callFirst(c)
	reply := core.Reply{Found: core.Holds}
	if c.Asks {
		reply.Others = len(r.Queue)
	}
	former := r.Holders[i]
	if c.Owner == 0 && former.Owner == 0 { // again
		return reply
	}
	r.Holders = without(r.Holders, func(h Holder) bool { return h.ID == former.ID && h.Owner == former.Owner })
	r.permit(c.Ticket, r.endsWith(c, former.Owner == c.Owner, former.Ends))
	return reply
}

func (semaphore) resume(r *run, c *core.Command) core.Reply {
	i, j := r.find(c.Passed, 0, false), r.find(c.ID, c.Owner, false)
	if i >= 0 && r.Holders[i].More != c.More { // the text has another number
		i = -1
	}
	ends := r.now.after(c.Lease)
	switch {
	case j >= 0 && r.Holders[j].Ends > r.now: // again
		if i < 0 || r.Holders[i].Ends <= r.now {
			ends = max(ends, r.Holders[j].Ends)
		}
	case i < 0 || r.Holders[i].Ends <= r.now:
		return core.Reply{}
	default:
		r.entered(c.Ticket)
	}
	r.Holders = without(r.Holders, func(h Holder) bool { return h.ID == c.Passed && h.Owner == 0 && h.More == c.More })
	r.permit(c.Ticket, ends)
	return core.Reply{Found: core.Holds}
}

func (semaphore) expire(r *run) []core.ID { return r.endPermits() }

// removeOwner goes by the whole owner's text, whose id never changes here: each owner has a tenure
// of its own.
func (semaphore) removeOwner(r *run, t core.Ticket) bool {
	kept := without(r.Holders, func(h Holder) bool { return h.ID == t.ID && h.More == t.More })
	left := len(kept) < len(r.Holders)
	if r.Holders = kept; len(kept) == 0 {
		r.free()
	}
	return left
}

func (semaphore) open(r *run, _ core.Mode, more int32) bool {
	return held(r.Holders)+1+int(more) <= r.permits
}

func (semaphore) inside(r *run, t core.Ticket) bool { return r.find(t.ID, t.Owner, false) >= 0 }

func (s semaphore) addOwner(r *run, t core.Ticket, lease core.Span) uint64 {
	return s.keepOwner(r, t, lease)
}

func (semaphore) keepOwner(r *run, t core.Ticket, lease core.Span) uint64 {
	ends := r.now.after(lease)
	if i := r.find(t.ID, t.Owner, false); i >= 0 {
		ends = max(ends, r.Holders[i].Ends)
	}
	r.permit(t, ends)
	return 0
}

// remaining returns the rest of the lease that ends first.
func (semaphore) remaining(r *run) core.Span {
	if len(r.Holders) == 0 {
		return 0
	}
	return r.Holders[0].Ends.since(r.now)
}

// ungranted tells the first tickets of some other clients to look, one of which may know of more
// permits.
func (semaphore) ungranted(r *run, leaver core.Ticket) {
	told := []uint32{leaver.ID.Client}
	for _, t := range r.Queue[:min(len(r.Queue), 64)] {
		if len(told) <= 8 && !t.Polls && !slices.Contains(told, t.ID.Client) {
			told = append(told, t.ID.Client)
			r.send(core.Message{Kind: core.AtFront, ID: t.ID, More: t.More})
		}
	}
}

// freed does nothing: a semaphore has no foreign clients.
func (semaphore) freed(*run) {}

// asked returns the permit that ends first: one that its client has forgotten is not renewed.
func (semaphore) asked(r *run) []Holder { return r.Holders[:min(len(r.Holders), 1)] }

func (semaphore) fair() bool { return false }
