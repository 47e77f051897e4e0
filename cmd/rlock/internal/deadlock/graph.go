package deadlock

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/internal/waitgraph"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// A Party is an owner that holds a lock or waits for it.
type Party struct {
	// Owner is its text in Redis, "<uuid>:<number>", or "<client>:<number>" if Redis does not
	// show it.
	Owner   string
	Foreign bool             // of Redisson
	Process *inspect.Process // nil if it is not known

	// From the client's answer, otherwise zero:
	Goroutine uint64
	Since     time.Time     // by the clock of its machine
	Age       time.Duration // since then
	Site      inspect.Site
}

// names returns the identities of the party. The numbers of owners and of goroutines do not
// overlap, unless they belong to the same goroutine.
func (p *Party) names() (names [2]string) {
	client := clientOf(p.Owner, p.Foreign)
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

// text identifies the party in one tenure or wait.
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

// A said is a use in a client's answer.
type said struct {
	client string
	at     time.Time
	inspect.Use
}

// party returns the party of the use. Its text in Redis is one of these, if Redis shows it.
func (s *said) party(texts []string, process *inspect.Process) Party {
	p := Party{
		Owner: s.client + ":" + strconv.FormatUint(s.Owner, 10), Process: process,
		Goroutine: s.Goroutine, Since: s.Since, Age: s.at.Sub(s.Since), Site: s.Site,
	}
	if at := slices.IndexFunc(texts, s.isBy); at >= 0 {
		p.Owner = texts[at]
	}
	return p
}

// isBy reports whether text is the owner's text in Redis.
func (s *said) isBy(text string) bool {
	return strings.HasPrefix(text, s.client) && strings.HasSuffix(text, ":"+strconv.FormatUint(s.Owner, 10))
}

// graph makes a graph of the clients' answers, and of the state in Redis for the others.
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
	slices.SortStableFunc(locks, func(a, b inspect.Lock) int { return cmp.Compare(a.Name, b.Name) })
	processes := v.processes()
	g := new(graph)
	for _, lock := range locks {
		if lock.Kind != rlock.KindSemaphore {
			g.addLock(lock, told[lock.Name], complete, processes)
		}
	}
	return g
}

// addLock adds the uses of one lock. Redis names the client that holds the lock, and the
// client's answer names the owner.
func (g *graph) addLock(lock inspect.Lock, told []said, complete map[string]bool, processes map[string]*inspect.Process) {
	var texts []string
	has := make(map[string]bool)
	shows := func(waits, shared bool, p Party) {
		texts = append(texts, p.Owner)
		id := clientOf(p.Owner, p.Foreign)
		has[id] = has[id] || !waits
		known := slices.ContainsFunc(told, func(s said) bool { return s.Waits == waits && s.isBy(p.Owner) })
		if p.Owner != "" && !complete[id] && !known { // without an owner it is a turn of clients of Redisson
			g.add(lock.Name, waits, shared, p)
		}
	}
	for _, h := range lock.Holders {
		shows(false, h.Shared, Party{Owner: h.Owner, Foreign: h.Foreign, Process: h.Process})
	}
	for _, w := range lock.Queue {
		shows(true, w.Shared, Party{Owner: w.Owner, Foreign: w.Foreign, Process: w.Process})
	}
	for _, s := range told {
		if s.Waits || has[s.client] {
			g.add(lock.Name, s.Waits, s.Kind == rlock.KindRead, s.party(texts, processes[s.client]))
		}
	}
}

// processes returns those of the clients, as far as they are known.
func (v *View) processes() map[string]*inspect.Process {
	processes := make(map[string]*inspect.Process)
	for _, lock := range v.Locks {
		for _, h := range lock.Holders {
			processes[clientOf(h.Owner, h.Foreign)] = h.Process
		}
	}
	return processes
}
