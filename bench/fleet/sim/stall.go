package sim

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// stallNext has the next client stall, of all.
func (s *Sim) stallNext() {
	if s.Stalls.Every > 0 {
		mean := float64(s.Stalls.Every) / float64(len(s.clients))
		s.plan(s.now.After(core.Span(time.Duration(s.rng.ExpFloat64()*mean))), stalls, 0, nil)
	}
}

// stall stops one client for a while.
func (s *Sim) stall() {
	c := &s.clients[s.rng.IntN(len(s.clients))]
	c.stalled = max(c.stalled, s.now.After(core.Span(s.Stalls.For)))
	s.stallNext()
}

// clientOf returns the client in which the event happens, nil for none.
func (s *Sim) clientOf(e *event) *client {
	switch e.kind {
	case answered:
		return e.of.(*packet).client
	case heard:
		return e.of.(*news).client
	case subscribed:
		return &s.clients[e.of.(*sub).client]
	case due:
		return e.of.(*caller).client
	case keeps:
		if l := e.of.(*core.Tenure).Lock(); l != nil {
			if l, _ := l.Tag.(*lock); l != nil {
				return l.client
			}
		}
	}
	return nil
}
