package image

import "github.com/go-rlock/rlock/rlock/internal/core"

// Names renames tenures and owners in the order in which they are seen: states that differ by names only are one.
type Names struct {
	Client uint32
	ids    [24]uint64
	n      int
	Owners [8]core.OwnerID
	No     int
}

// ID returns the name of a tenure: 0 for none, 1 for one of another client.
func (n *Names) ID(id core.ID) byte {
	switch {
	case id == core.ID{}:
		return 0
	case id.Client != n.Client:
		return 1
	}
	for i := range n.n {
		if n.ids[i] == id.N {
			return byte(2 + i)
		}
	}
	n.ids[n.n] = id.N
	n.n++
	return byte(1 + n.n)
}

// Owner returns the name of an owner: 0 for none.
func (n *Names) Owner(o core.OwnerID) byte {
	if o == 0 {
		return 0
	}
	for i := range n.No {
		if n.Owners[i] == o {
			return byte(i + 1)
		}
	}
	n.Owners[n.No] = o
	n.No++
	return byte(n.No)
}

func bit(f bool) byte {
	if f {
		return 1
	}
	return 0
}

func bits(fs ...bool) (v byte) {
	for _, f := range fs {
		v = v<<1 | bit(f)
	}
	return v
}

// clocks writes times as seen from now.
type clocks struct{ core.Now }

func (c clocks) time(t core.Time) byte {
	if t >= core.Never/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Time, -12), 100)))
}

// until is time for one that decides nothing once it has come.
func (c clocks) until(t core.Time) byte { return c.time(max(t, c.Time)) }

func (c clocks) safe(t core.SafeTime) byte {
	if t >= core.NeverSafe/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Safe, -12), 100)))
}

// AppendClient appends what tells the state of the client from others, apart from that of its locks.
func (n *Names) AppendClient(b []byte, c *core.Client, now core.Now) []byte {
	for _, p := range ofClient(c).partings {
		if now.Time < p.until {
			b = append(b, n.ID(core.ID{Client: c.ID, N: p.n}), clocks{now}.time(p.until))
		}
	}
	return append(b, 0)
}

// AppendLock appends what tells the state of the lock from others.
func (n *Names) AppendLock(b []byte, of *core.Lock, now core.Now) []byte {
	at, l := clocks{now}, ofLock(of)
	b = append(b, bits(l.client.Closed(), l.abroad.told), byte(l.hears)<<4|byte(l.abroad.hears), byte(len(l.levels.all)), byte(l.line.Len()), byte(l.tenures.len), byte(min(l.reserve, 255)))
	if l.hears == asking {
		b = append(b, at.until(l.patient))
	}
	if l.stays > 0 {
		b = append(b, at.until(l.stays))
	}
	if l.abroad.hears != deaf {
		b = append(b, byte(l.abroad.news), bit(l.abroad.listens), at.time(l.abroad.ends), at.time(l.abroad.since))
	}
	for i := range l.levels.all {
		v := ofLevel(&l.levels.all[i])
		b = append(b, n.Owner(v.Owner), byte(v.Mode), at.safe(v.Until), handle(v.Handle), bits(v.wrote, v.Guest, v.Capped))
	}
	if len(l.levels.all) > 0 {
		b = append(b, at.safe(max(l.levels.ends, now.Safe)))
	}
	for w := range l.line.All {
		b = n.call(b, ofCall(w.Value), l, at)
	}
	for t := l.tenures.first; t != nil; t = ofTenure(t).behind {
		b = n.tenure(b, of, ofTenure(t), at)
	}
	return b
}

func handle(h any) byte {
	if i, ok := h.(int); ok {
		return byte(i)
	}
	return 0
}

func (n *Names) call(b []byte, w *call, l *lock, at clocks) []byte {
	b = append(b, n.Owner(w.Owner), byte(w.Mode), byte(w.More), byte(w.Lease), handle(w.Handle), at.time(w.Until),
		byte(w.Outcome), byte(w.attempt), byte(min(w.fails, 3)), bits(w.Waits, w.Repeats, w.position.InLine(), w.Tenure != nil, w.Guest), bits(w.asleep, w.Carries, w.Answers, w.Capped, w.admitted, w.overdue), byte(w.Most), n.ID(w.Named), byte(w.Inherits))
	if w.rest > 0 {
		b = append(b, 1+at.until(w.rest))
	} else {
		b = append(b, 0)
	}
	b = append(b, at.until(w.alarm))
	if w.Mode == core.Shared {
		b = append(b, at.until(w.Began.After(l.client.ReadersTime)))
	}
	return b
}

