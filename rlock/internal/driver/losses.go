package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The causes of a loss, beside [ErrLeaseEnded].
var (
	ErrGone   = errors.New("its key is gone, or another's")
	ErrForced = errors.New("it was unlocked by force")
)

// leaseEndedAt is the cause of a loss by a lease that ended.
func leaseEndedAt(at time.Time) error {
	return fmt.Errorf("%w at %s", terms.ErrLeaseEnded, at.Format(time.TimeOnly))
}

// lossReasonOf returns the reason of a loss; kept says whether the watchdog kept the level.
func lossReasonOf(why error, kept bool) terms.LossReason {
	switch {
	case errors.Is(why, ErrGone):
		return terms.LostKeyGone
	case errors.Is(why, ErrForced):
		return terms.LostForced
	case errors.Is(why, terms.ErrHeldTooLong):
		return terms.LostHeldTooLong
	case errors.Is(why, terms.ErrLeaseEnded) && !kept:
		return terms.LostLeaseEnded
	}
	return terms.LostUnrenewed
}

// lostError is the error of an owner that has lost the lock.
func (n *Name) lostError(o terms.Owner, why error) error {
	return fmt.Errorf("rlock: lock %q of %s: %w: %w", n.Key, o.Title(), terms.ErrLost, why)
}

// closedError is the error of an owner whose lock was released by Close.
func (n *Name) closedError(o terms.Owner) error {
	return fmt.Errorf("rlock: lock %q of %s: %w", n.Key, o.Title(), wire.ErrClosed)
}

// lossKey is what the losses know the owner by.
func (n *Name) lossKey(o terms.Owner) terms.LossKey {
	return terms.LossKey{Kind: uint8(n.KindID), Name: n.Key, Owner: o}
}

// An ending is a report about levels that ended by loss or by Close. It is reported outside of the
// mutex, and before a later call for the lock returns.
type ending struct {
	lock     *lock
	levels   []core.Level
	at       core.Now
	why      error // nil: by Close
	severity slog.Level
	number   uint64 // among those of the shard
	reported chan struct{}
}

// earlierLosses are those of a lock that come before a grant: they are reported before the call returns.
type earlierLosses struct {
	unreported []*ending
	last       uint64 // the number of the last one
}

// lost notes that levels have ended.
func (s *shard) lost(l *lock, t *core.Tenure, levels []core.Level, cause core.Cause) {
	s.losses++
	e := &ending{lock: l, levels: levels, at: s.at, severity: slog.LevelDebug, number: s.losses, reported: make(chan struct{})}
	if cause == core.ByClose {
		for i := range levels {
			s.counts.Closed(levels[i].First)
			if h, ok := levels[i].Handle.(*hold); ok {
				h.lost = l.name.closedError(ownerOf(&levels[i]))
			}
		}
	} else {
		e.why = s.causeOf(t, levels, cause)
		for i := range levels {
			if severity := s.remember(l, &levels[i], e); severity > e.severity {
				e.severity = severity
			}
		}
	}
	if s.unreported == nil {
		s.unreported = make(map[*lock][]*ending)
	}
	s.unreported[l] = append(s.unreported[l], e)
	s.after.endings = append(s.after.endings, e)
}

func ownerOf(v *core.Level) terms.Owner { return terms.Owner{ID: uint64(v.Owner), Guest: v.Guest} }

// causeOf returns the error that says why the levels are lost.
func (s *shard) causeOf(t *core.Tenure, levels []core.Level, cause core.Cause) error {
	now := s.client.clock.time(s.at.Time)
	//exhaustive:ignore
	switch cause {
	case core.KeyGone:
		return ErrGone
	case core.ByForce:
		return ErrForced
	case core.TooLong:
		return fmt.Errorf("%w, at %s", terms.ErrHeldTooLong, now.Format(time.TimeOnly))
	case core.LeaseEnded:
		until := core.SafeTime(0)
		for i := range levels {
			until = max(until, levels[i].Until)
		}
		return leaseEndedAt(s.client.clock.safe(until))
	case core.Unrenewed:
		return s.causeOfSilence(t)
	default:
		panic("driver: a lock is lost " + cause.String())
	}
}

