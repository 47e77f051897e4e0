package programs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// The faults. Each fault lasts until another fault of the same network heals it, or until all are
// healed.
func init() {
	onClients := func(verb string, weight int, draw func(g *generator, o *Op), do func(o *Op, m *member)) row {
		return row{verb, weight, nil,
			func(g *generator, o *Op) {
				o.add(Choice{Name: "client", N: g.IntN(len(g.world.Clients)+2) - 2}) // negative: all
				o.add(Choice{Name: "server", N: g.IntN(g.world.Servers)})
				if draw != nil {
					draw(g, o)
				}
			},
			func(c *caller, o *Op) {
				for i, s := range c.run.members {
					if at := o.arg("client").N; at < 0 || at == i {
						do(o, s.Load())
					}
				}
			}}
	}
	onNets := func(verb string, weight int, draw func(g *generator, o *Op), do func(o *Op, n *network.Network)) row {
		return onClients(verb, weight, draw, func(o *Op, m *member) {
			m.nets[o.arg("server").N].each(func(n *network.Network) { do(o, n) })
		})
	}
	rule := func(rule network.Rule) func(*Op, *network.Network) {
		return func(_ *Op, n *network.Network) { n.Rule(rule) }
	}
	forgets := func(w *World) bool { return w.Forgets && !w.Outside }
	inside := func(w *World) bool { return !w.Outside }
	nth := func(verb string, weight int, stage network.Stage, fate network.Fate) row {
		return onNets(verb, weight, func(g *generator, o *Op) {
			most := 4
			if g.world.Outside {
				most = 100
			}
			o.add(Choice{Name: "nth", N: 1 + g.IntN(most)})
		}, func(o *Op, n *network.Network) { n.Rule(network.Nth(o.arg("nth").N, fate, stage, "EVALSHA", "EVAL")) })
	}
	delays := func(w *World) bool { return w.Delays }
	late := func(r row) row { r.only = delays; return r }
	pushes := func(f network.Frame) network.Fate {
		if f.Stage == network.Push {
			return network.Hold
		}
		return network.Pass
	}
	faults = append(faults,
		onNets("cut", 3, nil, func(_ *Op, n *network.Network) { n.Cut() }),
		late(onNets("silence", 3, nil, rule(network.Silence))),
		onNets("refuse connections", 2, nil, func(_ *Op, n *network.Network) { n.Refuse() }),
		onNets("lose messages", 3, nil, rule(network.Deaf)),
		onClients("the endpoint moves", 3, nil, func(o *Op, m *member) {
			if !m.setting.shared() { // rlock ends no connection of a shared client
				m.nets[o.arg("server").N].each((*network.Network).Move)
			}
		}),
		onNets("hold messages", 2, nil, rule(pushes)),
		late(onNets("hold scripts", 2, nil, rule(network.All(network.Hold, network.Request, "EVALSHA")))),
		late(onNets("far away", 3, func(g *generator, o *Op) { o.add(Choice{Name: "trip", D: g.ms(500)}) },
			func(o *Op, n *network.Network) { n.SetRoundTrip(o.arg("trip").D) })),
		nth("lose an answer", 4, network.Reply, network.Cut),
		nth("lose a command", 2, network.Request, network.Cut),
		late(nth("hold an answer", 1, network.Reply, network.Hold)),
		late(nth("hold a command", 1, network.Request, network.Hold)),
		onNets("pieces", 1, func(g *generator, o *Op) { o.add(Choice{Name: "bytes", N: 1 + g.IntN(16)}) },
			func(o *Op, n *network.Network) { n.SetSlice(o.arg("bytes").N) }),
		row{"heal", 6, nil, func(g *generator, o *Op) { o.add(Choice{Name: "client", N: g.IntN(len(g.world.Clients))}) },
			func(c *caller, o *Op) {
				for _, n := range c.run.members[o.arg("client").N].Load().nets {
					n.heal()
				}
			}},
		row{"answer scripts with", 3, nil, func(g *generator, o *Op) {
			o.add(Choice{Name: "text", S: some(g, "LOADING a while", "READONLY", "BUSY", "ERR max number of clients", "NOPERM no permissions", "")})
			o.add(Choice{Name: "server", N: g.IntN(g.world.Servers)})
		}, func(c *caller, o *Op) {
			text := o.arg("text").S
			c.run.refuse(o.arg("server").N, text)
			if text == "NOPERM no permissions" { // for a short time only: callers do not go on
				time.Sleep(50 * ms)
				c.run.refuse(o.arg("server").N, "")
			}
		}},
		row{"forget scripts", 2, nil, nil, func(c *caller, _ *Op) {
			c.run.nodes(func(a rueidis.Client) { _ = a.Do(c.run.ctx, a.B().ScriptFlush().Build()).Error() })
		}},
		row{"close and open", 3, inside, func(g *generator, o *Op) { o.add(Choice{Name: "client", N: g.IntN(len(g.world.Clients))}) },
			func(c *caller, o *Op) {
				i := o.arg("client").N
				for _, n := range c.run.members[i].Load().nets { // New fails in an outage
					n.heal()
				}
				for s := range c.run.ground.Servers {
					c.run.refuse(s, "")
				}
				c.run.replace(i)
			}},
		row{"delete", 3, forgets, func(g *generator, o *Op) { o.add(Choice{Name: "name", S: some(g, slices.Concat(Names, onceKeys)...)}) },
			func(c *caller, o *Op) {
				name := o.arg("name").S
				c.run.forget("delete", []string{name}, func() error {
					from := c.run.now()
					for _, a := range c.run.admin {
						_ = a.Do(c.run.ctx, a.B().Del().Key(c.run.program.World.Prefix+name).Build()).Error()
					}
					c.run.noteDeleted(name, from)
					return nil
				})
			}},
		row{"flush", 1, forgets, nil, func(c *caller, _ *Op) {
			c.run.forget("flush", []string{""}, func() error {
				c.run.flushed.Store(true)
				from := c.run.now()
				c.run.nodes(func(a rueidis.Client) { _ = a.Do(c.run.ctx, a.B().Flushall().Build()).Error() })
				c.run.noteDeleted("", from)
				return nil
			})
		}},
		row{"empty a server", 4, func(w *World) bool { return w.Servers > 1 && !w.Outside }, func(g *generator, o *Op) {
			o.add(Choice{Name: "server", N: 1 + g.IntN(g.world.Servers-1)}) // the first one has all other locks
		}, func(c *caller, o *Op) { c.run.empty(o.arg("server").N) }},
		row{"ForceUnlock", 3, func(w *World) bool { return w.Forgets }, func(g *generator, o *Op) {
			o.Lock = g.anyLock()
			o.add(Choice{Name: "client", N: g.IntN(len(g.world.Clients))})
			o.add(Choice{Name: "unless", N: g.IntN(20)})
		}, func(c *caller, o *Op) {
			if c.run.program.World.Outside && o.arg("unless").N > 0 {
				return // a fault that makes Redis forget excuses much
			}
			c.m = c.run.members[o.arg("client").N].Load()
			c.run.forget("ForceUnlock", o.Lock.names(), func() error { return c.force(o) })
		}},
	)
}

