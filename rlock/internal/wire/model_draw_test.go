package wire_test

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// fresh returns a tenure that is new.
func (c *comparison) fresh(client uint32) core.Ticket {
	c.next[client]++
	t := core.Ticket{ID: core.ID{Client: client, N: c.next[client]}, Owner: 1, Polls: c.random.IntN(4) == 0}
	if c.model == server.ReadWrite && c.random.IntN(2) == 0 {
		t.Mode = core.Shared
	}
	t.Takes = c.model == server.Plain && t.ID.N%4 == 2
	if c.model == server.Semaphore {
		t.More = [...]int32{0, 0, 1, 0, 1, 2}[t.ID.N%6]
	}
	c.known = append(c.known, t)
	return t
}

// some returns a tenure, most often one that is in the queue or in the lock.
func (c *comparison) some() core.Ticket {
	if len(c.known) == 0 {
		return c.fresh(uint32(c.random.IntN(modelClients)))
	}
	isThere := func(t core.Ticket) bool {
		return slices.Contains(c.server.Queue, t) || slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool { return h.ID == t.ID })
	}
	for range 8 {
		if t := c.known[c.random.IntN(len(c.known))]; isThere(t) {
			return t
		}
	}
	return c.known[c.random.IntN(len(c.known))]
}

// draw returns a random command. Of the releases a third carry a guarded write.
func (c *comparison) draw() core.Command {
	cmd := c.drawn()
	cmd.Carries = cmd.Op == core.Leave && !c.uncounted && (uint64(cmd.ID.Client)+cmd.ID.N)%3 == 0
	return cmd
}

func (c *comparison) drawn() core.Command {
	r := c.random
	cmd := core.Command{Lease: core.Span([]int{1000, 5000, 30_000}[r.IntN(3)]), Asks: r.IntN(2) == 0}
	if c.fenced {
		cmd.Tokens = 1 + r.Uint64N(3)
	}
	if c.model == server.Semaphore {
		cmd.Permits = modelPermits
		if r.IntN(10) == 0 {
			cmd.Permits = 1 + r.IntN(3)
		}
	}
	cmd.Polling = c.foreign.poll && r.IntN(4) > 0
	client := uint32(r.IntN(modelClients))
	if again := c.resumed; again.Op != core.None { // as often as not it had no answer
		if c.resumed.Op = core.None; r.IntN(2) == 0 {
			again.Lease = cmd.Lease
			return again
		}
	}
	switch r.IntN(24) {
	case 0, 1, 2:
		cmd.Op, cmd.Ticket = core.Acquire, c.fresh(client)
	case 3:
		cmd.Op, cmd.Ticket = core.Acquire, c.some()
	case 4, 5, 6, 7:
		cmd.Op, cmd.Ticket = core.Join, c.fresh(client)
		if cmd.ID.N%3 == 1 {
			cmd.Bounded, cmd.Most = true, int(cmd.ID.N/3)%4
		}
	case 8:
		cmd.Op, cmd.Ticket = core.Join, c.some()
		if c.isChanged(cmd.Ticket) {
			cmd.Op = core.Look
		}
	case 9, 10, 11:
		cmd.Op, cmd.Ticket = core.Look, c.some()
		cmd.Heard = c.foreign.some() && r.IntN(8) == 0
	case 12, 13, 14:
		cmd.Op, cmd.Ticket = core.Leave, c.some()
	case 15, 16:
		cmd.Op, cmd.Ticket = core.Leave, c.some()
		cmd.Joins = c.fresh(cmd.ID.Client)
	case 17, 18:
		cmd.Op, cmd.Ticket = core.Mirror, c.some()
		cmd.Writes, cmd.Exact = 1+r.IntN(2), r.IntN(3) == 0
		cmd.Asks = cmd.Asks || cmd.Exact && r.IntN(2) == 0
		switch {
		case c.model == server.ReadWrite:
			if cmd.Reads = cmd.Mode == core.Shared || r.IntN(2) == 0; cmd.Reads && r.IntN(4) > 0 {
				cmd.Writes = 0
			}
			cmd.Owner += core.OwnerID(r.IntN(2))
		case c.model == server.Plain:
			cmd.Owner += core.OwnerID(r.IntN(2)) // handed off
		}
	case 19:
		if passed := c.passedOn(); r.IntN(3) > 0 && len(passed) > 0 { // some command resumes one that was passed on, as a rule
			t := passed[r.IntN(len(passed))]
			cmd.Op, cmd.Passed, cmd.Asks = core.Resume, t.ID, true
			if cmd.Ticket = c.fresh(client); t.More != cmd.More {
				cmd.More = t.More
				c.known[len(c.known)-1] = cmd.Ticket
			}
			if other := c.some(); r.IntN(3) == 0 && !slices.Contains(c.server.Queue, other) { // a ticket enters by one sort of command
				cmd.Ticket = other
			}
			if cmd.Mode = t.Mode; r.IntN(8) == 0 {
				cmd.Passed = c.some().ID
			}
			c.resumed = cmd
			break
		}
		cmd.Op, cmd.Ticket = core.Mirror, c.some()
		if cmd.Writes = 1; cmd.Mode == core.Shared {
			cmd.Writes, cmd.Reads = 0, true
		}
		cmd.Owner, cmd.Exact = 0, true
	case 20, 21:
		cmd.Op, cmd.Ticket = core.Write, c.some()
		if c.model == server.ReadWrite {
			cmd.Mode = core.Mode(r.IntN(2))
		}
	default:
		cmd.Op = core.Step
		if r.IntN(3) == 0 {
			cmd.Op, cmd.Ticket = core.Unmark, c.some()
		}
	}
	return cmd
}

// passedOn returns the tenures that were passed on.
func (c *comparison) passedOn() (ts []core.Ticket) {
	for _, h := range c.server.Holders {
		if h.Owner == 0 && !server.IsForeign(h.ID) {
			t := core.Ticket{ID: h.ID, More: h.More}
			if c.model == server.ReadWrite && !h.Writes {
				t.Mode = core.Shared
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// isChanged reports whether Redis shows the tenure with another owner, or otherwise than it was asked for. A join that
// entered it is long executed then, and none is sent twice.
func (c *comparison) isChanged(t core.Ticket) bool {
	mine := func(h server.Holder) bool { return h.ID == t.ID }
	return slices.ContainsFunc(c.server.Holders, mine) && !slices.ContainsFunc(c.server.Holders, func(h server.Holder) bool {
		return mine(h) && h.Owner == t.Owner && (c.model != server.ReadWrite || h.Writes == (t.Mode == core.Alone))
	})
}
