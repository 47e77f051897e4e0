package deadlock

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/waitgraph"
	"github.com/go-rlock/rlock/rlock"
)

// A Party is an owner that holds a lock or waits for it.
type Party struct {
	// Owner is its text in Redis, "<uuid>:<number>", or "<client>:<number>" of one that does not
	// stand there.
	Owner   string
	Guest   bool           // of Redisson
	Process *rlock.Process // nil if it is not known

	// As its client has answered, else zero:
	Goroutine uint64
	Since     time.Time     // by the clock of its machine
	Age       time.Duration // since then
	Place     rlock.Place
}

// names returns what the party is known by. The numbers of owners and of goroutines do not
// overlap, unless they are the same goroutine's.
func (p *Party) names() (names [2]string) {
	client := clientOf(p.Owner, p.Guest)
	if client == "" && !p.fromAnswer() {
		return [2]string{p.Owner}
	}
	_, number, _ := strings.Cut(p.Owner, ":")
	names[0] = p.Owner[:clientLen] + number
	if p.Goroutine != 0 {
		names[1] = p.Owner[:clientLen] + strconv.FormatUint(p.Goroutine, 10)
	}
	return names
}

func (p *Party) fromAnswer() bool { return !p.Since.IsZero() }

// text tells the party from what it was or will be at another time.
func (p *Party) text() string { return p.Owner + " " + strconv.FormatInt(p.Since.UnixMilli(), 10) }

// A graph is the holds and the waits of a view, by the names of the locks.
type graph struct {
	uses    []waitgraph.Use[string]
	parties []Party // by use
}

func (g *graph) add(lock string, waits, shared bool, p Party) {
	g.uses = append(g.uses, waitgraph.Use[string]{Lock: lock, Names: p.names(), Waits: waits, Shared: shared})
	g.parties = append(g.parties, p)
}

// A said is a use that a client has answered with.
type said struct {
	client string
	at     time.Time
	rlock.LockUse
}

// party returns who does it. Their text in Redis is one of these, if it stands there.
func (s *said) party(texts []string, process *rlock.Process) Party {
	p := Party{
		Owner: s.client + ":" + s.Owner.String(), Process: process,
		Goroutine: s.Goroutine, Since: s.Since, Age: s.at.Sub(s.Since), Place: s.Place,
	}
	if at := slices.IndexFunc(texts, s.isBy); at >= 0 {
		p.Owner = texts[at]
	}
	return p
}

// isBy reports whether that is the text of its owner in Redis.
func (s *said) isBy(text string) bool {
	return strings.HasPrefix(text, s.client) && strings.HasSuffix(text, ":"+s.Owner.String())
}

// graph makes one of what clients have said, and of what Redis shows where they have not.
func (v *View) graph() *graph {
	told := make(map[string][]said) // by lock
	complete := make(map[string]bool)
	for _, a := range v.Answers {
		complete[a.Client] = !a.Cut
		for _, use := range a.Uses {
			told[use.Name] = append(told[use.Name], said{a.Client, a.At, use})
		}
	}
	locks := slices.Clone(v.Locks)
	slices.SortStableFunc(locks, func(a, b rlock.Inspection) int { return cmp.Compare(a.Name, b.Name) })
	processes := v.processes()
	g := new(graph)
	for _, lock := range locks {
		if lock.Kind != rlock.KindSemaphore {
			g.addLock(lock, told[lock.Name], complete, processes)
		}
	}
	return g
}

// addLock adds what is done with one lock. In whose hands the lock is says Redis, and the
// client that has it says in which of its owners'.
func (g *graph) addLock(lock rlock.Inspection, told []said, complete map[string]bool, processes map[string]*rlock.Process) {
	var texts []string
	has := make(map[string]bool)
	shows := func(waits, shared bool, p Party) {
		texts = append(texts, p.Owner)
		id := clientOf(p.Owner, p.Guest)
		has[id] = has[id] || !waits
		known := slices.ContainsFunc(told, func(s said) bool { return s.Waits == waits && s.isBy(p.Owner) })
		if p.Owner != "" && !complete[id] && !known { // without an owner it is a turn of guests
			g.add(lock.Name, waits, shared, p)
		}
	}
	for _, h := range lock.Holders {
		shows(false, h.Shared, Party{Owner: h.Owner, Guest: h.Guest, Process: h.Process})
	}
	for _, w := range lock.Queue {
		shows(true, w.Shared, Party{Owner: w.Owner, Guest: w.Guest, Process: w.Process})
	}
	for _, s := range told {
		if s.Waits || has[s.client] {
			g.add(lock.Name, s.Waits, s.Kind == rlock.KindRead, s.party(texts, processes[s.client]))
		}
	}
}

// processes returns those of the clients, as far as they are known.
func (v *View) processes() map[string]*rlock.Process {
	processes := make(map[string]*rlock.Process)
	for _, lock := range v.Locks {
		for _, h := range lock.Holders {
			processes[clientOf(h.Owner, h.Guest)] = h.Process
		}
	}
	return processes
}
