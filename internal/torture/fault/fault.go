package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

// A Fault is one that was chosen, with its figures.
type Fault struct {
	text   string
	Worker int    // the one that it stops, -1 for none
	Lock   string // the only one that it concerns, "" for none

	inject, heal func(s *stage.Stage) error
}

// makeFault returns a fault of no worker and no lock.
func makeFault(text string, inject, heal func(*stage.Stage) error) *Fault {
	return &Fault{text: text, Worker: -1, inject: inject, heal: heal}
}

// String describes it, with its figures.
func (f *Fault) String() string { return f.text }

// Inject breaks it. It may fail if another fault is in the way.
func (f *Fault) Inject(s *stage.Stage) error { return f.inject(s) }

// Heal undoes Inject. It may be called again until it returns nil.
func (f *Fault) Heal(s *stage.Stage) error { return f.heal(s) }

// A Kind is a way to break something.
type Kind struct {
	Name string
	// Forgets is true if Redis may forget a lock that it has granted.
	Forgets bool
	// Once is true if it is over when it has been injected.
	Once bool
	// Where lists the topologies that it is for.
	Where []stage.Topology
	// Choose makes a fault. All its figures come from random.
	Choose func(random *rand.Rand, scene Scene) *Fault
}

// A Scene is the data from which a fault chooses.
type Scene struct {
	Workers int
	Names   []string      // of the locks
	Lease   time.Duration // of the clients
}

func (s Scene) name(random *rand.Rand) string { return s.Names[random.IntN(len(s.Names))] }

var (
	everywhere = stage.Topologies()
	single     = []stage.Topology{stage.Standalone, stage.AOF}
	apart      = []stage.Topology{stage.Independent}
	sentinel   = []stage.Topology{stage.Sentinel}
	cluster    = []stage.Topology{stage.Cluster}
	replicated = []stage.Topology{stage.Sentinel, stage.Cluster}
)

// All returns every kind, in an order that does not change.
func All() []Kind {
	return slices.Concat(ofWorkers(), ofServers(), ofConnections(), ofData(), ofLimits(), ofTopologies())
}

// For returns the kinds of a topology; of those named, if any are.
func For(topology stage.Topology, names ...string) []Kind {
	return slices.DeleteFunc(All(), func(k Kind) bool {
		return !slices.Contains(k.Where, topology) || len(names) > 0 && !slices.Contains(names, k.Name)
	})
}

// Parse returns the names in a comma-separated list, or an error for an unknown one.
func Parse(list string) (names []string, err error) {
	if list == "" {
		return nil, nil
	}
	all := All()
	for name := range strings.SplitSeq(list, ",") {
		if !slices.ContainsFunc(all, func(k Kind) bool { return k.Name == name }) {
			return nil, fmt.Errorf("fault: none is called %q: there are %s", name, Names())
		}
		names = append(names, name)
	}
	return names, nil
}

// Names returns the names of all kinds, with commas.
func Names() string {
	var list []string
	for _, k := range All() {
		if !slices.Contains(list, k.Name) {
			list = append(list, k.Name)
		}
	}
	return strings.Join(list, ",")
}

// A loop repeats something until it is stopped.
type loop struct {
	stop chan struct{}
	done chan struct{}
}

// every calls do at random times, about once in each interval, until end.
func every(interval time.Duration, do func()) *loop {
	l := &loop{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(l.done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			do()
			select {
			case <-ticker.C:
			case <-l.stop:
				return
			}
		}
	}()
	return l
}

// repeated returns a fault that does something about once in each interval until it is healed.
func repeated(text string, interval time.Duration, do func(*stage.Stage)) *Fault {
	var l *loop
	return makeFault(text, func(s *stage.Stage) error {
		l = every(interval, func() { do(s) })
		return nil
	}, func(*stage.Stage) error {
		l.end()
		return nil
	})
}

// nothing heals a fault that is over by itself.
func nothing(*stage.Stage) error { return nil }

// end stops the loop, and returns when it has stopped. It does nothing to a loop that has not
// begun.
func (l *loop) end() {
	if l == nil {
		return
	}
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
}
