package engine

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/waitgraph"
)

// How a client finds deadlocks among its own calls: owners that wait for each other's locks,
// or a goroutine for a lock that it has itself acquired with another handle. While calls wait,
// it looks once a second whether one that waits for a lock of this client has waited for as long. Then
// it searches all waits and holds for cycles, and logs each cycle once. No wait has a timer for that.

const (
	// deadlockTime is how long a call waits until deadlocks are searched for.
	deadlockTime = time.Second
	// searchPause is how long the client waits before it looks again.
	searchPause = time.Second
)

// searches returns the errand that searches. It goes on for as long as calls wait.
func (c *Client) searches() *errand {
	told := make(map[string]bool) // the deadlocks that the last search has found
	return &errand{redis: c.Redis, pause: searchPause, work: func() (more bool) {
		waits, long := c.lookAtWaits(time.Now())
		if long {
			told = c.tellDeadlocks(told)
		}
		return waits
	}}
}

// lookAtWaits reports whether calls wait, and whether one that waits for a lock of this client has
// waited for long since it was asked last. It wakes waiters whose wait is to be logged (long.go).
func (c *Client) lookAtWaits(now time.Time) (waits, long bool) {
	for s := range c.allShards {
		s.mu.Lock()
		for _, r := range s.rooms {
			if s.counts.Waiting == 0 {
				break
			}
			for w := range r.waiters {
				waits = true
				r.hurry(w, now)
				if r.tenure != nil && !w.searched && now.Sub(w.began) >= deadlockTime {
					w.searched, long = true, true
				}
			}
		}
		s.mu.Unlock()
	}
	for _, b := range c.besides() {
		w, l := b.LongWaits(now)
		waits, long = waits || w, long || l
	}
	return waits, long
}

// tellDeadlocks logs the deadlocks that were not told before, and returns all that there are.
func (c *Client) tellDeadlocks(told map[string]bool) map[string]bool {
	found := make(map[string]bool)
	before := deadlocks(c.Uses(true))
	if len(before) == 0 {
		return found
	}
	// What is the same at both times was there in between, all at once.
	now := deadlocks(c.Uses(true))
	for id, d := range now {
		if _, stays := before[id]; !stays {
			continue
		}
		if found[id] = true; !told[id] {
			c.tellDeadlock(d)
		}
	}
	return found
}

// A deadlock is uses of locks: a wait, the hold that it waits for, a wait of the same owner
// or goroutine, and so on.
type deadlock []Use

// deadlocks returns the cycles among the uses, by what tells one from all others. Semaphores
// are left out: a waiter there needs any permit, and not one.
func deadlocks(uses []Use) map[string]deadlock {
	var of []Use
	var graph []waitgraph.Use[uint64]
	for _, u := range uses {
		if u.Kind != KindSemaphore {
			of = append(of, u)
			graph = append(graph, waitgraph.Use[uint64]{
				Lock: u.Name, Names: [2]uint64{u.Owner.ID, u.Goroutine}, Waits: u.Waits, Shared: u.Kind == KindRead,
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
				id += fmt.Sprintf("%q %d %d ", u.Name, u.Owner.ID, u.Since.UnixNano())
			}
		}
		found[id] = d
	}
	return found
}

// tellDeadlock logs it, with a group for each wait if there are several.
func (c *Client) tellDeadlock(d deadlock) {
	now := time.Now()
	about := func(waits, holds Use) []any {
		return []any{
			"lock", waits.Name, "kind", waits.Kind, "owner", waits.Owner, "waited", now.Sub(waits.Since).Round(time.Millisecond), "place", waits.Place.String(),
			"holder", holds.Owner, "held", now.Sub(holds.Since).Round(time.Millisecond), "holder_place", holds.Place.String(),
		}
	}
	if len(d) == 2 {
		c.Config.Logger.Warn("rlock: a call waits for a lock that its own goroutine holds: use the context of the Hold, or WithOwner, to nest", about(d[0], d[1])...)
		return
	}
	var waits []any
	for i := 0; i < len(d); i += 2 {
		waits = append(waits, slog.Group(strconv.Itoa(i/2+1), about(d[i], d[i+1])...))
	}
	c.Config.Logger.Warn("rlock: deadlock: calls of this process wait for each other's locks: take locks in one order, or together with NewMultiLock", waits...)
}
