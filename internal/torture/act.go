package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/checker"
	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/programs"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

const (
	// answerLimit is how long a worker may take to answer: longer than it waits for calls that
	// hang, and for the goroutines of its clients to end.
	answerLimit = 4 * time.Minute
	// healLimit is how long a fault may take to heal, since another fault may affect its server.
	healLimit = 2 * time.Minute
	// leftoverLimit is how long something may outlive its use: the lease of a killed worker, and
	// more.
	leftoverLimit = 20 * time.Second
	// longestLease is the longest lease of a lock that no client holds: of a pass, or of a killed
	// client.
	longestLease = 5 * time.Second
	// lateLoss is how late a loss may be reported, beyond the time in which the worker could not
	// run: several goroutines report it, one after the other.
	lateLoss = time.Second
	// lateNote is how late the end of a hold's context may be noted, beyond that time. What the holder
	// sees when it looks is judged without it.
	lateNote = 20 * time.Millisecond
	// spareGoroutines is the number of goroutines, for each node, that a process at rest may have
	// beyond those after it connected: for the connections of its clients for commands and for
	// messages.
	spareGoroutines = 100
)

// An act is the time in which one server is up: rounds of faults, then, without faults, a look for
// things that were left behind, and the check of the history.
type act struct {
	options
	number int
	run    *report
	until  time.Time // the time after which no round begins
	first  int       // round
	plan   plan
	figures

	dir      string // for all files of the act
	history  string // below it: a file for each life of a worker, and one for the faults
	stage    *stage.Stage
	recorder *history.Recorder
	reigns   []string     // of the primaries, at the last look
	looked   history.Time // the time of the last look
}

// play runs the act. An error means that it could not begin, or could not be checked.
func (a *act) play(ctx context.Context) (err error) {
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	a.dir = filepath.Join(a.out, fmt.Sprintf("act-%d", a.number))
	a.history = filepath.Join(a.dir, "history")
	if err := os.MkdirAll(a.history, 0o755); err != nil {
		return err
	}
	if a.recorder, err = history.Create(filepath.Join(a.history, "torture"), "torture"); err != nil {
		return err
	}
	if a.stage, err = stage.Open(a.topology, a.dir); err != nil {
		return err
	}
	a.say("%s is up", a.topology)
	if err := a.perform(ctx); err != nil {
		a.violate("it could not go on: %v", err)
	}
	a.stage.Close()
	if err := a.recorder.Close(); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	a.say("%d violations", len(a.violations))
	if len(a.violations) > 0 {
		a.historyKept = a.dir
		return nil
	}
	return os.RemoveAll(a.dir)
}

func (a *act) say(format string, args ...any) { say(a.run.when, format, args...) }

// perform runs the rounds. It returns an error if a worker has ended, or if servers do not come to
// order.
func (a *act) perform(ctx context.Context) error {
	for i := range a.processes {
		if err := a.stage.Hire(workerCommand(a.program(i)), answerLimit, func(life int) any {
			return job{
				Addresses: a.stage.Addresses(), Seed: a.seed + uint64(a.number), Worker: i, Life: life, Names: a.wide(i), Lease: a.lease,
				History: filepath.Join(a.history, job{Worker: i, Life: life}.name()),
			}
		}); err != nil {
			return err
		}
	}
	a.findFailover(false)
	for n := a.first; ctx.Err() == nil && (n == a.first || time.Now().Before(a.until)); n++ {
		if err := a.round(ctx, a.plan.round(n)); err != nil {
			return err
		}
		a.rounds++
		if len(a.violations) > 0 {
			break // the other rounds would fail in the same way
		}
	}
	return a.close()
}

// round injects the faults of the round, heals them all, and waits until no call waits any more. An
// error means that the act cannot go on.
func (a *act) round(ctx context.Context, r round) error {
	a.say("%s, round %d: %v", a.topology, r.number, r)
	heals, err := a.breakAndHeal(ctx, r)
	if err != nil {
		return err
	}
	if err := a.stage.Ready(); err != nil {
		return fmt.Errorf("the servers do not come to order after %v: %w", r, err)
	}
	// Commands that were sent to a stopped server may have been executed a moment ago.
	for _, s := range r.steps {
		if err := s.fault.Heal(a.stage); err != nil {
			return fmt.Errorf("%v cannot be healed again: %w", s.fault, err)
		}
	}
	for _, heal := range heals {
		heal()
	}
	a.findFailover(slices.ContainsFunc(r.steps, func(s step) bool { return s.kind.Forgets || s.kind.Name == "cluster-failover" }))
	answers, err := stage.AskAll[programs.Settled](a.stage, "settle")
	if err != nil {
		return err
	}
	for _, s := range answers {
		a.most = max(a.most, s.Most)
		for _, hung := range s.Hung {
			a.violate("round %d: after %v: it does not return: %s", r.number, r, hung)
		}
		for _, problem := range s.Problems {
			a.violate("round %d: after %v: %s", r.number, r, problem)
		}
	}
	if err := a.endless(r); err != nil {
		return err
	}
	if _, err = stage.AskAll[struct{}](a.stage, "storm"); err != nil {
		return err
	}
	a.findFailover(false)
	return nil
}

