package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/together"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/internal/torture/worker"
)

const (
	// leftoverLimit is how long something may outlive its use: the lease of a killed worker, and more.
	leftoverLimit = 20 * time.Second
	// spareGoroutines is how many more goroutines a process may have at rest than after it has connected, for each node: those
	// of the connections of its clients for commands and for messages.
	spareGoroutines = 100
)

// close takes the measurements that need an idle machine, ends the workers, and looks for
// leftovers.
func (a *act) close() error {
	a.say("at rest")
	if _, err := stage.AskAll[together.Settled](a.stage, "settle"); err != nil {
		return err
	}
	if err := a.probe.Close(); err != nil {
		a.report.Violate("the client of the probe, closed while nothing is broken: %v", err)
	}
	a.nothingLeft("keys", a.keys)
	a.nothingLeft("goroutines at rest", a.goroutines)

	ends, err := stage.AskAll[worker.Ended](a.stage, "end")
	if err != nil {
		return err
	}
	for i, e := range ends {
		for _, problem := range e.Problems {
			a.report.Violate("worker %d, closed while nothing is broken: %s", i, problem)
		}
	}
	a.nothingLeft("subscriptions", a.subscriptions) // of a client that lives some stay for a minute: see package pubsub
	a.findFailover(false)
	for _, w := range a.stage.Workers {
		a.report.Deaths += w.Lives() - 1
	}
	return nil
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
	a.report.Violate("%s left behind: %s", what, strings.Join(found, ", "))
}

// keys are those of locks.
func (a *act) keys() (list []string, err error) {
	keys, err := a.stage.Keys()
	for key, left := range keys {
		if together.Stays(key) || left >= 0 && !together.OfLock(key) || a.died() && stage.IsQueue(key, left) {
			continue
		}
		list = append(list, fmt.Sprintf("%s (%d ms left)", key, left))
	}
	return list, err
}

// subscriptions lists the channels of locks that have subscribers, with the subscribers. Each
// client has a channel of its own besides.
func (a *act) subscriptions() ([]string, error) {
	channels, err := a.stage.Channels()
	channels = slices.DeleteFunc(channels, func(name string) bool { return strings.HasPrefix(name, "rlock_grants:client:") })
	if err != nil || len(channels) == 0 {
		return nil, err
	}
	return append(channels, a.stage.Listeners()...), nil
}

// died reports whether a worker was killed.
func (a *act) died() bool {
	return slices.ContainsFunc(a.stage.Workers, func(w *stage.Worker) bool { return w.Lives() > 1 })
}

// goroutines lists those of idle clients, beyond the usual number.
func (a *act) goroutines() (list []string, err error) {
	answers, err := stage.AskAll[worker.Idle](a.stage, "idle")
	for i, idle := range answers {
		usual := idle.AtFirst + spareGoroutines*a.stage.Nodes()
		if idle.Goroutines > usual {
			list = append(list, fmt.Sprintf("worker %d has %d, and had %d at first", i, idle.Goroutines, idle.AtFirst))
		}
	}
	return list, err
}
