package driver

import (
	"context"
	"sync/atomic"
	"time"

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
	asking                    // the keeper asks now, and has no need to be told
	keeperSends               // the keeper has asked, and sends a command as soon as may be
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
		s.client.live.Add(1)
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
func (k *work) parts() {
	k.parted = true
	k.lock.shard.client.tenureOver()
}

// keep schedules the tenure with the keeper, which is to poll it then.
func (s *shard) keep(k *work, at core.Time) {
	if k.sender == asking {
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

// wakes returns when the keeper has to ask about the tenure, which package core wants to be polled then.
func (l *lock) wakes(k *work, at core.Time) core.Time {
	if k.tenure == l.Owner() {
		at = min(at, l.trackedFrom(k))
	}
	return at
}

// schedule makes the keeper ask at that time, or sooner. The keeper's own note of the time, [lease.Entry], is behind another mutex:
// so the alarm saves that one if the keeper asks soon enough anyhow.
func (s *shard) schedule(k *work, at core.Time) {
	if k.alarm == 0 || at < k.alarm {
		k.alarm = at
		s.client.keeper.Schedule(k, s.client.clock.time(at))
	}
}

// Entry implements [lease.Renewable], as Group and Due.
func (k *work) Entry() *lease.Entry { return &k.entry }

// Group is the node.
func (k *work) Group() uint32 { return k.lock.shard.client.wire.group(k.name) }

// Due reports whether there is a command to send, and schedules the tenure again.
func (k *work) Due(time.Time) (send bool) {
	l, s := k.lock, k.lock.shard
	now := s.take()
	k.alarm, k.sender = 0, asking
	if k.tenure == nil {
		s.unlock()
		return false
	}
	if k.tenure == l.Owner() {
		l.Settle(now)
		l.track(k, now)
	}
	s.applyAll()
	k.sender = unasked
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
	if t.Agent != nil {
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
		reached = reached || x.Answer.Heard
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
	if k.tenure == nil || k.tenure.Agent != nil || s.heldBack(k) {
		s.unlock()
		return nil
	}
	claimed := k.tenure.Claimed()
	switch cmd, at := l.Poll(k.tenure, now); {
	case cmd.Op != core.None:
		x = c.exchanges.Get().(*exchange)
		x.Cmd, x.info, x.claimed = cmd, info, claimed
		l.begins(x, now)
	case at != core.Never:
		s.keep(k, at) // a nested lock was closed meanwhile, say
	}
	s.exit(l)
	return x
}

// countRenewal counts a mirror of the keeper, before its answer is dealt with.
func (l *lock) countRenewal(x *exchange, alive bool, now core.Now) {
	a, s, info := &x.Answer, l.shard, x.info
	if alive {
		x.work.err = wire.Explain(a.Err)
	}
	if info == nil || x.work.tenure != l.Owner() || !l.IsHeld() {
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
	if l.IsKept() && !x.claimed {
		info.Kept++
		info.Margin = min(info.Margin, time.Duration(l.Ends().Since(now.Safe)))
	}
}

// Redis tells a client that tracks a key when another client changes it: deletes or overwrites it,
// or lets it expire or evicts it. That is a reason to ask, and no proof: the answer to a mirror
// tells a loss, as always. Mirrors track the key; each of them ends the tracking of the last, since
// it changes the key itself. A hold has to last for a while first, so that short holds cost
// nothing, and so many keys of a client are tracked at most, so that no server pays for many.

const (
	// trackAfter is how long a hold lasts before its key is tracked.
	trackAfter = 50 * time.Millisecond
	// trackAgain is how long after a change that has left the lock to its holder the key is tracked again. So a key
	// costs two mirrors a second at most, however often it changes.
	trackAgain = time.Second
)

// A tracking says whether Redis tells of changes of a tenure's key. The mirror after a change does
// not track the key. From due on the key has one of those that the client may track.
type tracking uint8

const (
	untracked tracking = iota // no
	putOff                    // as many keys are tracked as may be, or Redis refuses: the next mirror tries again
	due                       // not yet: a mirror that tracks the key is about to be sent
	tracked                   // yes
	alarmed                   // a change was reported: the next mirror finds out what it was
	verified                  // that mirror was built, at verifiedAt: a later one tracks the key again
)

// track changes the tracking to t, or puts it off.
func (k *work) track(t tracking) {
	c, had := k.lock.shard.client, k.tracking >= due
	if t >= due && !(c.wire.Tracks() && (had || c.tracked.enter())) {
		t = putOff
	}
	if had && t < due {
		c.tracked.leave()
	}
	k.tracking = t
}

// trackedKeys counts the keys of a client that are tracked.
type trackedKeys struct {
	all   int64
	taken atomic.Int64
}

func (p *trackedKeys) enter() bool {
	if p.taken.Add(1) <= p.all {
		return true
	}
	p.leave()
	return false
}

func (p *trackedKeys) leave() { p.taken.Add(-1) }

// Tracked returns how many keys are tracked.
func (c *Client) Tracked() int64 {
	if !c.wire.Tracks() {
		return 0
	}
	return min(c.tracked.taken.Load(), c.tracked.all) // one too many is counted for a moment
}

// trackedFrom returns when the key is to be tracked; never if it is tracked, or is not to be.
func (l *lock) trackedFrom(k *work) core.Time {
	switch {
	case !l.trackable():
	case k.tracking == untracked:
		return l.lastsFrom()
	case k.tracking == verified:
		return k.verifiedAt.After(core.Span(trackAgain))
	}
	return core.Never
}

// lastsFrom returns when the hold has lasted long enough.
func (l *lock) lastsFrom() core.Time { return l.Levels()[0].Since.After(core.Span(trackAfter)) }

// trackable reports whether no other client changes the key as long as this one holds the lock.
func (l *lock) trackable() bool {
	s := l.shard
	return s.client.tracked.all > 0 && !l.kind().permits && l.IsWritten()
}

// track sends a mirror that tracks the key, if the hold has lasted long enough now.
func (l *lock) track(k *work, now core.Now) {
	if k.tenure != l.Owner() || l.trackedFrom(k) > now.Time {
		return
	}
	if k.track(due); k.tracking == due {
		l.Confirm(now)
	}
}

// buildTracked reports whether the mirror that is being built is to track the key.
func (k *work) buildTracked(now core.Now) bool {
	switch l := k.lock; {
	case k.tracking == alarmed:
		k.track(verified)
		k.verifiedAt = now.Time
	case l.trackable() && (k.tracking == verified || l.lastsFrom() <= now.Time):
		k.track(tracked)
	default:
		k.track(untracked)
	}
	return k.tracking == tracked
}

// changed deals with a change of a tracked key that Redis has reported.
func (c *Client) changed(key string) {
	s := c.shardOfKey(key)
	s.visit(s.named(key), func(l *lock, now core.Now) {
		if t := l.Owner(); t != nil {
			if k := s.workOf(l, t); k.tracking == tracked {
				k.track(alarmed)
				l.Confirm(now)
			}
		}
	})
}
