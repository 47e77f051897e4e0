package together

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Waits for locks that are free, and guarded writes.

// longest returns the longest lease of a program: for as long a hold may outlive what made Redis forget it.
func (r *Run) longest() time.Duration { return max(4*time.Second, r.program.World.Lease) + 500*ms }

// A waiting is the time in which a call waited.
type waiting struct {
	call     *call
	from, to time.Duration
}

// waited notes that the call waited from its begin until now. Of a call that returned nothing, the lock may have been taken
// and released.
func (k *call) waited(judged bool) {
	r := k.c.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if judged && k.outer == nil && k.verb != "rlock.Client.Resume" {
		r.waits = append(r.waits, &waiting{k, k.began, r.now() - k.pauses})
	}
	if k.lock.group() {
		r.notes.hold(k.lock, interval{k.began, r.now()}) // it may have a part while it waits for another one
	}
}

// idle is how long a lock may be free while a call waits for it and nothing breaks.
const idle = 300 * ms

// looks is within how long a waiter looks: no message tells it that a lease has ended which was shortened.
const looks = 2 * time.Second

// judgeWaits judges that no call waits for a lock that is free, in a program in which nothing breaks.
func (r *Run) judgeWaits() {
	replicated := slices.ContainsFunc(r.program.World.Clients, Client.replicated)
	if !r.sane() || !r.ground.Virtual || replicated {
		return
	}
	busy := make(map[string][]interval)
	for _, g := range r.grants {
		for _, name := range g.call.lock.names() {
			busy[name] = append(busy[name], interval{g.since, cmp.Or(g.ended, forever)})
		}
	}
	for name, more := range r.notes.holds {
		for _, at := range more {
			busy[name] = append(busy[name], interval{at.from, at.to + looks})
		}
	}
	for _, all := range busy {
		slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	}
	for _, w := range r.waits {
		if w.call.lock.group() {
			continue
		}
		free := w.from // since then
		for _, b := range busy[w.call.lock.Name] {
			if b.to <= free {
				continue
			}
			if b.from >= w.to || b.from-free > idle {
				break
			}
			free = max(free, b.to)
		}
		if w.to-free > idle {
			r.problem("%s waits until %v for a lock that is free since %v", w.call, w.to, free)
		}
	}
}

// notes are the data that Redis should have.
type notes struct {
	mu     *sync.Mutex
	holds  map[string][]interval      // in which a lock may be held without a caller
	writes map[string]map[string]bool // by lock, the guarded writes: whether they are sure
	counts map[string]*[2]int         // by lock, how often its number was counted up: at least, at most
	log    map[string]bool            // of locks whose holds share: their writes may stand in any order
}

func newNotes() notes {
	return notes{
		mu: new(sync.Mutex), holds: make(map[string][]interval), writes: make(map[string]map[string]bool),
		counts: make(map[string]*[2]int), log: make(map[string]bool),
	}
}

// hold notes that a lock may be held without a caller. The mutex of the run protects it.
func (n *notes) hold(l Lock, i interval) {
	for _, name := range l.names() {
		n.holds[name] = append(n.holds[name], i)
	}
}

// write notes a guarded write.
func (n *notes) write(g *grant, entry string, err error) {
	name := g.call.lock.Name
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.writes[name] == nil {
		n.writes[name] = make(map[string]bool)
	}
	if err == nil || unsure(err) {
		n.writes[name][entry] = err == nil
	}
	if g.call.shares {
		n.log[entry] = true
	}
}

// count notes that a number was counted up.
func (n *notes) count(g *grant, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.counts[g.call.lock.Name]
	if c == nil {
		c = new([2]int)
		n.counts[g.call.lock.Name] = c
	}
	if err == nil {
		c[0]++
	}
	if err == nil || unsure(err) {
		c[1]++
	}
}

// judgeWrites judges the guarded writes of a lock, in the order in which Redis has them, and its number.
func (r *Run) judgeWrites(name string, entries []string, number int) {
	if r.flushed {
		return
	}
	n := &r.notes
	known := n.writes[name]
	found := make(map[string]bool)
	ended, last := make(map[string]bool), ""
	for _, e := range entries {
		if _, ok := known[e]; !ok || found[e] {
			r.problem("%s: a guarded write that was refused, or came twice: %s", name, e)
		}
		found[e] = true
		if n.log[e] {
			continue
		}
		of, _, _ := strings.Cut(e, "|")
		if !r.forgotten[name] && of != last && ended[of] {
			r.problem("%s: a guarded write of %s after another hold's", name, e)
		}
		ended[of], last = true, of
	}
	for e, sure := range known {
		if sure && !found[e] {
			r.problem("%s: a guarded write that was confirmed is not there: %s", name, e)
		}
	}
	if c := n.counts[name]; c != nil && (number < c[0] || number > c[1]) {
		r.problem("%s: the number that holds counted up is %d, and should be %d to %d", name, number, c[0], c[1])
	}
}
