package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/go-rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/client"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A work is a tenure as the keeper of the client knows it. Package core polls are its time and its
// command: the keeper asks when there may be something to send, and builds each batch from the
// state of that moment.
type work struct {
	entry  lease.Entry // its place with the keeper
	linger lingerer    // its place among the shard's lingering, made with the first
	life               // is new when the work is used again
}

// A life is the driver's state of one tenure. The shard's mutex protects it.
type life struct {
	lock   *lock        // never changed while the keeper may look at it, as name
	name   *client.Name // of the lock, whose memory may have another by now
	tenure *core.Tenure // nil once it is over
	text   string       // its owner as Redis was told last: "<uuid>:<id>"
	owner  core.OwnerID // in it

	alarm core.Time   // when the keeper asks about it, 0 for never
	sent  uint64      // the mark of the command that brings it in: see wire.Sent
	place *wire.Limit // of a command that was left behind: until the tenure has left, nil for none
	err   error       // of the last mirror, nil if it was confirmed

	sender     sender
	queued     bool // it was told to join the queue
	parted     bool // it is detached, and counts for nothing any more
	lingers    bool // it is among the shard's lingering
	tracking   tracking
	verifiedAt core.Time // verified: since when
}

// A sender is where the next command of a tenure comes from.
type sender uint8

const (
	unasked     sender = iota // the keeper asks at the alarm
	nudged                    // the keeper asks as soon as may be
	keeperSends               // the keeper has asked, and sends a command as soon as may be
	callSends                 // a call sends one, or follows one that was left behind: the keeper waits
)

// workOf returns what the keeper knows of a tenure, which begins now if it is a new one.
func (s *shard) workOf(l *lock, t *core.Tenure) *work {
	k, _ := t.Tag.(*work)
	if k == nil {
		k = new(work)
		t.Tag = k
	}
	if k.tenure == nil {
		k.life = life{lock: l, name: l.name, tenure: t}
		s.client.shared.TenureBegan()
	}
	return k
}

// over ends a tenure that package core has forgotten.
func (s *shard) over(k *work) {
	t := k.tenure
	k.tenure = nil
	if k.lingers {
		s.endsLinger(k)
	}
	if k.tracking != untracked {
		k.track(untracked)
	}
	if k.place != nil {
		k.place.Leave()
		k.place = nil
	}
	if !s.client.keeper.Stop(k) {
		t.Tag = nil // the keeper may look at it yet
	}
	if !k.parted {
		s.client.shared.TenureOver()
	}
}

// keep schedules the tenure with the keeper. One that is over is forgotten at once.
func (s *shard) keep(k *work) {
	l, t := k.lock, k.tenure
	op, at := l.Alarm(t, s.at)
	if op == core.Forget {
		s.over(k)
		return
	}
	s.lingers(k)
	if k == s.asked || k.sender == callSends {
		return
	}
	switch at = l.wakes(k, at); {
	case at <= s.at.Time && k.sender == keeperSends:
	case at <= s.at.Time:
		k.sender = nudged
		s.client.keeper.Nudge(k)
	case at != core.Never:
		s.schedule(k, at)
	}
}

// schedule makes the keeper ask at that time, or sooner.
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
	k.alarm = 0
	k.keeperRests()
	if k.tenure == nil {
		s.unlock()
		return false
	}
	s.asked = k
	if k.tenure == l.Owner() {
		l.Look(now)
		l.track(k, now)
	}
	s.carryOut()
	s.asked = nil
	if k.tenure != nil {
		send = s.due(k, now)
	}
	s.exit(l)
	return send
}

// due reports whether the keeper has a command to send for the tenure now. It schedules the next time: while
// the command waits to be sent, that at which the tenure ends by the clock.
func (s *shard) due(k *work, now core.Now) bool {
	if !k.isKeepers() {
		return false
	}
	l, t := k.lock, k.tenure
	switch op, _ := l.Peek(t, now); {
	case op == core.None || op == core.Forget:
		s.keep(k)
		return false
	case t == l.Owner():
		s.schedule(k, max(now.At(l.Ends()), now.Time+1))
	default:
		s.schedule(k, now.Time.After(s.core.MaxRetry))
	}
	k.sender = keeperSends
	return true
}

// keeperRests notes that the keeper has asked, or has sent, and asks again at the alarm, unless a call sends.
func (k *work) keeperRests() {
	if k.sender != callSends {
		k.sender = unasked
	}
}

// poll returns the command that is to be sent now, if there is one. Its sender has entered the limit, nil for the keeper.
func (k *work) poll(place *wire.Limit, now core.Now) core.Command {
	cmd, _ := k.lock.Poll(k.tenure, now)
	if w := k.lock.shard.client.witness; w != nil {
		w.polled(&cmd, place)
	}
	return cmd
}

// answer tells package core what became of a command.
func (l *lock) answer(cmd *core.Command, a core.Reply, now core.Now) {
	if w := l.shard.client.witness; w != nil {
		w.answered(cmd)
	}
	l.Answer(cmd, a, now)
}

// isKeepers reports whether the keeper sends the commands of the tenure.
func (k *work) isKeepers() bool {
	w, releases := k.tenure.Agent()
	return w == nil && !releases && k.sender != callSends
}

func (c *Client) keeperConfig() lease.Config {
	return lease.Config{
		Tick:       c.shared.Tick,
		Send:       c.send,
		MaxBackoff: min(c.shared.Config.Lease/10, time.Second),
	}
}

