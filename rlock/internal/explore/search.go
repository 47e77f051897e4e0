package explore

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
)

// A Result is the outcome of an exploration.
type Result struct {
	States, Events, Depth int
	Took                  time.Duration
	Complete              bool     // all states were seen
	Bad                   string   // the violation, "" for none
	Trace                 []string // how it comes to that
	Reached               Reached  // by All: how many states were hard
}

func (r Result) String() string {
	s := fmt.Sprintf("%9d states %10d events, depth %3d, %5.1f s", r.States, r.Events, r.Depth, r.Took.Seconds())
	switch {
	case r.Bad != "":
		s += "\nBROKEN: " + r.Bad + "\n  " + strings.Join(r.Trace, "\n  ")
	case !r.Complete:
		s += ", not complete"
	}
	return s
}

// A Limit is when to stop an exploration that is not complete.
type Limit struct {
	States int           // 0: never
	Time   time.Duration // 0: never
}

func (l Limit) over(r *Result, began time.Time) bool {
	return l.States > 0 && r.States >= l.States || l.Time > 0 && r.Events&1023 == 0 && time.Since(began) > l.Time
}

// A step is how a state was reached first.
type step struct {
	parent int32
	action action
}

// pool has worlds whose memory may be used again.
type pool []*world

func (p *pool) copyOf(w *world) *world {
	var n *world
	if m := len(*p); m > 0 {
		n, *p = (*p)[m-1], (*p)[:m-1]
	} else {
		n = new(world)
	}
	w.copyTo(n)
	return n
}

func (p *pool) free(w *world) { *p = append(*p, w) }

// Shortest explores breadth first: it finds the shortest way to a violation.
func Shortest(s Setup, limit Limit) (r Result) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	type node struct {
		w  *world
		at int32
	}
	var k keys
	var as []action
	var spare pool
	seen := newSet()
	steps := []step{{parent: -1}}
	first := newWorld(&s)
	seen.add(k.hash(first))
	r.States = 1
	frontier, next := []node{{first, 0}}, []node(nil)
	for ; len(frontier) > 0; r.Depth++ {
		for _, n := range frontier {
			as = n.w.actions(as[:0])
			for i, a := range as {
				w := n.w
				if i < len(as)-1 {
					w = spare.copyOf(w)
				}
				w.apply(a)
				r.Events++
				if w.bad != "" {
					steps = append(steps, step{n.at, a})
					r.Bad, r.Trace = w.bad, trace(&s, steps)
					return r
				}
				if !seen.add(k.hash(w)) {
					spare.free(w)
					continue
				}
				r.States++
				steps = append(steps, step{n.at, a})
				next = append(next, node{w, int32(len(steps) - 1)})
				if limit.over(&r, began) {
					return r
				}
			}
		}
		frontier, next = next, frontier[:0]
	}
	r.Complete = true
	return r
}

// All explores depth first, which needs memory for little more than what it has seen.
func All(s Setup, limit Limit) (r Result) {
	began := time.Now()
	defer func() { r.Took = time.Since(began) }()
	type frame struct {
		w  *world
		as []action
		by action // the world came by
	}
	var k keys
	var spare pool
	seen := newSet()
	first := newWorld(&s)
	seen.add(k.hash(first))
	r.States = 1
	stack := []frame{{first, first.actions(nil), action{}}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if len(f.as) == 0 {
			spare.free(f.w)
			stack = stack[:len(stack)-1]
			continue
		}
		a := f.as[len(f.as)-1]
		f.as = f.as[:len(f.as)-1]
		w := spare.copyOf(f.w)
		w.apply(a)
		r.Events++
		if w.bad != "" {
			steps := []step{{parent: -1}}
			for i := range stack[1:] {
				steps = append(steps, step{int32(i), stack[i+1].by})
			}
			steps = append(steps, step{int32(len(steps) - 1), a})
			r.Bad, r.Trace = w.bad, trace(&s, steps)
			return r
		}
		if !seen.add(k.hash(w)) {
			spare.free(w)
			continue
		}
		r.States++
		r.Reached.count(w)
		if limit.over(&r, began) {
			return r
		}
		var as []action
		if n := len(stack); n < cap(stack) {
			as = stack[:n+1][n].as[:0]
		}
		stack = append(stack, frame{w, w.actions(as), a})
		r.Depth = max(r.Depth, len(stack))
	}
	r.Complete = true
	return r
}