// causeOfSilence returns the error of a lock that Redis has not confirmed in time.
func (s *shard) causeOfSilence(t *core.Tenure) error {
	now := s.client.clock.time(s.at.Time)
	switch k, ok := t.Tag.(*work); {
	case ok && k.err != nil:
		return fmt.Errorf("it could not be renewed: %w", k.err)
	case ok && (k.sender == nudged || k.sender == keeperSends || t.InFlight() == core.Mirror):
		return fmt.Errorf("it was not confirmed by %s", now.Format(time.TimeOnly))
	}
	return leaseEndedAt(now)
}

// isKept reports whether the watchdog keeps the level.
func isKept(v *core.Level) bool { return v.Until == core.NeverSafe || v.Capped }

// remember notes the loss of one level for its owner, and returns how bad that is.
func (s *shard) remember(l *lock, v *core.Level, e *ending) (severity slog.Level) {
	kept := isKept(v)
	s.counts.lostOne(v.First, lossReasonOf(e.why, kept))
	o := ownerOf(v)
	cause := l.name.lostError(o, e.why)
	lost := terms.LostLevel{Shared: v.Mode == core.Shared}
	if !kept {
		lost.Until = s.client.clock.safe(v.Until)
	}
	severity = slog.LevelWarn
	if !kept && errors.Is(e.why, terms.ErrLeaseEnded) { // as asked for
		lost.Until = s.client.clock.time(e.at.Time) // a little before its time, as every lease that is trusted
		severity = slog.LevelDebug
	}
	h, _ := v.Handle.(*hold)
	if h != nil {
		h.lost = cause
	}
	if h == nil || !o.OfHandle() && !h.isPart() {
		s.client.Losses.Add(l.name.lossKey(o), lost, cause)
	}
	return severity
}

// tell tells the holders, the Observer and the log. It is called once, without the mutex.
func (e *ending) tell() {
	c, n := e.lock.shard.client, e.lock.name
	if invariants {
		c.witness.outside("the report of a loss")
	}
	for i := range e.levels {
		if h, ok := e.levels[i].Handle.(*hold); ok {
			h.lose(h.lost) // the very error that Release returns: a function under Do may return it, too
		}
	}
	e.observe()
	if !c.Closed.Load() {
		first := ownerOf(&e.levels[0])
		c.Config.Logger.Log(context.Background(), e.severity, "rlock: lock lost",
			"lock", n.Key, "owner", first, "cause", n.lostError(first, e.why))
	}
	e.lock.shard.take()
	s := e.lock.shard
	s.unreported[e.lock] = slices.DeleteFunc(s.unreported[e.lock], func(o *ending) bool { return o == e })
	if len(s.unreported[e.lock]) == 0 {
		delete(s.unreported, e.lock)
		s.reported(e.lock)
	}
	close(e.reported)
	s.exit(e.lock)
}

// causeFor is the error of an owner whose level has ended.
func (e *ending) causeFor(o terms.Owner) error {
	if e.why == nil {
		return e.lock.name.closedError(o)
	}
	return e.lock.name.lostError(o, e.why)
}

// observe tells the Observer. Lost hooks run in the goroutine of the notices, so that the keeper does not wait for code of
// the user; a level that Close has released is reported by Close.
func (e *ending) observe() {
	c, n := e.lock.shard.client, e.lock.name
	if !c.Observer.On() {
		return
	}
	for i := range e.levels {
		v := &e.levels[i]
		h, _ := v.Handle.(*hold)
		if v.Way == core.ByNesting || v.Part {
			continue
		}
		ctx := context.Background()
		if h != nil {
			ctx = context.WithoutCancel(h.Context())
		}
		if e.why == nil {
			c.Observer.Released.Tell(ctx, c.closedLevel(n, v, e.at, e.causeFor(ownerOf(v))))
			continue
		}
		lost := c.closedLevel(n, v, e.at, e.causeFor(ownerOf(v)))
		lost.Reason = lossReasonOf(e.why, isKept(v))
		c.Observer.Later(ctx, c.Observer.Lost, lost)
	}
}

// reported nudges the keeper for the tenures of the lock that were held back.
func (s *shard) reported(l *lock) {
	for t := range l.Tenures {
		if k, _ := t.Tag.(*work); k != nil && k.tenure == t && k.sender == nudged {
			s.client.keeper.Nudge(k)
		}
	}
}