// refuse answers all scripts of a server with an error.
func (r *Run) refuse(server int, text string) {
	do := r.ground.Servers[server].Refuse
	if do == nil {
		return
	}
	if text == "NOPERM no permissions" {
		r.barred.Store(true)
	}
	r.mu.Lock()
	r.refuses, r.refused = text != "", r.now()
	r.mu.Unlock()
	do(text)
}

// forget makes Redis forget a lock; "" means all locks. After an error the command may still be
// executed, until all faults are healed.
func (r *Run) forget(what string, names []string, do func() error) {
	var heals []func()
	for _, name := range names {
		heals = append(heals, r.injector.Inject(history.Fault{What: what, Kind: what, Forgets: true, Name: name}))
		r.mu.Lock()
		r.forgotten[name] = true
		r.mu.Unlock()
	}
	if do() != nil {
		r.mu.Lock()
		r.maybe = append(r.maybe, heals...)
		r.mu.Unlock()
		return
	}
	for _, heal := range heals {
		heal()
	}
}

// empty lets a server lose its data, as in a restart, and come back when no lease of a red lock is
// left that it knew, so that no red lock is lost.
func (r *Run) empty(server int) {
	r.each(func(m *member) { m.nets[server].each((*network.Network).Refuse) })
	r.away.Store(int64(server))
	a := r.admin[server]
	left, _ := a.Do(r.ctx, a.B().Pttl().Key(r.program.World.Prefix+red).Build()).AsInt64()
	_ = a.Do(r.ctx, a.B().Flushall().Build()).Error()
	time.Sleep(time.Duration(max(left, 0)) * ms)
	r.away.Store(0)
	r.each(func(m *member) { m.nets[server].heal() })
}