// breakAndHeal injects and heals each step at its time. It returns the functions to call when the
// servers are in order, which for a failover is later.
func (a *act) breakAndHeal(ctx context.Context, r round) (inOrder []func(), err error) {
	broken := make(map[int]func()) // by step, notes that it is healed
	heal := func(i int) error {
		err := r.steps[i].fault.Heal(a.stage)
		if noted := broken[i]; err == nil && noted != nil {
			delete(broken, i)
			if r.steps[i].kind.Forgets {
				inOrder = append(inOrder, noted)
			} else {
				noted()
			}
		}
		return err
	}
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for i, s := range r.steps {
		events = append(events,
			event{s.from, func() {
				if ctx.Err() == nil {
					broken[i] = a.inject(s)
				}
			}},
			event{s.to, func() { _ = heal(i) }}) // if another fault keeps it from healing, it is healed at the end
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
				return inOrder, fmt.Errorf("%v cannot be healed: %w", r.steps[i].fault, err)
			}
		}
	}
	return inOrder, nil
}

// inject injects a step, counts it, and returns the function that notes that it is healed.
func (a *act) inject(s step) (healed func()) {
	f := history.Fault{What: s.fault.String(), Kind: s.kind.Name, Forgets: s.kind.Forgets, Name: s.fault.Lock}
	if of := s.fault.Worker; of >= 0 {
		f.Victim = job{Worker: of, Life: a.stage.Workers[of].Lives() - 1}.name()
	}
	healed = a.recorder.Inject(f)
	n := a.run.faults[s.kind.Name]
	if err := s.fault.Inject(a.stage); err != nil {
		a.say("missed: %v: %v", s.fault, err)
		n.missed++
	} else {
		n.injected++
	}
	a.run.faults[s.kind.Name] = n
	if s.kind.Once {
		healed()
	}
	return healed
}

// findFailover notes that a replica has taken over since the last look though no fault asked for
// it: on a very busy machine a primary is taken for dead.
func (a *act) findFailover(planned bool) {
	reigns, before, since := a.stage.Reigns(), a.reigns, a.looked
	a.reigns, a.looked = reigns, history.Now()
	if planned || before == nil || slices.Equal(reigns, before) {
		return
	}
	a.say("a failover that the run did not cause")
	a.recorder.Happened(history.Fault{What: "a failover that the run did not cause", Forgets: true}, since, a.looked)
}

// endless looks for keys of locks that no client holds and that do not expire. The keys of killed
// workers do expire.
func (a *act) endless(r round) error {
	keys, err := a.stage.Keys()
	for deadline := time.Now().Add(healLimit); err != nil && time.Now().Before(deadline); {
		keys, err = a.stage.Keys() // a busy server
	}
	for key, left := range keys {
		if programs.Stays(key) || stage.IsQueue(key, left) {
			continue // the counter of tokens stays, so that no token is given twice
		}
		if left < 0 || programs.OfLock(key) && left > max(a.lease, longestLease).Milliseconds() {
			a.violate("round %d: after %v: %s ends in %d ms, and has no holder", r.number, r, key, left)
		}
	}
	return err
}

// close ends the workers, and looks for what they leave behind.
func (a *act) close() error {
	a.say("at rest")
	if _, err := stage.AskAll[programs.Settled](a.stage, "settle"); err != nil {
		return err
	}
	for _, w := range a.stage.Workers {
		a.deaths += w.Lives() - 1
	}
	a.nothingLeft("keys", func() (list []string, err error) {
		keys, err := a.stage.Keys()
		for key, left := range keys {
			if programs.Stays(key) || left >= 0 && !programs.OfLock(key) || a.deaths > 0 && stage.IsQueue(key, left) {
				continue
			}
			list = append(list, fmt.Sprintf("%s (%d ms left)", key, left))
		}
		return list, err
	})
	a.nothingLeft("goroutines at rest", func() (list []string, err error) {
		answers, err := stage.AskAll[idle](a.stage, "idle")
		for i, n := range answers {
			if n.Goroutines > n.AtFirst+spareGoroutines*a.stage.Nodes() {
				list = append(list, fmt.Sprintf("worker %d has %d, and had %d at first", i, n.Goroutines, n.AtFirst))
			}
		}
		return list, err
	})
	problems, err := stage.AskAll[[]string](a.stage, "end")
	for i, list := range problems {
		for _, problem := range list {
			a.violate("worker %d, closed while nothing is broken: %s", i, problem)
		}
	}
	if err == nil {
		a.nothingLeft("subscriptions", a.stage.Subscriptions) // some subscriptions of a living client stay for a minute: see package pubsub
		a.findFailover(false)
	}
	return err
}

// nothingLeft waits until list is empty.
func (a *act) nothingLeft(what string, find func() ([]string, error)) {
	var found []string
	var err error
	for deadline := time.Now().Add(leftoverLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if found, err = find(); err == nil && len(found) == 0 {
			return
		}
	}
	slices.Sort(found)
	if err != nil {
		found = append(found, err.Error())
	}
	a.violate("%s left behind: %s", what, strings.Join(found, ", "))
}

// check runs the checker over the history of all processes.
func (a *act) check() error {
	paths, err := filepath.Glob(filepath.Join(a.history, "*"))
	if err != nil {
		return err
	}
	events, err := history.ReadFiles(paths...)
	if err != nil {
		return err
	}
	a.say("checking %d events", len(events))
	checked := checker.Check(events, checker.Options{Late: lateLoss, Noted: lateNote})
	a.checked = checked
	for _, v := range checked.Violations {
		a.violate("%s of %q: %s", v.Rule, v.Name, v.What)
	}
	for _, v := range checked.Excused {
		if v.Rule == checker.Overlap {
			a.run.excused[v.Excuse] = append(a.run.excused[v.Excuse], v.Both)
		}
	}
	if len(checked.Violations) > 0 {
		return os.WriteFile(filepath.Join(a.dir, "checker.txt"), []byte(checked.String()), 0o644)
	}
	return nil
}
