package driver

import (
	"slices"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// after is what exit does once it has given the mutex back, in this order.
type after struct {
	endings []*ending // holds that ended by loss or by Close: their contexts end, and they are told
	leaving []*until  // of calls that wait for an answer, and have an outcome now
	granted *waiter   // a call that has the lock now, and need not contend for the mutex
	others  []*waiter // more of these
}

// finish does the rest of the work after the mutex was given back.
func (c *Client) finish(a *after) {
	c.witness.outside("the effects of an event")
	for _, e := range a.endings {
		e.tell()
	}
	for _, u := range a.leaving {
		u.end()
	}
	if a.granted != nil {
		a.granted.served()
	}
	for _, w := range a.others {
		w.served()
	}
}

// applyAll applies the effects of package core until there are none. The mutex is held.
func (s *shard) applyAll() {
	for len(s.core.Effects) > 0 {
		effects := s.core.TakeEffects(s.at)
		for i := range effects { // which may bring about more
			s.apply(&effects[i])
		}
		clear(effects)
	}
}

func (s *shard) apply(e *core.Effect) {
	l := e.Lock.Tag.(*lock)
	switch e.Kind {
	case core.Wake:
		s.woken(l, e.Call.Tag.(*waiter))
	case core.Poll:
		if e.Tenure != nil {
			k := s.workOf(l, e.Tenure)
			if e.Call == nil {
				s.keep(k, e.At)
				return
			}
		}
		e.Call.Tag.(*waiter).wake()
	case core.Ended:
		if k, _ := e.Tenure.Tag.(*work); k != nil && k.tenure != nil {
			s.over(k)
		}
	case core.Lose:
		s.lost(l, e.Tenure, e.Lost, e.Cause)
	case core.Subscribe:
		l.subscribe()
	case core.Unsubscribe:
		l.unsubscribe()
	case core.ListenAbroad:
		l.listenAbroad()
	case core.IgnoreAbroad:
		if l.sub != nil {
			l.sub.home()
		}
	default:
		panic("driver: an effect " + e.Kind.String())
	}
}

// woken wakes a call that has an outcome now.
func (s *shard) woken(l *lock, w *waiter) {
	if w.waits {
		s.counts.Waiting--
	}
	if len(s.audiences) > 0 {
		l.leavesLine(w)
	}
	if w.Outcome == core.Unanswered && s.fault != nil {
		w.err = s.fault
	}
	granted := w.Outcome == core.Acquired
	if granted {
		w.earlier = l.granted(&w.Call, &w.req, w.hold)
		w.waited = time.Duration(s.at.Time.Since(w.Began()))
		s.counts.Waited += w.waited
		if w.telling {
			s.grantedWhileTold(l.name, w)
		}
	}
	switch {
	case w.stage == flying && w.until == nil: // it does not leave
	case w.stage == flying:
		s.after.leaving = append(s.after.leaving, w.until)
		w.until = nil // no other command may have it
	case w.stage == running: // it looks for itself
	case !granted:
		w.wake()
	case s.after.granted == nil:
		w.stage, s.after.granted = serving, w
	default:
		w.stage, s.after.others = serving, append(s.after.others, w)
	}
}

// granted notes that a call has the lock now. It returns the losses that came before.
func (l *lock) granted(w *core.Call, req *Request, h *hold) earlierLosses {
	s := l.shard
	req.Way = ways[w.Way]
	s.counts.Opened(req.Way)
	s.client.HoldBegins()
	if h != nil {
		h.begins(w.Token, s.at)
	}
	switch w.Way {
	case core.ByRedis, core.ByQueue, core.ByPass:
		s.client.hearOfTenures()
	case core.ByNesting, core.ByHandoff, core.ByJoining: // in a tenure that is known
	default:
		panic("driver: a lock is acquired " + w.Way.String())
	}
	return earlierLosses{slices.Clone(s.unreported[l]), s.losses}
}

var ways = [...]terms.Way{
	core.ByRedis:   terms.ByRedis,
	core.ByQueue:   terms.ByQueue,
	core.ByNesting: terms.ByNesting,
	core.ByHandoff: terms.ByHandoff,
	core.ByJoining: terms.ByJoining,
	core.ByPass:    terms.ByPass,
}
