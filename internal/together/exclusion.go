package together

import (
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// longest returns the longest lease of a program: for as long a hold may outlive what made Redis forget it.
func (r *Run) longest() time.Duration { return max(4*time.Second, r.program.World.Lease) + 500*ms }

// idle is how long a lock may be free while a call waits for it and nothing breaks.
const idle = 300 * ms

// looks is within how long a waiter looks: no message tells it that a lease has ended which was shortened.
const looks = 2 * time.Second

// apart notes in the history that a lock may be held without a caller that knows it.
func (r *Run) apart(l Lock, from, to time.Duration) {
	if !r.sane() {
		return // the faults excuse all waits
	}
	for _, name := range l.names() {
		r.injector.Happened(history.Fault{What: "held without a caller", Name: name}, history.At(r.begin.Add(from)), history.At(r.begin.Add(to)))
	}
}

// notes are the data that Redis should have.
type notes struct {
	mu     *sync.Mutex
	writes map[string]map[string]bool // by lock, the guarded writes: whether they are sure
	counts map[string]*[2]int         // by lock, how often its number was counted up: at least, at most
	log    map[string]bool            // of locks whose holds share: their writes may stand in any order
}

func newNotes() notes {
	return notes{
		mu: new(sync.Mutex), writes: make(map[string]map[string]bool),
		counts: make(map[string]*[2]int), log: make(map[string]bool),
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
