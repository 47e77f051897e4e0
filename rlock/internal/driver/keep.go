package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/internal/enum"
	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A work is a tenure as the keeper of the client knows it. Package core polls are its time and its
// command: the keeper asks when there may be something to send, and builds each batch from the
// state of that moment.
type work struct {
	entry lease.Entry // its place with the keeper
	life              // is new when the work is used again
}

// A life is the driver's state of one tenure. The shard's mutex protects it.
type life struct {
	lock   *lock        // never changed while the keeper may look at it, as name
	name   *Name        // of the lock, whose memory may have another by now
	tenure *core.Tenure // nil once it is over
	text   string       // its owner as Redis was told last: "<uuid>:<id>"
	owner  core.OwnerID // in it

	alarm core.Time   // when the keeper was told to ask about it, 0 for not: schedule writes it, and Due clears it
	sent  uint64      // the generation of the command that brings it in: see wire.Sent
	slot  *wire.Limit // of a command that was left behind: until the tenure has left, nil for none
	err   error       // of the last mirror, nil if it was confirmed

	sender     sender
	queued     bool // it was told to join the queue
	parted     bool // it is left to its lease: see parts
	tracking   tracking
	verifiedAt core.Time // verified: since when
}

// A sender is where the next command of a tenure comes from.
type sender uint8

const (
	unasked     sender = iota // the keeper asks at the alarm
	nudged                    // the keeper asks as soon as may be
	keeperSends               // the keeper has asked, and sends a command as soon as may be
)

func (s sender) String() string { return enum.Name(s, "sender", "unasked", "nudged", "keeperSends") }

// workOf returns what the keeper knows of a tenure, which begins now if it is a new one.
func (s *shard) workOf(l *lock, t *core.Tenure) *work {
	k, _ := t.Tag.(*work)
	if k == nil {
		k = new(work)
		t.Tag = k
	}
	if k.tenure == nil {
		k.life = life{lock: l, name: l.name, tenure: t}
		s.client.tenureBegan()
	}
	return k
}

// over ends a tenure that package core has forgotten.
func (s *shard) over(k *work) {
	t := k.tenure
	k.tenure = nil
	if k.tracking != untracked {
		k.track(untracked)
	}
	if k.slot != nil {
		k.slot.Leave()
		k.slot = nil
	}
	if !s.client.keeper.Stop(k) {
		t.Tag = nil // the keeper may look at it yet
	}
	if !k.parted {
		s.client.tenureOver()
	}
}

// parts notes that a tenure is left to its lease: it counts for nothing any longer, and Close does not wait for it.
func (s *shard) parts(k *work) {
	k.parted = true
	s.client.tenureOver()
}

// keep schedules the tenure with the keeper, which is to poll it then.
func (s *shard) keep(k *work, at core.Time) {
	if k == s.asked {
		return
	}
	switch at = k.lock.wakes(k, at); {
	case at <= s.at.Time && k.sender == keeperSends:
	case at <= s.at.Time:
		k.sender = nudged
		s.client.keeper.Nudge(k)
	case at != core.Never:
		s.schedule(k, at)
	}
}

// schedule makes the keeper ask at that time, or sooner. The keeper's own note of the time, [lease.Entry], is behind another mutex:
// so the alarm saves that one if the keeper asks soon enough anyhow.
func (s *shard) schedule(k *work, at core.Time) {
	if k.alarm == 0 || at < k.alarm {
		k.alarm = at
		s.client.keeper.Schedule(k, s.client.clock.time(at))
	}
}

// wakes returns when the keeper has to ask about the tenure, which package core wants to be polled then.
func (l *lock) wakes(k *work, at core.Time) core.Time {
	if k.tenure == l.Owner() {
		at = min(at, l.trackedFrom(k))
	}
	return at
}

// Entry implements [lease.Renewable], as Group and Due.
func (k *work) Entry() *lease.Entry { return &k.entry }

// Group is the node.
func (k *work) Group() uint32 { return k.lock.shard.client.wire.group(k.name) }

// Due reports whether there is a command to send, and schedules the tenure again.
func (k *work) Due(time.Time) (send bool) {
	l, s := k.lock, k.lock.shard
	now := s.take()
	k.alarm, k.sender = 0, unasked
	if k.tenure == nil {
		s.unlock()
		return false
	}
	s.asked = k
	if k.tenure == l.Owner() {
		l.Look(now)
		l.track(k, now)
	}
	s.applyAll()
	s.asked = nil
	switch {
	case k.tenure == nil:
	case s.heldBack(k):
	default:
		send = s.due(k, now)
	}
	s.exit(l)
	return send
}

// heldBack reports whether a loss of the lock is not reported yet: the holder must learn of it before Redis can grant the lock
// to another, and the tenure may be about to leave. The report nudges the keeper then.
func (s *shard) heldBack(k *work) bool {
	if len(s.unreported) == 0 || len(s.unreported[k.lock]) == 0 {
		return false
	}
	k.sender = nudged
	return true
}

// due reports whether the tenure's time has come: then the keeper polls it when it builds its batch. It schedules the next
// time: until the batch is built, that at which the tenure ends by the clock.
func (s *shard) due(k *work, now core.Now) bool {
	l, t := k.lock, k.tenure
	if t.Agent() != nil {
		return false
	}
	switch at := t.Alarm(); {
	case at > now.Time:
		s.keep(k, at)
		return false
	case t == l.Owner():
		s.schedule(k, max(now.At(l.Ends()), now.Time+1))
	default:
		s.schedule(k, now.Time.After(s.core.MaxRetry))
	}
	k.sender = keeperSends
	return true
}

