package engine

import (
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

const (
	// firstForeignLook is the longest time until the first ticket looks again at a lock that
	// a foreign client has just taken. The next ones are as long as that has had the lock.
	firstForeignLook = 100 * time.Millisecond
	// firstSilentLook is the same at a lock of foreign clients that publish nothing when they
	// release it, and take it again at once: it is free for a moment only.
	firstSilentLook = 2 * time.Millisecond
	// foreignNoise is by how much the end of a lease seems to move between two looks: by the
	// times that they take. silentNoise is the same of foreign clients that publish nothing.
	foreignNoise, silentNoise = 20 * time.Millisecond, 4 * time.Millisecond
	// shortTurn is the length of a turn in which foreign clients come at once or not at all. It
	// is a part of the protocol: foreign.lua says the same.
	shortTurn = 10 * time.Millisecond
	// turnLook is how often the first ticket looks for foreign clients that have the lock in a
	// longer turn: Redis learns by a look that one has it.
	turnLook = 5 * time.Millisecond
	// endlessLease is when a lease counts as one without an end.
	endlessLease = 24 * time.Hour
)

// Foreign clients are those of Redisson that contend for the lock. They know nothing of the
// queue, and are told that the lock is free by its channel. Only the client of the first ticket
// listens there, while one of them has the lock or it is their turn. A second channel counts the
// clients of ours that listen, so that Redis can tell how many foreign ones do.

// foreignNews is how foreign clients release the lock, as far as this client knows.
type foreignNews uint8

const (
	noNews        foreignNews = iota
	messageHeard              // they have published a message since the last look at a lock that one holds
	foreignSilent             // one has taken the lock again, and none has published a message
)

// listen has this client listen to what foreign clients are told, and to what those of
// Redisson's fair lock tell the place that is ours in their queue.
func (r *room) listen() {
	if len(r.ears) > 0 || r.sub == nil {
		return
	}
	c, n := r.client, r.name
	heard := func(message string) {
		r := c.enter(n)
		r.foreign = messageHeard
		r.heard = r.heard || !isOwnMessage(message)
		r.lookNow(time.Now())
		r.exit()
	}
	if c.Redis.Counts() {
		r.ears = append(r.ears, r.sub.Also(n.Ushers(), heard))
	}
	if n.FairQueue != "" {
		r.ears = append(r.ears, r.sub.Also(n.Channel+":"+fairPlace, heard))
	}
	r.ears = append(r.ears, r.sub.Also(n.Channel, heard))
}

// isOwnMessage reports whether a client of ours has published a message to Redisson's channel: it has
// a zero before what Redisson writes, which reads numbers.
func isOwnMessage(message string) bool { return len(message) > 1 && message[0] == '0' }

// fairPlace is the owner of our place in Redisson's fair queue. It is a part of the protocol:
// foreign.lua says the same.
const fairPlace = "rlock:0"

// deafen ends listen.
func (r *room) deafen() {
	for _, s := range r.ears {
		s.Close()
	}
	r.ears = nil
}

// lookNow has every ticket here looked for, and every waiter look whether it can join: the
// lock may be free, or a message may have been lost.
func (r *room) lookNow(now time.Time) {
	for w := range r.waiters {
		w.lookNow(now)
		w.Wake()
	}
}

// lookNow has the ticket looked for, again if a command is in flight: its answer may be
// older than the reason to look.
func (w *waiter) lookNow(now time.Time) {
	w.lookAt = now
	if w.ticket != nil && w.ticket.phase != queued {
		w.ticket.stale = true
	}
}

// hears reports whether this client hears what foreign clients are told.
func (r *room) hears() bool {
	return len(r.ears) > 0 && r.ears[len(r.ears)-1].Confirmed()
}

// followForeign returns when to look again at a lock that a foreign client holds for ttl more
// milliseconds. Some publish nothing when they release the lock: Redisson's spin lock. So the
// first ticket looks soon after the lock has been taken or renewed, and less and less often while
// nothing changes. It looks sooner if the lock was taken again without a message.
func (r *room) followForeign(w *waiter, ttl int64, now time.Time) time.Duration {
	left := wire.Milliseconds(ttl)
	if ttl < 0 || left > endlessLease {
		return lookTime // nothing would show that the lock has been taken again
	}
	first, noise := firstForeignLook, foreignNoise
	if r.foreign == foreignSilent {
		first, noise = firstSilentLook, silentNoise
	}
	if ends := now.Add(left); ends.Sub(w.foreignEnds).Abs() > noise {
		if w.hears && r.foreign != messageHeard {
			r.foreign, first = foreignSilent, firstSilentLook
		}
		w.foreignEnds, w.foreignSince = ends, now
	}
	if r.foreign == messageHeard {
		r.foreign = noNews
	}
	w.hears = r.hears()
	return wire.Jitter(max(first, now.Sub(w.foreignSince)))
}

// watchTurn returns when to look again in a turn of foreign clients that ends in ttl milliseconds.
func watchTurn(ttl int64) time.Duration {
	left := wire.Milliseconds(ttl)
	if left > shortTurn {
		return wire.Jitter(turnLook)
	}
	return left + time.Millisecond
}

// Foreign clients that only poll cannot be counted. They are left turns where the server knows
// scripts of Redisson, but only for names that this client wants all the time: where it leaves
// pauses, pollers come in these.
const (
	// spellPause is the longest pause of a name that is wanted all the time: as long as a
	// turn of pollers.
	spellPause = 140 * time.Millisecond
	// spellTime is for how long a name must have been wanted before pollers are left a turn.
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

// leavesTurns reports whether a command of this client, which wants the name, is to leave turns to
// foreign clients that only poll.
func (c *Client) leavesTurns(n *Name, now time.Time) bool {
	c.Redis.LookForRedisson(now)
	return c.Redis.Polls() && c.spells.wanted(n.Key, false, now)
}

// seesStep is leavesTurns for a step.
func (c *Client) seesStep(n *Name, s wire.Step, now time.Time) bool {
	none := wire.Member{}
	switch {
	case !n.kind().foreign:
		return false
	case s.Leave == none || s.Join != none:
		return c.leavesTurns(n, now)
	}
	return c.Redis.Polls() && c.spells.wanted(n.Key, true, now)
}

// seesAcquire notes an acquire of the name.
func (c *Client) seesAcquire(n *Name, now time.Time) {
	if n.kind().foreign && c.Redis.Polls() {
		c.spells.wanted(n.Key, false, now)
	}
}