// nodes does something to all nodes of all servers. A replica refuses a write.
func (r *Run) nodes(do func(a rueidis.Client)) {
	for _, a := range r.admin {
		for _, node := range a.Nodes() {
			do(node)
		}
	}
}

// noteDeleted notes that Redis has no lock of that name any more, "" for all names. It had the lock
// until from at least.
func (r *Run) noteDeleted(name string, from time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleted[name] = from
}

// forever is later than any time of a run.
const forever = 1000 * time.Hour

// force unlocks a lock by force: first from the holders that a look shows, then from all holders.
func (c *caller) force(o *Op) error {
	ctx, cancel := context.WithTimeout(c.run.ctx, time.Second)
	defer cancel()
	var errs []error
	judge := func(call string, err error) {
		c.judgeQuestion(call, err, ctx)
		errs = append(errs, err)
	}
	for _, name := range o.Lock.names() {
		i := inspect.Of(c.m.main())
		if shown, err := i.Lock(ctx, name); err == nil {
			_, err := on(c.run.face, i.ForceUnlock)(ctx, shown)
			judge("inspect.Inspector.ForceUnlock", err)
		}
	}
	_, err := on(c.run.face, c.m.lock(o.Lock).ForceUnlock)(ctx)
	judge("rlock.Lock.ForceUnlock", err)
	return errors.Join(errs...)
}

// breakThings runs the faults one after the other, and heals all.
func (r *Run) breakThings(ops []*Op) {
	if r.program.World.Calm {
		return
	}
	heal := r.injector.Inject(history.Fault{What: "faults"})
	c := &caller{run: r, lane: -1, owner: rlock.NewOwner()}
	for _, o := range ops {
		time.Sleep(o.After)
		faults.find(o.Verb).run(c, o)
	}
	for s := range r.ground.Servers {
		r.refuse(s, "")
	}
	r.healAll()
	r.findServers()
	time.Sleep(recovery)
	heal()
	r.whole.Store(true)
}

func (r *Run) healAll() {
	r.each(func(m *member) {
		for _, n := range m.nets {
			n.heal()
		}
	})
}

// findServers lets all clients find out that an endpoint has moved: the release that finds out is
// not confirmed.
func (r *Run) findServers() {
	var all sync.WaitGroup
	for _, s := range r.members {
		m := s.Load()
		connections := 1 << max(find(m.setting.Settings, "PipelineMultiplex").N, 0)
		for _, client := range m.clients {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(r.ctx, recovery)
				defer cancel()
				for range 16 * connections { // rueidis chooses one at random, and all but one may be new
					_, _ = client.NewLock("found").IsLocked(ctx)
				}
			})
		}
	}
	all.Wait()
}

// each does something to all clients, also those that were closed.
func (r *Run) each(do func(m *member)) {
	r.mu.Lock()
	all := slices.Clone(r.gone)
	r.mu.Unlock()
	for _, s := range r.members {
		all = append(all, s.Load())
	}
	for _, m := range all {
		do(m)
	}
}

// recovery is how long the effects of faults last: connections open again, abandoned leases end,
// waiters look.
const recovery = 6 * time.Second
