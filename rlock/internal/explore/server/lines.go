package server

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// The lines of tenants: endOfTier of queue.lua.

// A Tier is where a member of the queue stands: the members of a tier come before those of the next.
type Tier struct {
	Of core.Ticket
	N  int
}

func (s *Server) tierOf(t core.Ticket) int {
	if i := slices.IndexFunc(s.Tiers, func(o Tier) bool { return o.Of == t }); i >= 0 {
		return s.Tiers[i].N
	}
	return 0
}

func (s *Server) setTier(t core.Ticket, n int) {
	s.Tiers = without(s.Tiers, func(o Tier) bool { return o.Of == t })
	if n > 0 {
		s.Tiers = with(s.Tiers, Tier{t, n})
	}
}

// add puts a ticket into the queue: at the end, or at the end of the next tier of its line. The queue
// that is given still has a ticket that leaves in the same step: the script has read its last member.
func (s *Server) add(t core.Ticket, queue []core.Ticket) {
	n, tier := len(queue), 0
	if n > 0 {
		tier = s.tierOf(queue[n-1])
	}
	at := len(s.Queue)
	if line := s.lineOf(t); n > 0 && line != "" {
		tier = 0
		if first, ok := s.behind(); ok {
			tier = s.tierOf(first)
		}
		for _, o := range s.Queue {
			if o != Window && s.lineOf(o) == line {
				tier = s.tierOf(o)
			}
		}
		tier++
		if i := slices.IndexFunc(s.Queue, func(o core.Ticket) bool { return s.tierOf(o) > tier }); i >= 0 {
			at = i
		}
	}
	s.setTier(t, tier)
	s.Queue = slices.Insert(slices.Clone(s.Queue), at, t)
}

func (s *Server) lineOf(t core.Ticket) string {
	if s.LineOf == nil {
		return ""
	}
	return s.LineOf(t)
}
