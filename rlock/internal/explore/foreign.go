package explore

import (
	"slices"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// A Foreign is a thread of a foreign client: what it does is Redisson's lock.
type Foreign uint8

// The foreign clients.
const (
	Subscriber Foreign = iota // tries, subscribes, tries again, and once more for each message
	Poller                    // tries again and again, and publishes nothing
	Reader                    // a subscriber that reads
	Writer                    // a subscriber that writes
	Sleeper                   // is subscribed, and never tries
	Queuer                    // waits in Redisson's fair queue, each on a channel of its own
	Former                    // a poller that has left: the server remembers its scripts, so windows of pollers are in vain
	Tireless                  // a subscriber that never pauses: in each tick it releases the lock, and tries again once ours have looked that listen
)

// windows are the times of foreign windows in ticks: one that is not used is one long, then two,
// and the next one comes as late as it was in vain, twice.
var windows = server.Windows{
	Shortest: 1, Longest: 3, LeastPart: 1, Part: 1, Credit: 1, Vain: 2, Polled: 1, Memory: 9, Patience: 3, Starved: 2, Respite: 1, Heard: 1, Unheard: 3,
}

const foreignLease = 6 // it is renewed each tick

type foreignState uint8

const (
	foreignIdle foreignState = iota
	foreignFailed
	foreignWaiting
	foreignHolding
)

// A thread is one foreign client.
type thread struct {
	kind   Foreign
	state  foreignState
	zeros  int8 // messages that it has not read
	rounds int8
	rested bool // it has begun, or tried, in this tick
	tried  int8 // ticks since it polled
	ticks  int8 // in which one of ours had the lock while it waits
	seen   bool // one had in this tick
	kept   int8 // ticks in which a Reader waits while others read

	until core.Time // of a Subscriber and a Queuer that waits: when the lease ends that it has read, and it tries again by itself
}

func foreignID(i int) core.ID { return core.ID{Client: server.FirstForeign + uint32(i), N: 1} }

// foreignActions appends what foreign clients may do next.
func (w *world) foreignActions(as []action, quiet *bool) []action {
	calm := *quiet // nothing of ours is under way
	for i := range w.threads {
		f := &w.threads[i]
		add := func(k kind, due bool) {
			as = append(as, action{k, 0, uint8(i)})
			*quiet = *quiet && !due
		}
		switch {
		case f.kind == Sleeper, f.kind == Former:
		case f.kind == Tireless && (f.state == foreignIdle || f.state == foreignHolding):
			switch {
			case !calm:
			case f.state == foreignIdle:
				add(doForeignTry, true)
			case !f.rested:
				add(doForeignRelease, true)
			}
		case f.state == foreignIdle && !f.rested && (w.ForeignRounds == 0 || int(f.rounds) < w.ForeignRounds):
			add(doForeignTry, false)
		case f.state == foreignFailed:
			add(doForeignSubscribe, true)
		case f.state == foreignWaiting && f.kind == Poller && !f.rested:
			add(doForeignTry, f.tried >= 2)
		case f.state == foreignWaiting && f.kind != Poller && (f.zeros > 0 || f.until > 0 && w.now >= f.until):
			add(doForeignTry, true)
		case f.state == foreignHolding:
			add(doForeignRelease, false)
		}
	}
	return as
}

// foreignActs makes a foreign client do that.
func (w *world) foreignActs(i int, k kind) {
	switch f := &w.threads[i]; k {
	case doForeignTry:
		w.foreignTries(i, f)
	case doForeignSubscribe:
		if f.kind != Queuer {
			w.server.Foreign.Listen = w.server.Foreign.Listen.With(uint32(i))
		}
		f.state, f.zeros = foreignWaiting, 1
	case doForeignRelease:
		w.foreignReleases(i, f)
	default:
		panic(k)
	}
}

// foreignTries makes a foreign client try to take the lock.
func (w *world) foreignTries(i int, f *thread) {
	s := &w.server
	switch {
	case f.state == foreignIdle:
		f.rested = true
		if w.ForeignRounds > 0 {
			f.rounds++
		}
	case f.kind == Poller:
		f.rested, f.tried = true, 0
	default:
		f.zeros = max(f.zeros-1, 0)
	}
	t := core.Ticket{ID: foreignID(i), Owner: 1}
	if f.kind == Reader {
		t.Mode = core.Shared
	}
	enters := s.ForeignEnters
	switch f.kind {
	case Queuer:
		enters = s.FairEnters
		f.until = w.now.After(min(max(s.LeaseLeft(server.Time(w.now)), 1), foreignLease))
	case Subscriber, Tireless:
		f.until = w.now.After(max(s.LeaseLeft(server.Time(w.now)), 1))
	case Poller, Reader, Writer: // the end of a lease does not make them try
	default: // the others never try
		panic(f.kind)
	}
	switch {
	case enters(t, foreignLease, server.Time(w.now)):
		s.Foreign.Listen = s.Foreign.Listen.Without(uint32(i))
		if f.kind == Tireless || f.kind == Queuer && s.Foreign.Memory.FairAt > 0 { // ours know of the fair queue; else which comes first is chance
			w.passOthers(nil)
		}
		*f = thread{kind: f.kind, state: foreignHolding, rounds: f.rounds, rested: true}
		w.outdates(t.Mode, nil)
		w.idle, w.unused = 0, 0
	case f.state == foreignIdle && f.kind == Poller:
		f.state = foreignWaiting
	case f.state == foreignIdle:
		f.state = foreignFailed
	}
}

// foreignReleases makes a foreign client release the lock.
func (w *world) foreignReleases(i int, f *thread) {
	s := &w.server
	s.ForeignLeaves(foreignID(i), server.Time(w.now))
	f.state = foreignIdle
	switch {
	case f.kind == Poller, len(s.Holders) > 0:
	case f.kind != Queuer:
		w.tellForeign(message{Message: core.Message{Kind: core.ForeignNews}})
	case len(s.Foreign.Fair) > 0:
		w.tellQueuer(s.Foreign.Fair[0])
	}
}

// tellQueuer delivers a message to the first of the fair queue. If that is an entry of ours, our
// clients that listen hear it.
func (w *world) tellQueuer(id core.ID) {
	if id == server.Place {
		w.tellListeners(message{Message: core.Message{Kind: core.ForeignNews}})
		return
	}
	if f := &w.threads[id.Client-server.FirstForeign]; f.state == foreignWaiting {
		f.zeros = min(f.zeros+1, 2)
	}
}

// tellForeign delivers a message on the channel of foreign clients.
func (w *world) tellForeign(m message) {
	for i := range w.threads {
		if f := &w.threads[i]; f.state == foreignWaiting && f.kind != Poller && f.kind != Queuer {
			f.zeros = min(f.zeros+1, 2)
		}
	}
	w.tellListeners(m)
}

// tellListeners delivers it to our clients that listen.
func (w *world) tellListeners(m message) {
	for i := range w.clients {
		if c := &w.clients[i]; !c.dead && w.server.Foreign.Ears.Has(uint32(i)) {
			c.heard = append(c.heard, m)
		}
	}
}

// passForeign notes that a client of ours has got the lock.
func (w *world) passForeign() {
	for i := range w.threads {
		w.threads[i].seen = w.threads[i].state == foreignWaiting
	}
}

// foreignTick advances the time of foreign clients, and fails if one is passed for too long.
func (w *world) foreignTick() (waits, holds bool) {
	for i := range w.threads {
		f := &w.threads[i]
		f.rested = false
		waits, holds = waits || f.state == foreignWaiting && f.kind != Sleeper, holds || f.state == foreignHolding
		if f.kept++; f.state != foreignWaiting || f.kind != Reader || w.server.Mode != server.Read {
			f.kept = 0
		}
		if f.kept > 2 {
			w.fail("foreign client %d: a reader has waited for %d ticks while others read", i, f.kept)
		}
		if f.state != foreignWaiting || f.kind == Sleeper {
			continue
		}
		if f.kind == Poller {
			f.tried = min(f.tried+1, 3)
		}
		if f.seen && w.ForeignTicks > 0 {
			f.ticks = min(f.ticks+1, 60)
		}
		if f.seen = false; w.ForeignTicks > 0 && int(f.ticks) > w.ForeignTicks {
			w.fail("foreign client %d is passed in %d ticks", i, f.ticks)
		}
	}
	if s := &w.server; slices.ContainsFunc(s.Holders, func(h server.Holder) bool { return server.IsForeign(h.ID) }) {
		s.Ends = max(s.Ends, server.Time(w.now+foreignLease))
		if w.RW {
			s.Holders = slices.Clone(s.Holders)
			for i := range s.Holders {
				if server.IsForeign(s.Holders[i].ID) && !s.Holders[i].Writes {
					s.Holders[i].Ends = server.Time(w.now + foreignLease)
				}
			}
		}
	}
	return waits, holds
}

func (w *world) appendForeign(b []byte, k *keys) []byte {
	if len(w.threads) == 0 {
		return b
	}
	for i := range w.threads {
		f := &w.threads[i]
		b = append(b, byte(f.kind), byte(f.state), byte(f.zeros), byte(f.rounds), byte(f.tried), byte(f.ticks), byte(f.kept), flags(f.rested, f.seen), w.left(f.until))
	}
	for _, id := range w.server.Foreign.Fair {
		b = append(b, byte(id.Client-server.FirstForeign)) // 255: an entry of ours
	}
	m := &w.server.Foreign.Memory
	for i := range w.clients {
		b = append(b, flags(w.server.Foreign.Ears.Has(uint32(i))))
	}
	at := func(t server.Time, least core.Time) byte {
		if t == 0 {
			return 0
		}
		return byte(int8(max(core.Time(t)-w.now, least))) + 100
	}
	began, used, last := at(m.Began, -20), at(m.Used, -20), at(m.Last, -6)
	switch {
	case m.Used > 0 && !m.Polls: // it is known how long the window is
		began, used = 1, 1
	case m.Began > 0 && m.Last > 0: // the window will be as long as there was between the two
		last = byte(min(m.Began-m.Last, 8))
	}
	return append(b, began, at(m.Over, -1), used, flags(m.Polls), at(m.Next, -1), at(m.Polled, -1), byte(m.Length), last, at(m.Holding, -3), at(m.Heard, -3), at(m.Ends, -1), at(m.FairAt, -5), at(w.server.Foreign.PlaceEnds, -1))
}