func (c *Client) keeperConfig() lease.Config {
	return lease.Config{
		Tick:       c.Tick,
		Send:       c.send,
		MaxBackoff: min(c.Config.Lease/10, time.Second),
	}
}

// send implements [lease.Sender]: it sends the commands that are due for a batch of tenures of
// one node.
func (c *Client) send(ctx context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	all := make([]*exchange, 0, len(batch))
	info := terms.RenewedInfo{Margin: c.Config.Lease, Lease: c.Config.Lease}
	for _, item := range batch {
		if x := c.builds(item.(*work), &info); x != nil {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return true
	}
	began := time.Now()
	c.wire.carryAll(ctx, all)
	info.Took = time.Since(began)
	for _, x := range all {
		reached = reached || x.answer.heard
		c.landLate(x)
	}
	c.tellRenewed(info)
	c.wire.refresh(time.Now(), !reached)
	return reached
}

// builds returns the command that is due for a tenure now, nil for none.
func (c *Client) builds(k *work, info *terms.RenewedInfo) (x *exchange) {
	l, s := k.lock, k.lock.shard
	now := s.take()
	k.sender = unasked
	if k.tenure == nil || k.tenure.Agent() != nil || s.heldBack(k) {
		s.unlock()
		return nil
	}
	claimed := k.tenure.Claimed()
	switch cmd, at := l.Poll(k.tenure, now); {
	case cmd.Op != core.None:
		x = c.exchanges.Get().(*exchange)
		x.cmd, x.info, x.claimed = cmd, info, claimed
		l.begins(x, now)
	case at != core.Never:
		s.keep(k, at) // a nested lock was closed meanwhile, say
	}
	s.exit(l)
	return x
}

// clearsTheWay reports a permanent error of a Leave to the TryLock that waits for it: a free lock with a queue has refused its
// attempt, or this client is about to release the lock.
func (l *lock) clearsTheWay(a *answer, now core.Now) {
	for one := range l.Waiters {
		if w := one.Tag.(*waiter); !w.Waits && w.answered(a, &l.shard.client.clock, now.Time) {
			l.Leave(one, core.Failed, now)
		}
		return
	}
}

// begins makes a command ready to be sent: its answer is given to land.
func (l *lock) begins(x *exchange, now core.Now) {
	c, cmd := l.shard.client, &x.cmd
	x.lock, x.name, x.kind, x.at = l, l.name, l.kind(), now.Time
	var k *work
	switch t := cmd.Tenure(); {
	case t != nil:
		k = l.shard.workOf(l, t)
		c.witness.polled(cmd, x.slot)
	case cmd.Op == core.Write:
		k = l.shard.workOf(l, l.Owner())
	default: // by force
		x.text = x.passed
		return
	}
	x.work = k
	l.names(x)
	switch cmd.Op {
	case core.Join:
		k.queued, x.counts = true, cmd.Bounded || l.isWatched()
	case core.Look:
		x.counts = l.isWatched()
	case core.Mirror:
		x.track = k.buildTracked(now)
	case core.Leave:
		if cmd.Joins.ID != (core.ID{}) {
			l.joinsNext(x)
		}
	case core.Acquire, core.Resume, core.Step, core.Unmark, core.Write: // they need no more
	default:
		panic("driver: a command " + cmd.Op.String())
	}
	x.first = !k.queued && x.isFirst()
}

// names gives the command the owner that Redis knows the tenure by, or will know it by.
func (l *lock) names(x *exchange) {
	k, cmd := x.work, &x.cmd
	owner := cmd.Owner
	if l.owner != 0 && cmd.Op != core.Mirror {
		owner = l.owner // also of a tenure that no call knows of
	}
	if k.text == "" || k.owner != owner {
		k.text, k.owner = l.shard.client.textOf(cmd.ID, owner, cmd.More), owner
	}
	x.text, x.after = k.text, k.sent
}

// joinsNext gives a Leave the ticket that joins the queue with it.
func (l *lock) joinsNext(x *exchange) {
	s, next := l.shard, &x.cmd.Joins
	k := s.workOf(l, l.Find(next.ID))
	k.text, k.owner = s.client.textOf(next.ID, next.Owner, next.More), next.Owner
	k.queued = true
	x.joins = k.text
}

// isFirst reports whether no earlier command of a tenure that was never told to queue can be in flight: see wire.Order.
func (x *exchange) isFirst() bool {
	switch x.cmd.Op {
	case core.Acquire, core.Write:
		return !x.cmd.Follows
	case core.Leave:
		return !x.cmd.Follows && x.joins == ""
	case core.Resume, core.Join, core.Look, core.Mirror, core.Step, core.Unmark:
		return false
	default:
		panic(x.cmd.Op)
	}
}

// countRenewal counts a mirror of the keeper, before its answer is dealt with.
func (l *lock) countRenewal(x *exchange, alive bool, now core.Now) {
	a, s, info := &x.answer, l.shard, x.info
	if alive {
		x.work.err = wire.Explain(a.err)
	}
	if info == nil || x.work.tenure != l.Owner() || !l.IsHeld() {
		return
	}
	info.Locks++
	s.counts.Renewals++
	if a.err != nil || a.Found != core.Holds {
		info.Failed++
		s.counts.RenewalsFailed++
	}
	if a.err != nil {
		info.Err = a.err
	}
	if l.IsKept() && !x.claimed {
		info.Kept++
		info.Margin = min(info.Margin, time.Duration(l.Ends().Since(now.Safe)))
	}
}
