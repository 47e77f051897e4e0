package sim

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// A way is one direction of one connection.
type way uint8

const (
	asks    way = iota // the commands
	answers            // and their answers
	joins              // the commands of subscriptions
	tells              // and what they are answered, and the messages
)

// A link is a direction of a connection on which something is on its way: nothing passes it.
type link struct {
	shard uint32
	way   way
	last  core.Time
}

// delay returns how long a packet takes.
func (s *Sim) delay() core.Span {
	n := &s.Network
	d := n.OneWay
	if n.Jitter > 0 {
		d += time.Duration(s.rng.ExpFloat64() * float64(n.Jitter))
	}
	if n.Tail > 0 && s.rng.Float64() < n.Tail {
		d += n.TailTime
	}
	return core.Span(d)
}

// crosses returns when a packet that is sent at a time gets there.
func (s *Sim) crosses(c *client, shard uint32, w way, at core.Time) core.Time {
	at = at.After(s.delay())
	if s.Network.Jitter == 0 && s.Network.Tail == 0 {
		return at // all take as long, so that the order is kept
	}
	free := -1
	for i := range c.links {
		switch l := &c.links[i]; {
		case l.shard == shard && l.way == w:
			l.last = max(l.last, at)
			return l.last
		case l.last <= s.now:
			free = i
		}
	}
	if l := (link{shard, w, at}); free >= 0 {
		c.links[free] = l
	} else {
		c.links = append(c.links, l)
	}
	return at
}
