package core

// This file is for the explorer: to copy the locks of a client, and to tell two states apart. A test sees to it that
// both know every field.

const imageTenures, imageCalls, imageLocks = 10, 10, 3

// An Image is the memory of a copy of a client and its locks. It may be used again.
type Image struct {
	Client      Client
	Locks       [imageLocks]Lock
	locks       int
	from        [imageLocks]*Lock
	tenures     [imageTenures]Tenure
	fromTenures [imageTenures]*Tenure
	nt          int
	calls       [imageCalls]Call
	fromCalls   [imageCalls]*Call
	nc          int
	gone        Tenure // stands for those that are over, and stays zero: no answer fits it
}

// Copy makes the image a copy of a client and its locks.
func (y *Image) Copy(c *Client, locks ...*Lock) {
	effects, taken, partings := y.Client.Effects[:0], y.Client.taken, y.Client.partings[:0]
	y.Client = *c
	y.Client.Effects, y.Client.taken, y.Client.partings = effects, taken, append(partings, c.partings...)
	y.nt, y.nc, y.locks = 0, 0, len(locks)
	for i, l := range locks {
		y.from[i] = l
		y.lock(l, &y.Locks[i])
	}
	if t := c.spare; t != nil {
		n := y.newTenure(t)
		*n = Tenure{Tag: t.Tag, flight: t.flight}
		y.Client.spare = n
	}
}

func (y *Image) lock(l, n *Lock) {
	all := n.levels.all[:0]
	*n = *l
	n.client = &y.Client
	n.levels.all = append(all, l.levels.all...)
	n.tenures, n.line = tenures{}, line{calls: l.line.calls}
	for t := l.tenures.first; t != nil; t = t.behind {
		c := y.newTenure(t)
		*c = *t
		c.lock, c.prev, c.behind = n, nil, nil
		n.tenures.add(c)
	}
	for w := l.line.first; w != nil; w = w.next {
		c := y.newCall(w)
		c.prev, c.next = nil, nil
		n.line.join(c)
		c.Tenure = y.Tenure(w.Tenure)
	}
	for t := n.tenures.first; t != nil; t = t.behind {
		if t.call = y.Call(t.call); t.call != nil {
			t.call.Tenure = t // that of a Resume or of a release is not in the line
		}
	}
	n.owner = y.Tenure(l.owner)
}

func (y *Image) newTenure(t *Tenure) *Tenure {
	if y.nt == imageTenures {
		panic("core: too many tenures for an image")
	}
	y.fromTenures[y.nt] = t
	y.nt++
	return &y.tenures[y.nt-1]
}

func (y *Image) newCall(w *Call) *Call {
	if y.nc == imageCalls {
		panic("core: too many calls for an image")
	}
	y.fromCalls[y.nc] = w
	c := &y.calls[y.nc]
	y.nc++
	*c = *w
	return c
}

// Tenure returns the copy of a tenure. One that is over and not spare is like any other such one.
func (y *Image) Tenure(t *Tenure) *Tenure {
	if t == nil {
		return nil
	}
	for i := range y.nt {
		if y.fromTenures[i] == t {
			return &y.tenures[i]
		}
	}
	return &y.gone
}

// Call returns the copy of a call, which may have left the line.
func (y *Image) Call(w *Call) *Call {
	if w == nil {
		return nil
	}
	for i := range y.nc {
		if y.fromCalls[i] == w {
			return &y.calls[i]
		}
	}
	c := y.newCall(w)
	c.Tenure = nil
	if w.purpose == Tends && w.Outcome == Waiting {
		c.Tenure = y.Tenure(w.Tenure)
	}
	return c
}

// Command returns the command with the copies of its tenures and of its call, unless that has returned.
func (y *Image) Command(cmd *Command) {
	if c := cmd.call; c != nil {
		if cmd.call = nil; c.Outcome == Waiting && c.seq == cmd.callSeq {
			cmd.call = y.Call(c)
		}
	}
	cmd.tenure, cmd.joins = y.Tenure(cmd.tenure), y.Tenure(cmd.joins)
}

// Names renames tenures and owners in the order in which they are seen, so that states that differ by names only are one.
type Names struct {
	Client uint32
	ids    [24]uint64
	n      int
	Owners [8]OwnerID
	No     int
}

// ID returns the name of a tenure: 0 for none, 1 and 2 for one of another client, that does not linger or may.
func (n *Names) ID(id ID) byte {
	switch {
	case id == ID{}:
		return 0
	case id.Client != n.Client:
		return 1 + bit(id.Lingers)
	}
	for i := range n.n {
		if n.ids[i] == id.N {
			return byte(3+2*i) + bit(id.Lingers)
		}
	}
	n.ids[n.n] = id.N
	n.n++
	return byte(1+2*n.n) + bit(id.Lingers)
}

// Owner returns the name of an owner: 0 for none.
func (n *Names) Owner(o OwnerID) byte {
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
type clocks struct{ Now }

func (c clocks) time(t Time) byte {
	if t >= Never/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Time, -12), 100)))
}

// until is time for one that decides nothing once it has come.
func (c clocks) until(t Time) byte { return c.time(max(t, c.Time)) }

func (c clocks) safe(t SafeTime) byte {
	if t >= NeverSafe/4 {
		return 127
	}
	return byte(int8(min(max(t-c.Safe, -12), 100)))
}

