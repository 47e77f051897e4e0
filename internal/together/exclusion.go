package together

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Exclusion by permits, waits for locks that are free, and guarded writes.

// keep notes a span of a lock: of each of its parts.
func (r *Run) keep(l Lock, s *span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range l.names() {
		r.spans[name] = append(r.spans[name], s)
	}
}

// longest returns the longest lease of a program: for as long a hold may outlive what made Redis forget it.
func (r *Run) longest() time.Duration { return max(4*time.Second, r.program.World.Lease) + 500*ms }

// forgot returns the first time between from and to at which Redis may have forgotten the lock.
func (r *Run) forgot(name string, from, to time.Duration) (first time.Duration, did bool) {
	for _, at := range slices.Concat(r.forgotten[name], r.forgotten[""]) {
		if at.meets(from, to) && (!did || at.from < first) {
			first, did = max(at.from, from), true
		}
	}
	return first, did
}

// judgeSpans judges that no more permits of a lock were held than there are.
func (r *Run) judgeSpans() {
	for name, all := range r.spans {
		var spans []span
		for _, s := range all {
			if s.least && s.shared && slices.ContainsFunc(r.passes, func(l Lock) bool { return l.Name == name }) {
				continue // another reader of the process may have passed the lock on
			}
			if _, did := r.forgot(name, s.from-r.longest(), s.from); did || s.from == 0 {
				continue // the tenure may have been lost before it began
			}
			c := *s
			if s.least && s.shared && s.of.closes.Load() {
				c.to = min(c.to, s.of.closed) // Close may have released it for another reader of the process
			}
			if at, did := r.forgot(name, s.from, s.to); did {
				c.to = at
			}
			if c.to > c.from {
				spans = append(spans, c)
			}
		}
		limit := whole
		if name == permitsName {
			limit = permitsOf
		}
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		var now []span
		for _, s := range spans {
			now = slices.DeleteFunc(now, func(t span) bool { return t.to <= s.from })
			owners := map[string]int{s.owner: s.permits}
			clash := ""
			for _, t := range now {
				if t.owner == s.owner || t.shared && s.shared {
					continue
				}
				owners[t.owner] = max(owners[t.owner], t.permits)
				clash += "\n    " + t.what + " [" + t.from.String() + " " + t.to.String() + "]"
			}
			sum := 0
			for _, n := range owners {
				sum += n
			}
			if sum > limit {
				r.problem("%s: %d of %d permits are held at %v by\n    %s [%v %v]%s", name, sum, limit, s.from, s.what, s.from, s.to, clash)
				break
			}
			now = append(now, s)
		}
	}
}

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
	terms  []term
	log    map[string]bool // of locks whose holds share: their writes may stand in any order
}

type term struct {
	token uint64
	span  *span
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
	if g.span.shared || g.call.lock.Kind == "semaphore" {
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

// leads notes a term, and judges its token.
func (n *notes) leads(r *Run, token uint64, s *span) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.mu.Lock()
	flushed := r.flushed
	r.mu.Unlock()
	if len(n.terms) > 0 && token <= n.terms[len(n.terms)-1].token && !flushed {
		r.problem("elect: the token of a term is %d, and was %d before", token, n.terms[len(n.terms)-1].token)
	}
	n.terms = append(n.terms, term{token, s})
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
		if _, did := r.forgot(name, 0, forever); !did && of != last && ended[of] {
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
