package server

import (
	"math/bits"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// Plain is a plain, fair or fenced lock: a hash of one owner and its count.
var Plain Kind = plain{}

type plain struct{}

func (plain) acquire(r *run, c *core.Command) core.Reply {
	again := r.find(c.ID, c.Owner, false) >= 0
	if !again && (len(r.Holders) > 0 || r.queueExists()) {
		return r.denial()
	} else if !again {
		r.entered(c.Ticket)
	}
	token := r.tokens()
	if !again {
		r.Holders, r.Ends = []Holder{{ID: c.ID, Owner: c.Owner, Count: 1}}, r.now.after(c.Lease)
	}
	return core.Reply{Found: core.Holds, Token: token}
}

func (plain) mirror(r *run, c *core.Command) core.Reply {
	if len(r.Holders) == 0 || r.Holders[0].ID != c.ID || c.Owner != 0 && r.hasPassed(c.ID) {
		return core.Reply{}
	}
	again := r.find(c.ID, c.Owner, false) >= 0
	r.Holders, r.Ends = []Holder{{ID: c.ID, Owner: c.Owner, Count: c.Writes}}, r.endsWith(c, again, r.Ends)
	r.shortened(c)
	return core.Reply{Found: core.Holds, Others: r.others(c)}
}

// endsWith returns the end of a lease after a mirror, which lengthens it only unless it is exact.
// The one that passes the lock on changes it once.
func (r *run) endsWith(c *core.Command, again bool, was Time) Time {
	switch {
	case !c.Exact:
		return max(was, r.now.after(c.Lease))
	case again && c.Owner == 0:
		return was
	}
	return r.now.after(c.Lease)
}

func (plain) resume(r *run, c *core.Command) core.Reply {
	ends := r.now.after(c.Lease)
	switch {
	case r.find(c.ID, c.Owner, false) >= 0: // again
		ends = max(ends, r.Ends)
	case r.find(c.Passed, 0, false) < 0:
		return core.Reply{}
	default:
		r.entered(c.Ticket)
		r.Holders = []Holder{{ID: c.ID, Owner: c.Owner, Count: 1}}
	}
	r.Ends = ends
	return core.Reply{Found: core.Holds, Others: r.others(c)}
}

// shortened tells foreign clients that wait of a mirror that may shorten the lease, and asks. If it
// passes the lock on, it tells the client of the first ticket as well.
func (r *run) shortened(c *core.Command) {
	if !c.Exact || !c.Asks {
		return
	}
	r.tell()
	r.callFirst(c)
	if f := &r.Foreign; r.Kind.fair() && len(f.Fair) > 0 {
		r.effects.Messages = append(r.effects.Messages, Message{Message: core.Message{Kind: core.ForeignNews}, Fair: f.Fair[0]})
	}
}

// callFirst tells the client of the first ticket of a mirror that passes the lock on: no release
// will.
func (r *run) callFirst(c *core.Command) {
	if c.Owner == 0 && len(r.Queue) > 0 && r.Queue[0] != Window {
		r.send(core.Message{Kind: core.AtFront, ID: r.Queue[0].ID, More: r.Queue[0].More})
	}
}

// others returns how many tickets and foreign clients wait, if the command asks: others.lua.
// Foreign clients that cannot be counted are one when their window is due.
func (r *run) others(c *core.Command) int {
	if !c.Asks {
		return 0
	}
	n, f := len(r.Queue), &r.Foreign
	if !r.Uncounted {
		n += bits.OnesCount64(uint64(f.Listen))
	}
	if n == 0 && (r.Kind.fair() && len(f.Fair) > 0 || r.Uncounted && f.Memory.Ends > 0 || r.polling && r.now >= f.Memory.Polled) {
		n = 1
	}
	return n
}

func (plain) expire(*run) []core.ID { return nil }

func (plain) removeOwner(r *run, t core.Ticket) bool {
	if len(r.Holders) == 0 || r.Holders[0].ID != t.ID {
		return false
	}
	r.free()
	return true
}

func (plain) open(r *run, _ core.Mode, _ int32) bool { return len(r.Holders) == 0 }

func (plain) inside(r *run, t core.Ticket) bool { return r.find(t.ID, t.Owner, false) >= 0 }

func (plain) addOwner(r *run, t core.Ticket, lease core.Span) uint64 {
	token := r.tokens()
	r.Holders, r.Ends = []Holder{{ID: t.ID, Owner: t.Owner, Count: 1}}, r.now.after(lease)
	return token
}

func (plain) keepOwner(r *run, _ core.Ticket, lease core.Span) uint64 {
	r.Ends = max(r.Ends, r.now.after(lease))
	return r.tokens()
}

func (plain) remaining(r *run) core.Span { return r.LeaseLeft(r.now) }

func (plain) ungranted(*run, core.Ticket) {}

func (plain) freed(r *run) { r.tell() }

func (plain) asked(r *run) []Holder { return r.Holders }

func (plain) fair() bool { return true }