// Append appends what tells the state of the client from others, beside that of its locks.
func (c *Client) Append(b []byte, now Now, n *Names) []byte {
	for _, p := range c.partings {
		if now.Time < p.until {
			b = append(b, n.ID(ID{Client: c.ID, N: p.n}), clocks{now}.time(p.until))
		}
	}
	return append(b, 0)
}

// Append appends what tells the state of the lock from others.
func (l *Lock) Append(b []byte, now Now, n *Names) []byte {
	at := clocks{now}
	c := l.client
	b = append(b, bits(c.closed, l.abroad.told), byte(l.hears)<<4|byte(l.abroad.hears), byte(len(l.levels.all)), byte(l.line.len), byte(l.tenures.len), byte(min(l.reserve, 255)))
	if l.hears == asking {
		b = append(b, at.until(l.patient))
	}
	if l.abroad.hears != deaf {
		b = append(b, byte(l.abroad.news), bit(l.abroad.listens), at.time(l.abroad.ends), at.time(l.abroad.since))
	}
	for i := range l.levels.all {
		v := &l.levels.all[i]
		b = append(b, n.Owner(v.Owner), byte(v.Mode), at.safe(v.Until), handle(v.Handle), bits(v.wrote, v.Guest))
	}
	if len(l.levels.all) > 0 {
		b = append(b, at.safe(max(l.levels.ends, now.Safe)))
	}
	for w := l.line.first; w != nil; w = w.next {
		b = w.append(b, at, l, n)
	}
	for t := l.tenures.first; t != nil; t = t.behind {
		b = t.append(b, at, n)
	}
	return b
}

func handle(h any) byte {
	if i, ok := h.(int); ok {
		return byte(i)
	}
	return 0
}

func (w *Call) append(b []byte, at clocks, l *Lock, n *Names) []byte {
	b = append(b, n.Owner(w.Owner), byte(w.Mode), byte(w.Lease), byte(w.Linger), byte(w.CallTime), handle(w.Handle), at.time(w.Until),
		byte(w.Outcome), byte(w.attempts), byte(min(w.fails, 3)), bits(w.Waits, w.Repeats, w.retried, w.last, w.inLine, w.Tenure != nil, w.Guest), bit(w.asleep), n.ID(w.Named), byte(w.Inherits))
	if w.rest > 0 {
		b = append(b, 1+at.until(w.rest))
	} else {
		b = append(b, 0)
	}
	b = append(b, at.until(w.alarm))
	if w.Mode == Shared {
		b = append(b, at.until(w.began.After(l.client.ReadersTime)))
	}
	return b
}

func (t *Tenure) append(b []byte, at clocks, n *Names) []byte {
	now := at.Now
	b = append(b, n.ID(t.ID), byte(t.want)<<4|byte(t.place), byte(t.flight.op), byte(t.news), byte(min(t.fails, 3)), at.until(t.again), at.until(t.late),
		bits(t == t.lock.owner, t.mode == Shared, t.polls, t.call != nil && t.call.purpose == Releases, t.called, t.step, t.marked, t.turn.contested),
		byte(t.trust.least), byte(t.trust.most), byte(t.within), bits(t.claim, t.turn.handed), n.Owner(t.told), bits(t.wrote))
	if f := &t.flight; f.op != None {
		b = append(b, at.time(f.at.Time), at.safe(f.at.Safe), byte(f.lease), byte(f.asks), bits(f.exact, f.last))
	}
	if t.polls {
		b = append(b, byte(min(t.polled, 4)))
	}
	if t.tokens.reserved > 0 {
		b = append(b, byte(min(t.tokens.reserved, 255)), byte(min(t.tokens.left, 255)), bit(t.tokens.current > 0))
	}
	if t.call != nil {
		b = append(b, n.Owner(t.call.Owner))
	}
	if t.want == Gone {
		return append(b, at.time(t.since))
	}
	if t == t.lock.owner {
		b = append(b, at.until(t.alarm))
	}
	b = append(b, at.safe(max(t.trust.until, now.Safe)), byte(t.trust.lease), at.time(t.trust.seen.Time), at.safe(t.trust.seen.Safe), at.until(t.look),
		n.Owner(t.named), n.Owner(t.shown.owner), byte(t.shown.writes), bit(t.shown.reads), at.safe(t.shown.until), byte(t.linger))
	if t.want == Kept {
		b = append(b, at.until(t.lingersUntil()))
	}
	if t.turn.contested {
		b = append(b, at.time(t.turn.since), byte(min(t.turn.passes, 200)))
	}
	return b
}

// Waits reports whether a call waits for the answer to the command.
func (cmd *Command) Waits() bool {
	c := cmd.call
	return c != nil && c.seq == cmd.callSeq && c.Outcome == Waiting
}

// Current reports whether the command's answers will be read.
func (cmd *Command) Current() (tenure, joins bool) {
	t, u := cmd.tenure, cmd.joins
	return t != nil && t.underWay() && t.flight.seq == cmd.tenureSeq, u != nil && u.underWay() && u.flight.seq == cmd.joinsSeq
}

// IsSummed reports whether the summary of the levels is that of the levels themselves.
func (l *Lock) IsSummed() bool {
	s := sum(l.levels.all)
	for i := range l.levels.all {
		if v := &l.levels.all[i]; v.Mode == Shared && v.Until != NeverSafe && l.levels.ends > l.askedBy(v.Owner) {
			return false
		}
	}
	s.ends = max(s.ends, l.levels.ends) // a level may be over whose owner goes on
	return l.levels.summary == s
}
