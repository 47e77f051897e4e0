package driver

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Foreign clients that only poll cannot be counted. They are left windows where the server knows
// scripts of Redisson, but only for names that this client wants all the time: where it leaves
// pauses, pollers come in these.
const (
	// spellPause is the longest pause of a name that is wanted all the time: as long as a
	// window of pollers.
	spellPause = 140 * time.Millisecond
	// spellTime is for how long a name must have been wanted before pollers are left a window.
	spellTime = 2 * time.Second
	// maxSpells is how many names are remembered.
	maxSpells = 4096
)

// spells are the names that this client has wanted of late.
type spells struct {
	mu    sync.Mutex // protects following
	names map[string]spell
}

// A spell is since when a name has been wanted without a pause.
type spell struct {
	since time.Time
	freed time.Time // when it was released, the zero time once it is wanted again
}

// wanted notes that the client wants the name, or frees it, and reports whether it has wanted it
// for long.
func (s *spells) wanted(name string, frees bool, now time.Time) (long bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil || len(s.names) >= maxSpells {
		s.names = make(map[string]spell) // the names that are wanted all the time will be back
	}
	p, known := s.names[name]
	if !known || !p.freed.IsZero() && now.Sub(p.freed) > spellPause {
		p = spell{since: now}
	}
	p.freed = time.Time{}
	if frees {
		p.freed = now
	}
	s.names[name] = p
	return now.Sub(p.since) >= spellTime
}

// leavesWindows reports whether a command for n, a lock that foreign clients may hold, must leave windows to those
// that only poll. It notes that n is wanted.
func (c *Client) leavesWindows(n *Name, now time.Time) bool {
	c.Redis.LookForRedisson(now)
	return c.Redis.Polls() && c.spells.wanted(n.Key, false, now)
}

// seesStep is leavesWindows for a step.
func (c *Client) seesStep(n *Name, s wire.Step, now time.Time) bool {
	if none := (wire.Member{}); s.Leave == none || s.Join != none {
		return c.leavesWindows(n, now)
	}
	return c.Redis.Polls() && c.spells.wanted(n.Key, true, now)
}

// seesAcquire is leavesWindows for an acquire, which leaves none: it notes one of the name. It is called where foreign clients
// may poll.
func (c *Client) seesAcquire(n *Name, now time.Time) { c.spells.wanted(n.Key, false, now) }