// A set has the hashes of states, in a table of its own since a map takes three times as long.
type set struct {
	table []uint64
	n     int
}

func newSet() *set { return &set{table: make([]uint64, 1<<12)} }

// add adds a hash, and reports whether it is new.
func (s *set) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if s.n >= len(s.table)/2 {
		old := s.table
		s.table = make([]uint64, 2*len(old))
		for _, h := range old {
			if h != 0 {
				s.put(h)
			}
		}
	}
	if !s.put(h) {
		return false
	}
	s.n++
	return true
}

func (s *set) put(h uint64) bool {
	mask := uint64(len(s.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case 0:
			s.table[i] = h
			return true
		case h:
			return false
		}
	}
}

var seed = maphash.MakeSeed()

// A keeper of keys has the memory to tell states apart. Clients and users that differ by their
// numbers only are one: the clients are sorted by what they are, and tenures and owners are named
// in the order in which they are met.
type keys struct {
	buf   []byte
	parts [8][]byte
	names [8]core.Names
	order [8]int
	rank  [8]byte
}

// hash returns what tells the state from others, in 64 bits.
func (k *keys) hash(w *world) uint64 {
	order := k.order[:len(w.clients)]
	for i := range w.clients {
		k.names[i] = core.Names{Client: uint32(i)}
		k.parts[i] = w.appendClient(k.parts[i][:0], &w.clients[i], &k.names[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(k.parts[a], k.parts[b]) })
	k.buf = k.buf[:0]
	for r, i := range order {
		k.rank[i] = byte(r)
		k.buf = append(k.buf, k.parts[i]...)
	}
	k.buf = w.appendRest(k.buf, k)
	return maphash.Bytes(seed, k.buf)
}

func flags(fs ...bool) (v byte) {
	for _, f := range fs {
		v <<= 1
		if f {
			v |= 1
		}
	}
	return v
}

// since writes a time as seen from now.
func (w *world) since(t core.Time) byte { return byte(int8(min(max(t-w.now, -12), 100))) }

// left writes a time that decides nothing once it has come.
func (w *world) left(t core.Time) byte { return byte(max(t-w.now, 0)) }

func (w *world) appendClient(b []byte, c *client, n *core.Names) []byte {
	b = append(b, flags(c.dead, c.frozen, c.asleep, c.off, c.seen, w.server.Listens.Has(uint32(c.id))), byte(c.sub), byte(c.abroad), byte(c.passed), byte(c.kept), n.ID(c.heeds), n.ID(c.forced), byte(len(c.pipe)), byte(len(c.back)), byte(len(c.late)), byte(len(c.heard)))
	now := w.clock(c)
	if !c.dead {
		for _, l := range c.locks {
			n.OwnerCount = 0 // owners of other locks
			b = n.AppendLock(b, l, now)
		}
		b = n.AppendClient(b, c.core, now)
		b = w.appendUsers(b, c, n)
	}
	for i := range c.pipe {
		b = w.appendPacket(b, c, &c.pipe[i], n)
	}
	for i := range c.back {
		b = w.appendPacket(b, c, &c.back[i], n)
	}
	for i := range c.late {
		b = append(w.appendPacket(b, c, &c.late[i], n), w.since(c.late[i].since))
	}
	for _, m := range c.heard {
		b = append(b, byte(m.Kind), byte(m.More), byte(m.Left), flags(m.confirms, m.verifies, m.abroad, m.Ours), n.ID(m.ID))
		if m.Tokens > 0 {
			b = append(b, byte(w.server.Counter-m.Token), byte(m.Tokens))
		}
	}
	return b
}

// appendUsers writes the users in the order in which the lock has named them, and then the others,
// sorted.
func (w *world) appendUsers(b []byte, c *client, n *core.Names) []byte {
	b = append(b, byte(len(c.nudges)), byte(c.slots[asks]), byte(c.slots[releases]))
	if c.stays > w.now {
		b = append(b, w.left(c.stays))
	}
	for _, d := range c.nudges {
		b = append(b, byte(d.user+1))
		if d.tenure != nil {
			b = append(b, n.ID(d.tenure.ID))
		}
	}
	for _, k := range c.timers {
		b = append(b, n.ID(k.tenure.ID), byte(k.at-w.now+c.lag))
	}
	keep := w.Lazy || w.Kind.Permits > 0 || w.Do&Same != 0 // then users are named by their numbers
	named := n.OwnerCount
	for i := range named {
		if j := int(n.Owners[i]) - 1; !keep && j < len(c.users) {
			b = w.appendUser(b, c, j, n)
		}
	}
	var rest [8][5]byte
	m := 0
	for j := range c.users {
		switch {
		case keep:
			b = w.appendUser(b, c, j, n)
		case !slices.Contains(n.Owners[:named], core.OwnerID(j+1)):
			u := &c.users[j]
			rest[m] = [5]byte{byte(u.state), byte(u.rounds), n.ID(u.parted), w.left(u.partedUntil)}
			m++
		}
	}
	slices.SortFunc(rest[:m], func(a, b [5]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, r := range rest[:m] {
		b = append(b, r[:]...)
	}
	return b
}

func (w *world) appendUser(b []byte, c *client, j int, n *core.Names) []byte {
	u := &c.users[j]
	b = append(b, byte(u.state), byte(u.writes), byte(u.reads), byte(u.rounds), flags(u.call != nil, u.wrote, u.write != nil, u.passes, u.left, u.carries, u.wroteOut, u.admitted), byte(u.stage), n.ID(u.parted), w.left(u.partedUntil), byte(u.began))
	if u.stays > 0 {
		b = append(b, w.left(u.stays))
	}
	if u.state == holding && u.until > 0 {
		b = append(b, w.left(u.until))
	}
	if u.state == holding {
		b = append(b, byte(u.more))
	}
	if w.Do&Pass != 0 {
		b = append(b, byte(w.server.Counter-u.token))
	}
	if u.call != nil {
		b = append(b, byte(u.call.Outcome), n.ID(u.ends))
		if u.timer < core.Never {
			b = append(b, byte(u.timer-w.now+c.lag))
		}
	}
	return b
}

// userName names the user whose call has sent a packet, 0 for none.
func (w *world) userName(i int, n *core.Names) byte {
	switch {
	case i < 0:
		return 0
	case w.Do&Same != 0:
		return byte(1 + i)
	}
	return 1 + n.OwnerKey(w.ownerOf(i))
}

func (w *world) appendPacket(b []byte, c *client, p *packet, n *core.Names) []byte {
	m, a := &p.cmd, &p.reply
	t, j := core.Current(m)
	b = append(b, byte(m.Op), n.ID(m.ID), n.ID(m.Joins.ID), flags(m.Passed == w.passed.id), byte(m.Lease), byte(m.Writes), n.OwnerKey(m.Owner), n.OwnerKey(m.Joins.Owner), core.NoteKey(m.Note), core.NoteKey(m.Joins.Note),
		flags(m.Reads, m.Asks, m.Polls, t, j, m.Heard, m.Mode == core.Shared, m.Joins.Mode == core.Shared), flags(m.Carries, m.Answerable, m.Joins.Answerable, m.Bounded, m.Brief, m.Joins.Brief), byte(m.Most), byte(m.Tokens), w.userName(p.user, n), byte(p.slot), byte(m.More), flags(p.left, w.isAwaited(c, p), p.isForce(), p.overtaken), flags(p.epoch == c.epoch, p.behind, m.Joins.Polls, p.write.ended, p.write.stale, m.Exact))
	for _, h := range a.Holders {
		b = append(b, n.ID(h.ID))
	}
	return append(b, byte(a.Fault), byte(a.Found), byte(len(a.Holders)), flags(a.Left, a.Settled, a.HeldBack, a.Foreign, a.Unreplicated, a.Full, a.Takes), byte(a.JoinFault), byte(a.Window), byte(a.HeldFor), n.ID(a.Holder), byte(min(a.TTL, 100)), byte(a.Others),
		byte(min(w.server.Counter-a.Token, 200)))
}

func (w *world) appendRest(b []byte, k *keys) []byte {
	name := func(id core.ID) (byte, byte) {
		if id.Client >= uint32(len(w.clients)) { // foreign, or a window of theirs
			return 255, byte(id.Client)
		}
		return k.rank[id.Client], k.names[id.Client].ID(id)
	}
	if p := &w.passed; w.Do&Pass != 0 {
		r, n := name(p.id)
		b = append(b, r, n, byte(p.mode), byte(p.more), byte(w.server.Counter-p.token), w.left(w.missedBy(p.until)), w.left(w.missedBy(p.older)), flags(p.known, p.used), k.rank[p.by.client], byte(p.by.user))
	}
	b = append(b, byte(w.faults), byte(w.idle), byte(w.unused), byte(w.unheard), byte(w.overlap), byte(w.refuses), byte(w.forces), flags(w.wiped, w.lags, w.refused, w.taken, w.let), byte(max(w.stalled-w.now, 0)))
	b = k.server(b, w, name)
	b = w.appendForeign(b, k)
	for i := range w.clients {
		for _, ps := range [][]packet{w.clients[i].pipe, w.clients[i].back} {
			for j := range ps {
				if ps[j].isForce() { // the tenure may be another client's
					r, n := name(ps[j].cmd.ID)
					b = append(b, r, n)
				}
			}
		}
	}
	for _, id := range w.entered {
		r, n := name(id)
		b = append(b, r, n)
	}
	for _, p := range w.order {
		b = append(b, k.rank[p.client], k.names[p.client].OwnerKey(core.OwnerID(p.user+1)))
	}
	if w.Kind.Fenced {
		b = append(b, byte(min(w.server.Counter-w.token, 200)))
	}
	return b
}

func (k *keys) owner(id core.ID, o core.OwnerID) byte {
	if id.Client >= uint32(len(k.names)) {
		return 0
	}
	return k.names[id.Client].OwnerKey(o)
}

func (k *keys) server(b []byte, w *world, name func(core.ID) (byte, byte)) []byte {
	states := 1
	if w.lags {
		states = 2
	}
	for i := range states {
		s := &w.server
		if i == 1 {
			s = &w.old
		}
		b = append(b, byte(len(s.Holders)), byte(len(s.Queue)), byte(len(s.Marks)), byte(s.Mode))
		for _, h := range s.Holders {
			r, n := name(h.ID)
			b = append(b, r, n, k.owner(h.ID, h.Owner%noted), byte(h.Owner/noted), flags(h.Writes), byte(h.Count), byte(h.More), byte(max(core.Time(h.Ends)-w.now, -1)))
		}
		for _, t := range s.Queue {
			r, n := name(t.ID)
			b = append(b, r, n, k.owner(t.ID, t.Owner%noted), byte(t.Owner/noted), flags(t.Polls, t.Mode == core.Shared, t.Answerable, t.Brief), byte(t.More))
		}
		for _, id := range s.Marks {
			r, n := name(id)
			b = append(b, r, n)
		}
		if len(s.Holders) > 0 {
			b = append(b, byte(max(core.Time(s.Ends)-w.now, -1)))
		}
		if len(s.Queue)+len(s.Marks) > 0 {
			b = append(b, byte(max(core.Time(s.QueueEnds)-w.now, -1)))
		}
	}
	return b
}
