package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/torture/stage"
	"github.com/go-rlock/rlock/rlock"
)

// Kinds are the names of all kinds of lock that workers can take.
var Kinds = []string{"plain", "fenced", "rw", "fair", "semaphore", "multi", red}

// A locker is embedded by a name that none of its methods has.
type locker = rlock.Lock

// A lock is the lock of a visit, of one kind or another.
type lock struct {
	*locker
	read  *rlock.Lock // the shared lock; nil if there is none
	kind  string
	names []string // its names in the history: each of them is taken with it
}

func (l lock) String() string { return fmt.Sprintf("%s %q", l.kind, l.names) }

// choose returns the lock of a random kind with that name.
func (h *hand) choose(name string) lock {
	client, kinds := h.worker.client, h.worker.Kinds
	kind := "plain"
	if len(kinds) > 0 {
		kind = kinds[h.random.IntN(len(kinds))]
		if kind == "multi" && !h.in(h.share.seldom) {
			kind = kinds[h.random.IntN(len(kinds))]
		}
	}
	l := lock{kind: kind, names: []string{name}}
	switch kind {
	case "fenced":
		l.locker = client.NewFencedLock(name)
	case "rw":
		l.names = []string{readWrite(name)}
		both := client.NewReadWriteLock(readWrite(name))
		l.locker, l.read = both.Write(), both.Read()
	case "fair":
		l.locker = client.NewFairLock(name)
	case "semaphore": // of one permit, so that the checker's rules for a lock apply
		l.names = []string{semaphore(name)}
		l.locker = client.NewSemaphore(semaphore(name), 1)
	case red:
		l.locker = rlock.NewRedLock(h.worker.clients, name)
	case "multi":
		names, size := h.share.names, few
		if h.in(20) {
			size = h.share.parts
		}
		first := slices.Index(names, name)
		var parts []*rlock.Lock
		l.names = nil
		for i := range min(size, len(names)) {
			part := names[(first+i)%len(names)]
			l.names = append(l.names, part)
			parts = append(parts, client.NewLock(part))
		}
		l.locker = rlock.NewMultiLock(parts...)
	default:
		l.locker = client.NewLock(name)
	}
	return l
}

// choose returns the lock for a level, inside of another or of none, and whether it is
// shared. A reader cannot write before it has released the lock.
func (l lock) choose(v *visit, outer *level) (part *rlock.Lock, shared bool) {
	if l.read == nil {
		return l.locker, false
	}
	if outer != nil && (outer.op.Shared || outer.given) || v.in(2) {
		return l.read, true
	}
	return l.locker, false
}

// Names returns the names in Redis of the locks with these kinds and names.
func Names(kinds, names []string) (all []string) {
	for _, name := range names {
		for _, of := range kinds {
			called := name
			switch of {
			case "rw":
				called = readWrite(name)
			case "semaphore":
				called = semaphore(name)
			}
			if !slices.Contains(all, called) {
				all = append(all, called)
			}
		}
	}
	return all
}

// semaphore is the name of a semaphore, likewise.
func semaphore(name string) string { return name + ":sem" }

// readWrite is the name of a read-write lock, which cannot share one with the other
// kinds.
func readWrite(name string) string { return name + ":rw" }

// calls are the records of one call in the history: one for each lock that it takes.
type calls []*history.Call

func (v *visit) begin(op history.Op) (c calls) {
	op.Parts = len(v.lock.names)
	for _, op.Name = range v.lock.names {
		c = append(c, v.worker.recorder.Begin(op))
	}
	return c
}

func (c calls) End(result history.Result) {
	for _, call := range c {
		call.End(result)
	}
}

func (c calls) Look(look func() history.Belief) {
	for _, call := range c {
		call.Look(look)
	}
}

func (c calls) Told(way string) {
	for _, call := range c {
		call.Told(way)
	}
}

// Fit returns the kinds that the topology supports.
func Fit(kinds []string, topology stage.Topology) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
		return (kind == red) != (topology == stage.Independent)
	})
}

// red is the kind for independent servers.
const red = "red"

// ParseKinds returns the names in a comma-separated list, all if it is empty, or an error for
// an unknown one.
func ParseKinds(list string) ([]string, error) {
	if list == "" {
		return Kinds, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(Kinds, name) {
			return nil, fmt.Errorf("worker: no kind of lock is called %q: there are %s", name, strings.Join(Kinds, ","))
		}
	}
	return names, nil
}
