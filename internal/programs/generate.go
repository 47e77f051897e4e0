package programs

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A row is one sort of operation: how it is drawn, and how it is run.
type row struct {
	verb   string
	weight int                       // how often it is drawn, beside those of its table
	only   func(w *World) bool       // the worlds that have it, nil for all
	draw   func(g *generator, o *Op) // draws the lock, the options and the arguments; nil for none
	run    func(c *caller, o *Op)
}

// A table has the rows that may stand in one place.
type table []row

// The tables: the operations of a lane, the steps while a lock is held, the ends of a hold, and the
// faults.
var lanes, steps, ends, faults table

func (t table) find(verb string) row {
	for _, r := range t {
		if r.verb == verb {
			return r
		}
	}
	panic("programs: no row for " + verb)
}

// A generator draws a program.
type generator struct {
	*rand.Rand
	world *World
	last  int    // the number of the last operation
	depth int    // the depth of nested holds
	outer *Op    // the operation whose hold the drawn one is in
	wide  int    // the number of locks from which it draws; 0 for the few
	later uint64 // the number of draws of later options
	takes uint64 // the number of draws of WithTakeover
}

// Generate returns the program of a seed, in its world after the changes.
func Generate(seed uint64, changes ...func(*World)) *Program {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 49))}
	p := &Program{Seed: seed}
	g.world = &p.World
	g.drawWorld(seed)
	for _, change := range changes {
		change(&p.World)
	}
	if p.World.Outside {
		return p // a Process draws its operations as it goes
	}
	for i := range p.World.Clients {
		for range lanesOfClient {
			l := Lane{Client: i}
			for range 10 + g.IntN(8) {
				l.Ops = append(l.Ops, g.op(lanes, g.ms(some(g, 3, p.World.Pause))))
			}
			p.Lanes = append(p.Lanes, l)
		}
	}
	for at := time.Duration(0); !p.World.Calm && at < stormy; {
		o := g.op(faults, g.ms(700))
		at += o.After
		p.Faults = append(p.Faults, o)
	}
	return p
}

// lanesOfClient is the number of lanes of a client.
const lanesOfClient = 3

// stormy is the time in which there are faults.
const stormy = 8 * time.Second

func (g *generator) drawWorld(seed uint64) {
	w := g.world
	w.Calm = seed%4 == 0
	w.Forgets = !w.Calm && seed%4 == 3
	w.Delays = !w.Calm && seed%8 < 6
	w.Servers = 1
	if seed%3 == 1 {
		w.Servers = 3
		if seed%9 == 4 {
			w.Servers = 5
		}
	}
	w.Lease = some(g, 600*time.Millisecond, 1500*time.Millisecond, 4*time.Second)
	if g.in(4) {
		w.Prefix = "{prefix}:"
	}
	w.Trip = some(g, 0, 0, 200*time.Microsecond, 2*time.Millisecond)
	for _, s := range groupSettings {
		if g.in(s.in) {
			w.Options = append(w.Options, s.draw(g))
		}
	}
	w.Favourite = g.oneLock()
	w.Pause = some(g, 20, 100, 400)
	w.Patience = 9 * time.Second
	family := g.IntN(2) // all clients must publish and listen by the same one
	for i := range 4 {
		var c Client
		for _, s := range settings {
			if g.in(s.in) {
				c.Settings = append(c.Settings, s.draw(g))
			}
		}
		if family == 1 {
			c.Settings = append(c.Settings, Choice{Name: "PubSub", S: "plain"})
		}
		if i >= 2 && g.in(2) || i == 3 && seed%2 == 1 { // the last clients share the rueidis client of a program
			c.Settings = append(c.Settings, Choice{Name: "Client", S: "shared"})
		}
		w.Clients = append(w.Clients, c)
	}
}

// op draws an operation from a table.
func (g *generator) op(t table, after time.Duration) *Op {
	return g.draw(weighted(g.Rand, t, func(r row) int {
		if r.only != nil && !r.only(g.world) {
			return 0
		}
		return r.weight
	}), after)
}

// weighted draws one of several by their weights.
func weighted[T any](random *rand.Rand, of []T, weight func(T) int) T {
	sum := 0
	for _, one := range of {
		sum += weight(one)
	}
	n := random.IntN(sum)
	for _, one := range of {
		if n -= weight(one); n < 0 {
			return one
		}
	}
	panic("programs: nothing to draw")
}

func (g *generator) draw(r row, after time.Duration) *Op {
	g.last++
	o := &Op{ID: g.last, Verb: r.verb, After: after}
	if r.draw != nil {
		r.draw(g, o)
	}
	return o
}

