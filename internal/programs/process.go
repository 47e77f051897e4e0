package programs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/history"
)

// A Process runs a program without end, in a process that others stop and kill, on servers that
// others use and break: the third stage. Its lanes draw their operations as they go, storm by
// storm, and its faults break its own networks. The history of all processes has what callers are
// told of locks, which package checker judges; the Process judges the rest. It is for one
// goroutine.
type Process struct {
	run    *Run
	random *rand.Rand
	ops    atomic.Int64
	rest   chan struct{}  // closed when the lanes are to rest
	storm  sync.WaitGroup // the lanes
	faults sync.WaitGroup // the faults of the networks
	heal   func()         // notes the end of the faults
	crew   []*worker
}

// A worker is a lane of a Process.
type worker struct {
	*caller
	*generator
	wide bool // it wants one of very many locks
	now  atomic.Pointer[doing]
}

type doing struct {
	op    *Op
	since time.Time
}

// The lanes of very many locks begin together, so that more commands are due at once than a client
// sends, and releases come in between; then they rest, so that a history of minutes can be judged.
const wave = 2 * time.Second

// Names are the names of the few locks that most lanes want.
var Names = []string{"p", "q", "rw", "s", red, leaders}

// red is the name of the red lock.
const red = "r"

// Endless returns the program of a [Process] on so many servers, which have replicas or not. Its
// lanes want that many names beside the few that all want: each name has a goroutine.
func Endless(seed uint64, servers, names int, lease time.Duration, replicas bool) *Program {
	seed *= 3
	if servers > 1 {
		seed++ // which has three servers
	}
	return Generate(seed, func(w *World) {
		w.Outside, w.Calm, w.Forgets, w.Delays = true, false, true, true
		w.Servers, w.Names, w.Lease, w.Trip, w.Prefix = servers, names, lease, 0, ""
		w.Patience = time.Hour // a call that does not return hangs
		for i, c := range w.Clients {
			if !replicas { // else no call for a lock returns
				w.Clients[i].Settings = slices.DeleteFunc(c.Settings, func(c Choice) bool { return c.Name == "SyncReplicas" })
			}
		}
	})
}

// Begin makes the clients of a process, as soon as the servers let it: the world must be Outside.
// Two lives of a process must have different seeds.
func Begin(ctx context.Context, p *Program, ground Ground, seed uint64) (*Process, error) {
	for {
		r := newRun(p, ground, NewFace())
		r.flushed.Store(true)
		r.barred.Store(true)
		err := r.open()
		if err == nil {
			return newProcess(r, seed), nil
		}
		for _, s := range r.members {
			s.Load().discard()
		}
		r.close()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("programs: %w (%w)", ctx.Err(), err)
		case <-time.After(50 * ms):
		}
	}
}

func newProcess(r *Run, seed uint64) *Process {
	p := &Process{run: r, random: rand.New(rand.NewPCG(seed, 0))}
	world := &r.program.World
	for lane := range len(r.members)*lanesOfClient + world.Names {
		w := &worker{generator: &generator{Rand: rand.New(rand.NewPCG(seed, uint64(lane+1))), world: world}}
		client := lane / lanesOfClient
		if w.wide = client >= len(r.members); w.wide {
			client, w.generator.wide = 0, world.Names
		}
		w.caller = r.caller(lane, client)
		p.crew = append(p.crew, w)
	}
	return p
}

// draw draws the next operation, with a number of its own.
func (w *worker) draw(p *Process) *Op {
	w.last = int(p.ops.Add(1000)) + w.run.ground.First
	if !w.wide {
		return w.op(lanes, w.ms(some(w.generator, 3, w.world.Pause)))
	}
	next := time.Until(time.Now().Truncate(wave).Add(wave))
	return w.generator.draw(lanes.find(some(w.generator, "Acquire", "Acquire", "Do", "Lock")), next+w.ms(300))
}

// Storm lets the lanes go on, and breaks the networks.
func (p *Process) Storm() {
	p.rest = make(chan struct{})
	rest := p.rest
	resting := func() bool {
		select {
		case <-rest:
			return true
		default:
			return false
		}
	}
	for _, w := range p.crew {
		p.storm.Go(func() {
			for !resting() {
				o := w.draw(p)
				if w.wide {
					select {
					case <-rest:
						return
					case <-time.After(o.After):
					}
					o.After = 0
				}
				w.now.Store(&doing{o, time.Now()})
				w.perform(o)
				w.now.Store(nil)
			}
		})
	}
	p.heal = p.run.injector.Inject(history.Fault{What: "faults of its networks"})
	g := &generator{Rand: p.random, world: &p.run.program.World}
	breaker := &caller{run: p.run, lane: -1}
	p.faults.Go(func() {
		for {
			o := g.op(faults, g.ms(700))
			select {
			case <-rest:
				return
			case <-time.After(o.After):
				faults.find(o.Verb).run(breaker, o)
			}
		}
	})
}

// Settled is what a Process has seen since the last time.
type Settled struct {
	Problems []string
	Hung     []string // the operations that have not ended
	Most     int      // the most levels that it ever had at once
}

// Settle heals the networks, waits until all lanes rest, or for the limit, and judges what they
// were told.
func (p *Process) Settle(limit time.Duration) (s Settled) {
	r := p.run
	if p.rest != nil {
		select {
		case <-p.rest: // not all rested the last time
		default:
			close(p.rest)
		}
		p.faults.Wait()
		r.healAll()
		p.heal()
		rested := make(chan struct{})
		go func() {
			p.storm.Wait()
			close(rested)
		}()
		select {
		case <-rested:
			r.judgeSights()
			p.rest = nil
		case <-time.After(limit):
			for _, w := range p.crew {
				if d := w.now.Load(); d != nil {
					s.Hung = append(s.Hung, fmt.Sprintf("%s, for %v", d.op, time.Since(d.since).Round(ms)))
				}
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Problems, s.Most = r.problems, r.most
	r.problems, r.grants, r.parcels = nil, nil, nil
	for _, ends := range r.maybe {
		ends()
	}
	r.maybe = nil
	return s
}

// End closes the clients of a Process that rests, and returns the problems of closing them.
func (p *Process) End() []string {
	r := p.run
	for _, s := range r.members {
		s.Load().judgeStats()
		s.Load().leave()
	}
	r.close()
	return r.problems
}

// Verdict judges what callers of a Process without a Recorder were told of locks.
func (p *Process) Verdict() []string { return p.run.Problems() }

// Stays reports whether a key may be left when no lock is held: a counter of tokens, the number of
// a synchronizer, what callers have written, and the ends of permits of killed callers, which the
// next call looks at.
func Stays(key string) bool { return stays(key) || key == "{"+permitsName+"}:timeout" }

// OfLock reports whether a key is the key of one of the locks.
func OfLock(key string) bool {
	_, name, queue := strings.Cut(key, "{")
	if name, _, _ = strings.Cut(name, "}"); !queue {
		name = key
	}
	return slices.Contains(Names, name) || strings.HasPrefix(name, "wide:")
}
