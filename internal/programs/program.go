package programs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Program is the operations of the clients of a world, and the faults.
type Program struct {
	Seed   uint64
	Only   []int // the operations that were kept, sorted; nil for all
	World  World
	Lanes  []Lane
	Faults []*Op // one after the other
}

// A World is the servers and the clients of a program.
type World struct {
	Calm    bool          // nothing breaks
	Forgets bool          // some of the faults make Redis forget locks
	Delays  bool          // some of the faults make commands late
	Outside bool          // other processes use the servers, and faults from outside meet all: see Process
	Names   int           // the number of very many locks, with a lane for each; 0 but for a Process
	Servers int           // the number of independent servers
	Lease   time.Duration // the lease of the watchdogs
	Prefix  string
	Trip    time.Duration // the round trip of all networks, without a fault
	Clients []Client

	Favourite Lock          // the lock that most lanes contend for
	Pause     int           // the longest pause between two operations of a lane, in milliseconds
	Patience  time.Duration // the longest time of a call's context

	Options []Choice // the options of the groups of package once, and of the guards of package idempotent
}

// A Client is the settings of one client: the fields of its Config.
type Client struct {
	Settings []Choice
}

// A Lane is a goroutine of a client.
type Lane struct {
	Client int
	Ops    []*Op
}

// A Choice is one thing that was drawn: an option, a setting or an argument, with its value.
type Choice struct {
	Name string
	D    time.Duration
	N    int
	S    string
}

func (c Choice) String() string {
	switch {
	case c.S != "":
		return c.Name + "(" + c.S + ")"
	case c.D != 0:
		return c.Name + "(" + c.D.String() + ")"
	}
	return c.Name + "(" + strconv.Itoa(c.N) + ")"
}

// A Lock is the kind and the name of a lock. The Name of a lock over several has the names of its
// parts.
type Lock struct{ Kind, Name string }

func (l Lock) names() []string { return strings.Split(l.Name, ",") }

// group reports whether the lock is one over several.
func (l Lock) group() bool { return l.Kind == "multi" || l.Kind == "red" }

// red reports whether the lock is a red lock, or one of its parts is.
func (l Lock) red() bool { return l.group() && slices.Contains(l.names(), red) }

// An Op is one operation.
type Op struct {
	ID    int
	Verb  string        // the name of its row
	After time.Duration // the pause before it
	Lock  Lock          // the lock that it is about; zero for none
	Ctx   Choice        // how the context of its call is made
	With  []Choice      // options of the call
	Args  []Choice      // everything else
	Body  []*Op         // the steps while the lock is held
	End   *Op           // how the hold ends
}

// arg returns the argument of that name, the zero Choice if there is none.
func (o *Op) arg(name string) Choice { return find(o.Args, name) }

// has reports whether the call has the option.
func (o *Op) has(option string) bool { return find(o.With, option).Name != "" }

func find(all []Choice, name string) Choice {
	for _, c := range all {
		if c.Name == name {
			return c
		}
	}
	return Choice{}
}

// all calls do for each operation; the operations of a body come after the operation that has it.
func (p *Program) all(do func(o *Op)) {
	var each func(ops []*Op)
	each = func(ops []*Op) {
		for _, o := range ops {
			do(o)
			each(o.Body)
		}
	}
	for _, l := range p.Lanes {
		each(l.Ops)
	}
	each(p.Faults)
}

// Numbers returns the numbers of all operations.
func (p *Program) Numbers() (all []int) {
	p.all(func(o *Op) { all = append(all, o.ID) })
	return all
}

// Keep returns the program with some of its operations alone.
func (p *Program) Keep(numbers []int) *Program {
	q := *p
	q.Only = slices.Sorted(slices.Values(numbers))
	var kept func(ops []*Op) []*Op
	kept = func(ops []*Op) (left []*Op) {
		for _, o := range ops {
			if _, in := slices.BinarySearch(q.Only, o.ID); in {
				c := *o
				c.Body = kept(o.Body)
				left = append(left, &c)
			}
		}
		return left
	}
	q.Lanes = nil
	for _, l := range p.Lanes {
		q.Lanes = append(q.Lanes, Lane{l.Client, kept(l.Ops)})
	}
	q.Faults = kept(p.Faults)
	return &q
}

// Shrink leaves out operations as long as the program still fails: halves of the rest, then smaller
// parts. It calls fails at most tries times.
func Shrink(p *Program, tries int, fails func(*Program) bool) *Program {
	for size := len(p.Numbers()) / 2; size > 0; {
		shrunk, numbers := false, p.Numbers()
		for from := 0; from < len(numbers) && tries > 0; from += size {
			tries--
			part := numbers[from:min(from+size, len(numbers))]
			rest := slices.DeleteFunc(p.Numbers(), func(n int) bool { return slices.Contains(part, n) })
			if q := p.Keep(rest); fails(q) {
				p, shrunk = q, true
			}
		}
		if tries == 0 {
			return p
		}
		if !shrunk || size > len(p.Numbers()) {
			size /= 2
		}
	}
	return p
}

// Again returns the flags that run the program again.
func (p *Program) Again() string {
	again := fmt.Sprintf("-seed %d", p.Seed)
	if p.Only != nil {
		again += " -only " + strings.ReplaceAll(strings.Trim(fmt.Sprint(p.Only), "[]"), " ", ",")
	}
	return again
}

// String returns the program as text. The first line says how to run it again.
func (p *Program) String() string {
	var b strings.Builder
	w := p.World
	fmt.Fprintf(&b, "%s\nworld: calm %v, forgets %v, delays %v, servers %d, lease %v, round trip %v, prefix %q, %v\n",
		p.Again(), w.Calm, w.Forgets, w.Delays, w.Servers, w.Lease, w.Trip, w.Prefix, w.Options)
	for i, c := range w.Clients {
		fmt.Fprintf(&b, "client %d: %v\n", i, c.Settings)
	}
	for i, l := range p.Lanes {
		fmt.Fprintf(&b, "lane %d of client %d:\n", i, l.Client)
		printed(&b, l.Ops, 1)
	}
	fmt.Fprintf(&b, "faults:\n")
	printed(&b, p.Faults, 1)
	return b.String()
}

func printed(b *strings.Builder, ops []*Op, depth int) {
	for _, o := range ops {
		fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", depth), o)
		printed(b, o.Body, depth+1)
		if o.End != nil {
			fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", depth), o.End)
		}
	}
}

func (o *Op) String() string {
	text := fmt.Sprintf("%d +%v %s", o.ID, o.After, o.Verb)
	if o.Lock.Kind != "" {
		text += fmt.Sprintf(" %s %s", o.Lock.Kind, o.Lock.Name)
	}
	if o.Ctx.Name != "" {
		text += " ctx=" + o.Ctx.String()
	}
	for _, c := range slices.Concat(o.With, o.Args) {
		text += " " + c.String()
	}
	return text
}
