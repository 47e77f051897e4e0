package driver

import (
	"context"
	"time"

	"github.com/go-rlock/rlock/lease"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A work is a tenure as the client's keeper knows it. The keeper asks when a command may be due,
// polls package core, and so builds each batch from the state of that moment.
type work struct {
	entry       lease.Entry // the keeper's part
	tenureState             // is reset when the work is reused
}

// A tenureState is what the driver knows of one tenure. The shard's mutex guards it.
type tenureState struct {
	lock   *lockState     // the lock; like name, not changed while the keeper may read it
	name   *Name          // the lock's name, since the memory of the lock may be another lock's by now
	tenure *core.Tenure   // the tenure; nil once it is over
	text   wire.OwnerText // the owner in the last command
	owner  core.OwnerID   // the id in text
	note   *core.Note     // the note in text

	alarm      core.Time // the time at which the keeper asks; 0 if it does not: setAlarm sets it, and Due clears it
	generation uint64    // the generation of the command that brings the tenure in: see wire.Sent
	kept       *keptSlot // the slot that the tenure keeps, or nil: see freeSlot
	err        error     // the error of the last Mirror, nil if Redis confirmed it

	state      workState
	tracking   tracking
	verifiedAt core.Time // the time at which tracking became verified
}

// A workState is what the keeper does next for a tenure.
type workState uint8

const (
	scheduled workState = iota // the keeper asks at the alarm
	nudged                     // the keeper asks as soon as possible
	asking                     // the keeper asks at this moment, and need not be notified
	batched                    // the keeper polls the tenure when it builds the batch
)

// workOf returns the work of a tenure, which it makes for a new one.
//
// REQUIRES: shard.mu.
func (s *shard) workOf(l *lockState, t *core.Tenure) *work {
	k, _ := t.Tag.(*work)
	if k == nil {
		k = new(work)
		t.Tag = k
	}
	if k.tenure == nil {
		k.tenureState = tenureState{lock: l, name: l.name, tenure: t}
		s.client.live.Add(1)
	}
	return k
}

// endWork ends a tenure that package core has forgotten.
//
// REQUIRES: shard.mu.
func (s *shard) endWork(k *work) {
	t := k.tenure
	k.tenure = nil
	if k.tracking != untracked {
		k.setTracking(untracked)
	}
	k.freeKeptSlot()
	c := s.client
	if !c.keeper.Stop(k) {
		t.Tag = nil // the keeper may still read k, which must not be reused
	}
	if c.live.Add(-1) == 0 && c.Closed.Load() { // Close waits for that
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
}

// scheduleWork has the keeper poll the tenure at that time, or sooner, if its key is to be tracked
// before.
//
// REQUIRES: shard.mu.
func (s *shard) scheduleWork(k *work, at core.Time) {
	if k.state == asking {
		return
	}
	switch at = min(at, k.lock.trackedFrom(k)); {
	case at <= s.at.Time && k.state == batched: // the batch will have the command
	case at <= s.at.Time:
		k.state = nudged
		s.client.keeper.Nudge(k)
	case at != core.Never:
		s.setAlarm(k, at)
	}
}

// setAlarm has the keeper ask at that time, or sooner. The keeper's own deadline, in [lease.Entry],
// is behind another mutex, which setAlarm does not take if the keeper asks soon enough anyway.
//
// REQUIRES: shard.mu.
func (s *shard) setAlarm(k *work, at core.Time) {
	if k.alarm == 0 || at < k.alarm {
		k.alarm = at
		s.client.keeper.Schedule(k, s.client.clock.timeOf(at))
	}
}

// Entry implements [lease.Renewable], as do Group and Due.
func (k *work) Entry() *lease.Entry { return &k.entry }

// Group returns the node of the lock.
func (k *work) Group() uint32 { return k.lock.shard.client.wire.nodeOf(k.name) }

// Due reports whether a command is due: then the keeper polls the tenure when it builds the batch,
// and is to ask again when the tenure ends by the clock, in case the batch is not built. Else Due
// schedules the time at which a command will be due.
func (k *work) Due(time.Time) (send bool) {
	l, s := k.lock, k.lock.shard
	now := s.lock()
	k.alarm, k.state = 0, asking
	if k.tenure == nil {
		s.unlock()
		return false
	}
	if k.tenure == l.Held() {
		if l.Settle(now); l.trackedFrom(k) <= now.Time { // the hold has lasted for long enough
			if k.setTracking(due); k.tracking == due {
				l.Confirm(now) // by a Mirror that tracks the key
			}
		}
	}
	s.applyEffects()
	k.state = scheduled
	if t := k.tenure; t != nil && t.Agent == nil {
		switch at := t.Alarm(); {
		case len(s.unreported[l]) > 0:
			k.state = nudged // the report of the loss nudges the keeper: see pollTenure
		case at > now.Time:
			s.scheduleWork(k, at)
		case t == l.Held():
			s.setAlarm(k, max(now.At(l.FirstEnd()), now.Time+1))
			send = true
		default:
			s.setAlarm(k, now.Time.After(s.core.MaxRetry))
			send = true
		}
		if send {
			k.state = batched
		}
	}
	s.exit(l)
	return send
}

// sendBatch implements [lease.Sender]: it sends the commands that are due for a batch of tenures of
// one node.
func (c *Client) sendBatch(ctx context.Context, _ uint32, batch []lease.Renewable) (reached bool) {
	all := make([]*exchange, 0, len(batch))
	info := contract.RenewedInfo{Margin: c.Config.Lease, Lease: c.Config.Lease}
	for _, item := range batch {
		k := item.(*work)
		l := k.lock
		now := l.shard.lock()
		k.state = scheduled
		if x := l.pollTenure(k, &info, now); x != nil {
			all = append(all, x)
		}
		l.shard.exit(l)
	}
	if len(all) == 0 {
		return true
	}
	began := time.Now()
	c.carryAll(ctx, all)
	info.Took = time.Since(began)
	steps := all[:0]
	for _, x := range all {
		reached = reached || x.Answer.Heard
		l, k := x.lock, x.work
		now := l.shard.lock()
		l.land(x, now)
		if k.tenure != nil {
			// After a downgrade a Step lets readers of other clients in. The keeper would pause
			// before it.
			if op, _ := l.Peek(k.tenure, now); op == core.Step {
				if x = l.pollTenure(k, &info, now); x != nil {
					steps = append(steps, x)
				}
			}
		}
		l.shard.exit(l)
	}
	if c.Observer.On() && c.Observer.Renewed != nil && info.Locks > 0 {
		renewed := info // without the Steps
		c.Observer.Notices.Enqueue(func() { c.Observer.Renewed(renewed) })
	}
	if len(steps) > 0 {
		c.carryAll(ctx, steps)
		for _, x := range steps {
			c.landLate(x)
		}
	}
	c.wire.refreshNodes(time.Now(), !reached)
	return reached
}

// pollTenure returns the command that the keeper is to send for a tenure now, or nil.
//
// REQUIRES: shard.mu.
func (l *lockState) pollTenure(k *work, info *contract.RenewedInfo, now core.Now) (x *exchange) {
	if k.tenure == nil || k.tenure.Agent != nil {
		return nil
	}
	if len(l.shard.unreported[l]) > 0 {
		// Nothing is sent for a lock with an unreported loss: the command may release the tenure,
		// and the holder learns of its loss before Redis can grant the lock to another client. The
		// report nudges the keeper.
		k.state = nudged
		return nil
	}
	switch cmd, at := l.Poll(k.tenure, now); {
	case cmd.Op != core.None:
		x = l.shard.client.exchanges.Get().(*exchange)
		x.Cmd, x.info = cmd, info
		l.fillExchange(x, now)
	case at != core.Never:
		l.shard.scheduleWork(k, at) // nothing is due any more: a nested level was closed, for example
	}
	return x
}

// countRenewal counts a Mirror of the keeper, before its answer lands.
//
// REQUIRES: shard.mu.
func (l *lockState) countRenewal(x *exchange, alive bool, now core.Now) {
	a, s, info := &x.Answer, l.shard, x.info
	if alive {
		x.work.err = wire.Explain(a.Err)
	}
	if info == nil || !l.IsHeld() || x.work.tenure != l.Held() {
		return
	}
	info.Locks++
	s.counts.Renewals++
	if a.Err != nil || a.Found != core.Holds {
		info.Failed++
		s.counts.RenewalsFailed++
	}
	if a.Err != nil {
		info.Err = a.Err
	}
	if x.Cmd.Renews {
		info.Kept++
		info.Margin = min(info.Margin, time.Duration(l.FirstEnd().Since(now.Safe)))
	}
}
