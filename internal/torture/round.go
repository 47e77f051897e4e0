package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/together"
	"github.com/go-rlock/rlock/internal/torture/plan"
	"github.com/go-rlock/rlock/internal/torture/report"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

const (
	// healLimit is how long a fault may take to heal, since another fault may affect its
	// server.
	healLimit = 2 * time.Minute
	// longest is the longest lease that a lock may have when no client holds it: that of a pass, or of a killed client.
	longest = 5 * time.Second
	// recoveryLimit is the time after which locks that do not work are taken for broken.
	recoveryLimit = 2 * time.Minute
)

// round injects the faults of the round, heals them all, and waits until no call waits any
// more. An error means that the act cannot go on.
func (a *act) round(ctx context.Context, r plan.Round) error {
	a.say("%s, round %d: %v", a.plan.Topology, r.Number, r)
	heals, err := a.breakAndHeal(ctx, r)
	if err != nil {
		return err
	}
	if err := a.stage.Ready(); err != nil {
		return fmt.Errorf("the servers do not come to order after %v: %w", r, err)
	}
	// Commands that were sent to a stopped server may have been executed just now.
	for _, s := range r.Steps {
		if err := s.Fault.Heal(a.stage); err != nil {
			return fmt.Errorf("%v cannot be healed again: %w", s.Fault, err)
		}
	}
	for _, heal := range heals {
		heal()
	}
	a.findFailover(slices.ContainsFunc(r.Steps, func(s plan.Step) bool {
		return s.Kind.Forgets || s.Kind.Name == "cluster-failover"
	}))
	a.recover(r)
	if err := a.settle(r); err != nil {
		return err
	}
	a.findFailover(false)
	return nil
}

// breakAndHeal injects and heals each step at its time. It returns the functions to call when
// the servers are in order, which for a failover is later.
func (a *act) breakAndHeal(ctx context.Context, r plan.Round) (inOrder []func(), err error) {
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	broken := make(map[int]func()) // by step, notes that it is healed
	heal := func(i int) error {
		err := r.Steps[i].Fault.Heal(a.stage)
		if noted := broken[i]; err == nil && noted != nil {
			delete(broken, i)
			if r.Steps[i].Kind.Forgets {
				inOrder = append(inOrder, noted)
			} else {
				noted()
			}
		}
		return err
	}
	for i, s := range r.Steps {
		events = append(events,
			event{s.From, func() {
				if ctx.Err() != nil {
					return
				}
				healed := a.inject(s)
				if s.Kind.Once {
					healed()
				}
				broken[i] = healed
			}},
			// Steps that another fault keeps from healing are healed at the end.
			event{s.To, func() { _ = heal(i) }})
	}
	slices.SortStableFunc(events, func(x, y event) int { return cmp.Compare(x.at, y.at) })
	began := time.Now()
	for _, e := range events {
		select {
		case <-time.After(time.Until(began.Add(e.at))):
		case <-ctx.Done(): // injected faults are healed
		}
		e.do()
	}
	for deadline := time.Now().Add(healLimit); len(broken) > 0; time.Sleep(50 * time.Millisecond) {
		for _, i := range slices.Sorted(maps.Keys(broken)) {
			if err := heal(i); err != nil && time.Now().After(deadline) {
				return inOrder, fmt.Errorf("%v cannot be healed: %w", r.Steps[i].Fault, err)
			}
		}
	}
	return inOrder, nil
}

// inject injects a step, counts it, and returns the function that notes that it is healed.
func (a *act) inject(s plan.Step) (healed func()) {
	healed = a.recorder.Inject(a.fact(s))
	count := a.report.Faults[s.Kind.Name]
	if err := s.Fault.Inject(a.stage); err != nil {
		a.say("missed: %v: %v", s.Fault, err)
		count.Missed++
	} else {
		count.Injected++
	}
	a.report.Faults[s.Kind.Name] = count
	return healed
}

// fact is the record of a step in the history.
func (a *act) fact(s plan.Step) history.Fault {
	f := history.Fault{What: s.Fault.String(), Kind: s.Kind.Name, Forgets: s.Kind.Forgets, Name: s.Fault.Lock}
	if of := s.Fault.Worker; of >= 0 {
		f.Victim = workerName(of, a.stage.Workers[of].Lives()-1)
	}
	return f
}

// findFailover notes that a replica has taken over since the last look though no fault asked
// for it: on a very busy machine a primary is taken for dead.
func (a *act) findFailover(planned bool) {
	reigns, since := a.stage.Reigns(), a.looked
	a.looked = history.Now()
	if same := slices.Equal(reigns, a.reigns); planned || same || a.reigns == nil {
		a.reigns = reigns
		return
	}
	a.reigns = reigns
	a.say("a failover that the run did not cause")
	a.recorder.Happened(history.Fault{What: "a failover that the run did not cause", Forgets: true}, since)
}

// recover measures how soon locks work again.
func (a *act) recover(r plan.Round) {
	ctx, cancel := context.WithTimeout(context.Background(), recoveryLimit)
	defer cancel()
	took, err := a.probe.Since(ctx, time.Now())
	if err != nil {
		a.report.Violate("round %d: no lock works again %v after %v", r.Number, recoveryLimit, r)
		return
	}
	a.report.Recoveries = append(a.report.Recoveries, report.Recovery{After: r.String(), Recovery: took})
}

// settle lets the waiting calls of all workers come to rest, and then go on.
func (a *act) settle(r plan.Round) error {
	answers, err := stage.AskAll[together.Settled](a.stage, "settle")
	if err != nil {
		return err
	}
	for _, s := range answers {
		a.report.Most = max(a.report.Most, s.Most)
		for _, hung := range s.Hung {
			a.report.Violate("round %d: after %v: it does not return: %s", r.Number, r, hung)
		}
		for _, problem := range s.Problems {
			a.report.Violate("round %d: after %v: %s", r.Number, r, problem)
		}
	}
	if err := a.endless(r); err != nil {
		return err
	}
	_, err = stage.AskAll[worker.Done](a.stage, "storm")
	return err
}

// endless looks for keys of locks that no client holds and that do not expire. Those of
// killed workers do.
func (a *act) endless(r plan.Round) error {
	keys, err := a.stage.Keys()
	for deadline := time.Now().Add(healLimit); err != nil && time.Now().Before(deadline); {
		keys, err = a.stage.Keys() // a busy server
	}
	if err != nil {
		return err
	}
	for key, left := range keys {
		if together.Stays(key) || stage.IsQueue(key, left) {
			continue // no token is given twice: its counter stays
		}
		if left < 0 || together.OfLock(key) && left > max(a.lease, longest).Milliseconds() {
			a.report.Violate("round %d: after %v: %s ends in %d ms, and has no holder", r.Number, r, key, left)
		}
	}
	return nil
}