// send implements [lease.Sender]: it sends the commands that are due for a batch of tenures of
// one node.
func (c *Client) send(ctx context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	ctx, cancel := c.wire.Within(ctx)
	defer cancel()
	calls := make([]*call, 0, len(batch))
	for _, item := range batch {
		k := item.(*work)
		s := k.lock.shard
		now := s.take()
		k.keeperRests()
		if k.tenure == nil || !k.isKeepers() {
			s.unlock()
			continue
		}
		if op, _ := k.lock.Peek(k.tenure, now); op == core.Forget {
			s.keep(k)
		} else if was, claimed, cmd := k.tenure.Place(), k.tenure.Claimed(), k.poll(nil, now); cmd.Op != core.None {
			sent := c.sending(k, cmd, now)
			sent.claimed, sent.nudges = claimed, was == core.Refused && cmd.Op == core.Leave
			calls = append(calls, sent)
		} else {
			s.keep(k) // a nested lock was closed meanwhile, say
		}
		s.exit(k.lock)
	}
	if len(calls) == 0 {
		return true
	}
	began := time.Now()
	c.carryAll(ctx, calls)
	info := terms.RenewedInfo{Took: time.Since(began), Margin: c.shared.Config.Lease, Lease: c.shared.Config.Lease}
	for _, sent := range calls {
		reached = reached || sent.answer.heard
		c.kept(sent, &info)
		c.sent(sent)
	}
	c.shared.TellRenewed(info)
	c.wire.refresh(time.Now(), !reached)
	return reached
}

// carryAll sends commands. Each has one answer, also if the carrier panics.
func (c *Client) carryAll(ctx context.Context, calls []*call) {
	defer func() {
		if r := recover(); r != nil {
			for _, sent := range calls {
				if a := &sent.answer; !a.heard && a.err == nil {
					*a = panicked(r)
				}
			}
		}
	}()
	c.wire.doAll(ctx, calls)
}

// panicked is the answer to a command whose carrier has panicked.
func panicked(r any) answer {
	return answer{Reply: core.Reply{Fault: core.Unknown}, err: fmt.Errorf("a command panicked: %v", r)}
}

// kept deals with the answer to a command of the keeper.
func (c *Client) kept(sent *call, info *terms.RenewedInfo) {
	k, a := sent.work, &sent.answer
	l, s := k.lock, k.lock.shard
	now := s.take()
	alive := k.tenure != nil && k.tenure.ID == sent.cmd.ID
	switch sent.cmd.Op {
	case core.Mirror:
		if alive {
			k.err = wire.Explain(a.err)
			l.countRenewal(info, sent, now)
		}
	case core.Leave:
		a.Settled = alive && c.wire.IsSettled(k.sent)
		if sent.nudges {
			l.nudged(a, now)
		}
	}
	l.answer(&sent.cmd, a.Reply, now)
	if sent.cmd.Op == core.Mirror {
		l.mirrored(k, sent, alive, now)
		l.opens(k, alive, now)
	}
	s.exit(l)
}

// nudged deals with the answer to the step of an attempt that a free lock has refused. Those that wait look by
// themselves if it has failed; but where waiting does not cure that the call is told which has made the attempt.
func (l *lock) nudged(a *answer, now core.Now) {
	a.Fault = core.Answered
	if a.err == nil {
		return
	}
	for one := range l.Waiters {
		if w := one.Tag.(*waiter); !w.Waits && w.answered(a, &l.shard.client.clock, now.Time) {
			l.Cancel(one, core.Failed, now)
		}
		return
	}
}

// sending returns a command on its way, until sent: the carrier keeps nothing of it once it has answered.
func (c *Client) sending(k *work, cmd core.Command, now core.Now) *call {
	l := k.lock
	owner := cmd.Owner
	if l.owner != 0 && cmd.Op != core.Mirror {
		owner = l.owner // also of a tenure that no call knows of
	}
	if k.text == "" || k.owner != owner {
		k.text, k.owner = c.textOf(cmd.ID, owner), owner
	}
	sent := c.calls.Get().(*call)
	*sent = call{cmd: cmd, work: k, name: l.name, kind: l.shard.kind, text: k.text, at: now.Time}
	switch cmd.Op {
	case core.Resume:
		w, _ := k.tenure.Agent()
		sent.passed = w.Tag.(*waiter).passed
	case core.Join:
		k.queued = true
	case core.Mirror:
		sent.track = k.buildTracked(now)
	case core.Leave:
		if cmd.Joins.ID != (core.ID{}) {
			next := l.Find(cmd.Joins.ID)
			j := l.shard.workOf(l, next)
			j.text, j.owner = c.textOf(cmd.Joins.ID, cmd.Joins.Owner), cmd.Joins.Owner
			j.queued, j.sent = true, c.wire.Mark()
			sent.joins = j.text
		}
	}
	sent.first = !cmd.Follows && !k.queued && (cmd.Op == core.Acquire || cmd.Op == core.Write || cmd.Op == core.Leave && sent.joins == "")
	return sent
}

func (c *Client) sent(sent *call) {
	*sent = call{}
	c.calls.Put(sent)
}

// countRenewal counts a mirror, before its answer is dealt with.
func (l *lock) countRenewal(info *terms.RenewedInfo, sent *call, now core.Now) {
	a, s := &sent.answer, l.shard
	if info == nil || sent.work.tenure != l.Owner() || !l.IsHeld() {
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
	if l.IsKept() && !sent.claimed {
		info.Kept++
		info.Margin = min(info.Margin, time.Duration(l.Ends().Since(now.Safe)))
	}
}