func (n *Names) tenure(b []byte, of *core.Lock, t *tenure, at clocks) []byte {
	now, owns := at.Now, of.Owner() != nil && ofTenure(of.Owner()) == t
	b = append(b, n.ID(t.ID), byte(t.want)<<4|byte(t.place), byte(t.entry)<<4|byte(t.flight.op), byte(min(t.polls, 5)), byte(t.news), byte(min(t.fails, 3)), at.until(t.again), at.until(t.late),
		bits(owns, t.mode == core.Shared, t.Agent != nil && t.Agent.Purpose == core.Releases, t.step, t.marked, t.share.contested),
		byte(t.trust.least), byte(t.trust.most), byte(t.within), bits(t.claim, t.share.handed), n.Owner(t.shown.owner), bits(t.wrote, t.takes), byte(t.more))
	if f := &t.flight; f.op != core.None {
		b = append(b, at.time(f.at.Time), at.safe(f.at.Safe), byte(f.lease), byte(f.asks), bits(f.exact, f.last))
	}
	if t.tokens.reserved > 0 {
		b = append(b, byte(min(t.tokens.reserved, 255)), byte(min(t.tokens.left, 255)), bit(t.tokens.current > 0))
	}
	if t.Agent != nil {
		b = append(b, n.Owner(t.Agent.Owner))
	}
	if t.want == core.Gone {
		return append(b, at.time(t.since))
	}
	if owns {
		b = append(b, at.until(t.alarm))
	}
	b = append(b, at.safe(max(t.trust.until, now.Safe)), byte(t.trust.lease), at.time(t.trust.seen.Time), at.safe(t.trust.seen.Safe), at.until(t.look),
		n.Owner(t.named), byte(t.shown.writes), bits(t.shown.reads, t.old), at.safe(t.shown.until))
	if t.share.contested {
		b = append(b, at.time(t.share.since), byte(min(t.share.passes, 200)))
	}
	return b
}

// Current reports whether the command's answers will be read.
func Current(cmd *core.Command) (tenure, joins bool) {
	m := ofCommand(cmd)
	flies := func(t *core.Tenure, seq uint32) bool {
		return t != nil && t.InFlight() != core.None && ofTenure(t).flight.seq == seq
	}
	return flies(m.Tenure, m.tenureSeq), flies(m.joins, m.joinsSeq)
}

// IsSummed reports whether the summary of the levels of a lock is that of the levels themselves.
func IsSummed(of *core.Lock) bool {
	l := ofLock(of)
	is, s := l.levels.summary, summary{asked: core.NeverSafe, ends: core.NeverSafe}
	if len(l.levels.all) > 0 {
		s.asked = 0
	}
	for i := range l.levels.all {
		v := &l.levels.all[i]
		if v.Mode == core.Alone {
			s.writes++
		}
		if v.Until == core.NeverSafe {
			s.asked = core.NeverSafe
			continue
		}
		if v.Capped {
			s.asked = core.NeverSafe
		} else {
			s.asked, s.longest = max(s.asked, v.Until), max(s.longest, v.Until)
		}
		if v.Mode == core.Shared || v.Capped {
			s.ends = min(s.ends, v.Until)
			if is.ends > askedBy(l.levels.all, v.Owner) {
				return false
			}
		}
	}
	s.ends = max(s.ends, is.ends) // a level may be over whose owner goes on
	return is == s
}

// askedBy returns until when the levels of an owner ask for the lock.
func askedBy(all []core.Level, o core.OwnerID) core.SafeTime {
	until, most := core.SafeTime(0), core.NeverSafe
	for i := range all {
		switch v := &all[i]; {
		case v.Owner != o:
		case v.Capped:
			until, most = core.NeverSafe, min(most, v.Until)
		default:
			until = max(until, v.Until)
		}
	}
	return min(until, most)
}
