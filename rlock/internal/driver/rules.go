package driver

import (
	"fmt"

	"github.com/go-rlock/rlock/internal/core"
)

// The rules of the driver, which tests assert each time before the mutex is given back: so a
// wake-up that is lost fails at once in place of hanging. Package core does nothing by itself: a
// due command has an agent, which polls it, and a later one has a timer.
//
//  1. A tenure with a command that is due is with the keeper, which was nudged, or a call is about to poll it,
//     or stands between its poll and its answer. A call that sleeps is no agent.
//  2. Only exit gives the mutex back where something may have changed, and no effect is left then.
//  3. A call that has the lock does not return before the losses are told that came earlier.
//  4. The place among the commands in flight comes before the poll, and each command has one answer.
//  5. The clocks are read after the mutex is taken.
//  6. Each time has a timer: that of a tenure is the keeper's or its call's, that of a call is its goroutine's.
//  7. No mutex of another package is held when that of a shard is taken, and no code of a user runs under it.

// checks is set by tests.
var checks func(*shard)

// checkRules panics if a rule is broken.
func checkRules(s *shard) {
	if s.core.Pending() {
		panic(fmt.Sprintf("rule 2: %d effects are left", len(s.core.Effects())))
	}
	for l := range s.all {
		l.checkTenures()
		l.checkCalls()
	}
}

// checkTenures asserts rules 1 and 6 for tenures.
func (l *lock) checkTenures() {
	for t := range l.Tenures {
		k, _ := t.Tag.(*work)
		if k == nil || k.tenure != t {
			panic(fmt.Sprintf("rule 1: %v is not known", l.state(t)))
		}
		if lingers := t.Want() == core.Kept; lingers != k.lingers {
			panic(fmt.Sprintf("%v is among those that linger: %v", l.state(t), k.lingers))
		}
		op, at := l.Peek(t, l.shard.at)
		caller, releases := t.Agent()
		switch {
		case releases, k.calling, t.InFlight() != core.None && op == core.None:
		case caller != nil:
			w := caller.Tag.(*waiter)
			if w.parked && !w.woken && !w.placeless && w.wakesAt > at {
				panic(fmt.Sprintf("rule 1: the call of %v sleeps until %v", l.state(t), w.wakesAt))
			}
		case op == core.Forget && at <= l.shard.at.Time && (k.alarm == 0 || k.alarm > l.shard.at.Time):
			panic(fmt.Sprintf("rule 1: %v is over", l.state(t)))
		default:
			if at = l.wakes(k, l.DueAt(t, l.shard.at)); at != core.Never && !k.nudged && !k.sends && (k.alarm == 0 || k.alarm > max(at, l.shard.at.Time)) {
				panic(fmt.Sprintf("rule 6: %v has an alarm at %v", l.state(t), k.alarm))
			}
		}
	}
}

// checkCalls asserts rule 6 for calls.
func (l *lock) checkCalls() {
	for one := range l.Waiters {
		w := one.Tag.(*waiter)
		if at := l.Lock.Due(one, l.shard.at); w.parked && !w.woken && w.wakesAt > max(at, l.shard.at.Time) {
			panic(fmt.Sprintf("rule 6: a call sleeps until %v and is due at %v", w.wakesAt, at))
		}
	}
}

// state describes a tenure.
func (l *lock) state(t *core.Tenure) string {
	op, at := l.Peek(t, l.shard.at)
	return fmt.Sprintf("the tenure %d (want %d, place %d, in flight %d, next %d at %v, now %v)", t.ID.N, t.Want(), t.Place(), t.InFlight(), op, at, l.shard.at.Time)
}

// check asserts the rules. A broken one gives the mutex back, so that the test fails and does not hang.
func (s *shard) check() {
	kept := false
	defer func() {
		if !kept {
			s.mu.Unlock()
		}
	}()
	checks(s)
	kept = true
}

// CheckRules makes clients assert the rules, or not. Tests call it while there is no client.
func CheckRules(on bool) {
	checks = nil
	if on {
		checks = checkRules
	}
}