// body draws the steps while the lock of an operation is held, and how the hold ends.
func (g *generator) body(o *Op, end bool) {
	outer := g.outer
	g.outer = o
	g.depth++
	for range g.IntN(5) {
		o.Body = append(o.Body, g.op(steps, 0))
	}
	if end {
		o.End = g.op(ends, 0)
	}
	g.depth--
	g.outer = outer
}

// in reports true once in n times; never for 0.
func (g *generator) in(n int) bool { return n > 0 && g.IntN(n) == 0 }

// ms returns a time below n milliseconds.
func (g *generator) ms(n int) time.Duration { return time.Duration(g.IntN(n)) * time.Millisecond }

func some[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (o *Op) add(c Choice) { o.Args = append(o.Args, c) }

// Permits is the number of permits of the semaphores.
const Permits = 4

// anyLock draws a lock, every second time the lock of the program's favourite name.
func (g *generator) anyLock() Lock {
	if g.wide > 0 {
		return g.oneOfMany()
	}
	l := g.oneLock()
	if favourite := g.world.Favourite; g.in(2) && favourite.Kind != "" && !l.group() {
		if l = favourite; exclusive(l) && l.Name == "p" {
			l.Kind = some(g, "plain", "fenced", "fair")
		} else if l.Name == "rw" {
			l.Kind = some(g, "read", "read", "write")
		}
	}
	return l
}

func (g *generator) oneLock() Lock {
	switch g.IntN(14) {
	case 0, 1:
		return Lock{"plain", "p"}
	case 2, 3:
		return Lock{"fenced", "p"}
	case 4:
		return Lock{"fair", "p"}
	case 5:
		return Lock{some(g, "plain", "fair"), "q"}
	case 6:
		return Lock{"write", "rw"}
	case 7, 8:
		return Lock{"read", "rw"}
	case 9:
		parts := []string{"p", "q", "rw"}
		if g.world.Servers > 1 {
			parts[g.IntN(3)] = red
		}
		g.Shuffle(3, func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		return Lock{"multi", strings.Join(parts[:2+g.IntN(2)], ",")}
	case 10, 11:
		if g.world.Servers > 1 {
			return Lock{"red", red}
		}
	}
	return Lock{"semaphore", "s"}
}

// oneOfMany draws one of very many locks, and seldom a lock over several.
func (g *generator) oneOfMany() Lock {
	n := g.IntN(g.wide)
	switch g.IntN(16) {
	case 0:
		several := 3
		if g.in(20) {
			several = 50
		}
		var parts []string
		for i := range min(several, g.wide) {
			parts = append(parts, fmt.Sprintf("wide:%d", (n+i)%g.wide))
		}
		return Lock{"multi", strings.Join(parts, ",")}
	case 1, 2, 3:
		return Lock{some(g, "read", "read", "write"), fmt.Sprintf("wide:rw:%d", n)}
	case 4:
		return Lock{"semaphore", fmt.Sprintf("wide:s:%d", n)}
	}
	return Lock{some(g, "plain", "plain", "fenced", "fair"), fmt.Sprintf("wide:%d", n)}
}

// context draws how the context of a call is made.
func (g *generator) context() Choice {
	d := some(g, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond, 2*time.Second, g.world.Patience, g.world.Patience)
	switch g.IntN(12) {
	case 0, 1:
		return Choice{Name: "cancelled", D: d}
	case 2:
		return Choice{Name: "owner", D: d}
	case 3, 4:
		return Choice{Name: "outlived", D: d}
	case 5:
		if g.in(4) {
			return Choice{Name: "ended"}
		}
	}
	return Choice{Name: "timeout", D: d}
}

// options draws the options of a call for a lock. Options that came later have a source of their
// own, so that a seed remains the program that the ledger and the commits mean.
func (g *generator) options(l Lock) (all []Choice) {
	for _, o := range options {
		in, from := o.in, g
		if o.fits != nil && !o.fits(l) {
			in *= 8 // a lock that refuses the option
		}
		if o.name == "WithNote" || o.name == "WithLine" {
			g.later++
			from = &generator{Rand: rand.New(rand.NewPCG(g.later, 49))}
		}
		if o.name == "WithTakeover" {
			g.takes++
			from = &generator{Rand: rand.New(rand.NewPCG(g.takes, 63))}
		}
		if from.in(in) {
			all = append(all, o.draw(from, l))
		}
	}
	return all
}
