package diag

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/waitgraph"
	"github.com/go-rlock/rlock/rlock/internal/terms"
)

// How a client finds deadlocks among its own calls: owners that wait for each other's locks,
// or a goroutine for a lock that it has itself acquired with another handle. When a call has waited for
// a lock of this client for a second (watch.go), it searches all waits and holds for cycles, and logs each cycle once.

// tellDeadlocks logs the deadlocks that were not logged before, and returns all that there are.
func (d *Diag) tellDeadlocks(told map[string]bool) map[string]bool {
	found := make(map[string]bool)
	before := deadlocks(Uses(d.Source, true))
	if len(before) == 0 {
		return found
	}
	// Uses that are the same at both times were there in between, all at once.
	now := deadlocks(Uses(d.Source, true))
	for id, cycle := range now {
		if _, stays := before[id]; !stays {
			continue
		}
		if found[id] = true; !told[id] {
			d.tellDeadlock(cycle)
		}
	}
	return found
}

// A deadlock is uses of locks: a wait, the hold that it waits for, a wait of the same owner
// or goroutine, and so on.
type deadlock []Use

// deadlocks returns the cycles among the uses, by what distinguishes one from all others. Semaphores
// are left out: a waiter there needs any permit, and not one.
func deadlocks(uses []Use) map[string]deadlock {
	var of []Use
	var graph []waitgraph.Use[uint64]
	for _, u := range uses {
		if u.Kind != terms.KindSemaphore {
			of = append(of, u)
			graph = append(graph, waitgraph.Use[uint64]{
				Lock: u.Name, Names: [2]uint64{u.Owner, u.Goroutine}, Waits: u.Waits, Shared: u.Kind == terms.KindRead,
			})
		}
	}
	found := make(map[string]deadlock)
	for _, cycle := range waitgraph.Cycles(graph) {
		var d deadlock
		id := ""
		for _, wait := range cycle {
			for _, u := range []Use{of[wait.Waiter], of[wait.Holder]} {
				d = append(d, u)
				id += fmt.Sprintf("%q %d %d ", u.Name, u.Owner, u.Since.UnixNano())
			}
		}
		found[id] = d
	}
	return found
}

// tellDeadlock logs it, with a group for each wait if there are several.
func (d *Diag) tellDeadlock(cycle deadlock) {
	now := time.Now()
	about := func(waits, holds Use) []any {
		return []any{
			"lock", waits.Name, "kind", waits.Kind, "owner", terms.Owner{ID: waits.Owner}, "waited", now.Sub(waits.Since).Round(time.Millisecond), "site", waits.Site.String(),
			"holder", terms.Owner{ID: holds.Owner}, "held", now.Sub(holds.Since).Round(time.Millisecond), "holder_site", holds.Site.String(),
		}
	}
	if len(cycle) == 2 {
		d.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest", about(cycle[0], cycle[1])...)
		return
	}
	var waits []any
	for i := 0; i < len(cycle); i += 2 {
		waits = append(waits, slog.Group(strconv.Itoa(i/2+1), about(cycle[i], cycle[i+1])...))
	}
	d.Logger.Warn("rlock: deadlock: calls of this process wait for each other's locks: take locks in one order, or together with NewMultiLock", waits...)
}
