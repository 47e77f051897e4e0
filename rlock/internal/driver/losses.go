package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The causes of a loss, beside those of package contract.
var (
	errGone   = errors.New("its key is gone, or another's")
	errForced = errors.New("it was unlocked by force")
)

// lostError returns the error of an owner that lost the lock.
func (n *Name) lostError(o contract.Owner, why error) error {
	return fmt.Errorf("rlock: lock %q of %s: %w: %w", n.Key, o.Title(), contract.ErrLost, why)
}

// lossKey returns the key of the owner in Losses.
func (n *Name) lossKey(o contract.Owner) contract.LossKey {
	return contract.LossKey{Kind: uint8(n.KindID), Name: n.Key, Owner: o}
}

// An ending is a report about levels that ended by loss or by Close. It is reported without a
// mutex, and before a later call for the lock returns.
type ending struct {
	lock     *lockState
	levels   []endedLevel
	at       core.Now
	why      error // the cause of the loss; nil for Close
	severity slog.Level
	number   uint64 // the number of the ending in its shard
	reported chan struct{}
}

// An endedLevel is a level that has ended.
type endedLevel struct {
	core.Level
	hold   *hold               // the handle of the level, or nil
	cause  error               // the error that its owner gets
	reason contract.LossReason // the reason of a loss
}

// earlierLosses are the losses of a lock before a grant. They are reported before the call that was
// granted the lock returns.
type earlierLosses struct {
	unreported []*ending
	last       uint64 // the number of the last one
}

// noteLost notes that levels have ended, for their handles and for owners that come back by name.
//
// REQUIRES: shard.mu.
func (s *shard) noteLost(l *lockState, t *core.Tenure, levels []core.Level, cause core.Cause) {
	c, n := s.client, l.name
	s.losses++
	e := &ending{lock: l, levels: make([]endedLevel, len(levels)), at: s.at, severity: slog.LevelDebug, number: s.losses, reported: make(chan struct{})}
	reason := contract.LostUnrenewed
	if cause != core.ByClose {
		reason, e.why = s.causeOf(t, levels, cause)
	}
	for i := range levels {
		v := &e.levels[i]
		v.Level = levels[i]
		v.hold, _ = v.Handle.(*hold)
		h, o := v.hold, levelOwner(&v.Level)
		if s.counts.CountClosed(v.First); e.why == nil {
			v.cause = fmt.Errorf("rlock: lock %q of %s: %w", n.Key, o.Title(), wire.ErrClosed)
		} else {
			v.cause, v.reason = n.lostError(o, e.why), reason
			lost := contract.LostLevel{Shared: v.Mode == core.Shared}
			if v.Until != core.NeverSafe && !v.Capped {
				lost.Until = c.clock.timeOfSafe(v.Until)
			} else if v.reason == contract.LostLeaseEnded { // another owner's lease has ended; the watchdog renewed this level
				v.reason = contract.LostUnrenewed
			}
			if v.reason != contract.LostLeaseEnded {
				e.severity = slog.LevelWarn
			} else { // the holder asked for this end, but each lease that is trusted ends a little early
				lost.Until = c.clock.timeOf(s.at.Time)
			}
			if v.First {
				s.counts.Lost[v.reason]++
			}
			if h == nil || !o.OfHandle() && !h.isPart() {
				c.Losses.Add(n.lossKey(o), lost, v.cause)
			}
		}
		if h != nil {
			h.lost = v.cause
		}
	}
	if s.unreported == nil {
		s.unreported = make(map[*lockState][]*ending)
	}
	s.unreported[l] = append(s.unreported[l], e)
	s.deferred.endings = append(s.deferred.endings, e)
}

func levelOwner(v *core.Level) contract.Owner {
	return contract.Owner{ID: uint64(v.Owner), Guest: v.Guest}
}

// causeOf returns the cause of the loss of the levels, with the reason that the Observer is told.
//
// REQUIRES: shard.mu.
func (s *shard) causeOf(t *core.Tenure, levels []core.Level, cause core.Cause) (contract.LossReason, error) {
	now := s.client.clock.timeOf(s.at.Time)
	//exhaustive:ignore
	switch cause {
	case core.KeyGone:
		return contract.LostKeyGone, errGone
	case core.ByTakeover:
		return contract.LostForced, contract.ErrTakenOver
	case core.ByForce:
		return contract.LostForced, errForced
	case core.TooLong:
		return contract.LostHeldTooLong, fmt.Errorf("%w, at %s", contract.ErrHeldTooLong, now.Format(time.TimeOnly))
	case core.LeaseEnded:
		until := core.SafeTime(0)
		for i := range levels {
			until = max(until, levels[i].Until)
		}
		now = s.client.clock.timeOfSafe(until)
	case core.Unrenewed:
		switch k, ok := t.Tag.(*work); {
		case ok && k.err != nil:
			return contract.LostUnrenewed, fmt.Errorf("it could not be renewed: %w", k.err)
		case ok && (k.state == nudged || k.state == batched || t.OpInFlight() == core.Mirror):
			return contract.LostUnrenewed, fmt.Errorf("it was not confirmed by %s", now.Format(time.TimeOnly))
		}
	default:
		panic("driver: a lock is lost " + cause.String())
	}
	return contract.LostLeaseEnded, fmt.Errorf("%w at %s", contract.ErrLeaseEnded, now.Format(time.TimeOnly))
}

// report reports the ending to the holders, the Observer and the log. It is called once, without a
// mutex. The hooks run in the goroutines of the notices, so that neither the keeper nor Close waits
// for code of the user.
func (e *ending) report() {
	l, s, c := e.lock, e.lock.shard, e.lock.shard.client
	if invariants {
		c.witness.outside("the report of a loss")
	}
	for i := range e.levels {
		if v := &e.levels[i]; v.hold != nil {
			v.hold.End(v.cause) // the same error as Release returns: a function under Do may return it as well
			if v.hold.ended != nil {
				v.hold.ended(v.cause)
			}
		}
	}
	for i := range e.levels {
		v := &e.levels[i]
		if !c.Observer.On() || v.Way == core.ByNesting || v.Part {
			continue
		}
		ctx := context.Background()
		if v.hold != nil {
			ctx = context.WithoutCancel(v.hold.Context())
		}
		event := c.closedLevel(l.name, &v.Level, e.at, v.cause)
		if e.why == nil {
			c.Observer.atClose(ctx, c.Observer.Released, event)
		} else {
			event.Reason = v.reason
			c.Observer.Later(ctx, c.Observer.Lost, event)
		}
	}
	if !c.Closed.Load() {
		c.Config.Logger.Log(context.Background(), e.severity, "rlock: lock lost",
			"lock", l.name.Key, "owner", levelOwner(&e.levels[0].Level), "cause", e.levels[0].cause)
	}
	s.lock()
	s.unreported[l] = slices.DeleteFunc(s.unreported[l], func(o *ending) bool { return o == e })
	if len(s.unreported[l]) == 0 {
		delete(s.unreported, l)
		for t := range l.Tenures { // the keeper has held back the commands of these tenures
			if k, _ := t.Tag.(*work); k != nil && k.tenure == t && k.state == nudged {
				c.keeper.Nudge(k)
			}
		}
	}
	close(e.reported)
	s.exit(l)
}
