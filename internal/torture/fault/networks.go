package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofNetworks() []Kind {
	imposing := func(what string, rule network.Rule) func(*rand.Rand, Scene) Fault {
		return func(random *rand.Rand, scene Scene) Fault {
			return &ruled{what: what, scope: scene.scope(random), make: func() network.Rule { return rule }}
		}
	}
	scripts := []string{"EVALSHA", "EVAL"}
	nth := func(what string, fate network.Fate, stage network.Stage) func(*rand.Rand, Scene) Fault {
		return func(random *rand.Rand, scene Scene) Fault {
			n := 1 + random.IntN(200)
			return &ruled{what: fmt.Sprintf("%s %d", what, n), scope: scene.scope(random), make: func() network.Rule { return each(n, fate, stage, scripts) }}
		}
	}
	return []Kind{
		{Name: "cut", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault {
			return &cut{scope: scene.scope(random), interval: often(random)}
		}},
		{Name: "refuse", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault { return &refuse{scope: scene.scope(random)} }},
		{Name: "hold", Where: everywhere, Choose: imposing("everything held, and delivered later", network.Silence)},
		{Name: "black-hole", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault { return &blackHole{scope: scene.scope(random)} }},
		{Name: "delay", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault {
			return delay{scene.scope(random), time.Duration(1+random.IntN(300)) * time.Millisecond}
		}},
		{Name: "slice", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault { return slice{scene.scope(random), 1 + random.IntN(16)} }},
		{Name: "lose-reply", Where: everywhere, Choose: nth("reply lost to each script number", network.Cut, network.Reply)},
		{Name: "lose-request", Where: everywhere, Choose: nth("lost: each script number", network.Cut, network.Request)},
		{Name: "hold-reply", Where: everywhere, Choose: nth("reply held to each script number", network.Hold, network.Reply)},
		{Name: "hold-request", Where: everywhere, Choose: nth("held, and executed late: each script number", network.Hold, network.Request)},
		{Name: "deaf", Where: everywhere, Choose: imposing("all messages dropped", network.Deaf)},
	}
}

// scope chooses the workers that a fault of the network affects: all, or one that is cut off
// from the others.
func (s Scene) scope(random *rand.Rand) stage.Scope {
	if random.IntN(2) == 0 {
		return stage.Everyone
	}
	return stage.Scope(s.worker(random))
}

// whose names the workers that a fault affects.
func whose(what string, scope stage.Scope) string {
	if scope == stage.Everyone {
		return what
	}
	return fmt.Sprintf("%s, of worker %d", what, scope)
}

// each applies the fate to every nth frame of a stage that has one of the names.
func each(n int, fate network.Fate, stage network.Stage, names []string) network.Rule {
	all, seen := network.All(fate, stage, names...), 0
	return func(f network.Frame) network.Fate {
		if all(f) == network.Pass {
			return network.Pass
		}
		if seen++; seen%n != 0 {
			return network.Pass
		}
		return fate
	}
}

// ruled imposes one rule on the networks.
type ruled struct {
	what  string
	scope stage.Scope
	make  func() network.Rule
	lift  func()
}

func (f *ruled) String() string { return whose(f.what, f.scope) }

func (f *ruled) Inject(s *stage.Stage) error {
	f.lift = s.Networks.Impose(f.scope, f.make)
	return nil
}

func (f *ruled) Heal(*stage.Stage) error {
	if f.lift != nil {
		f.lift()
	}
	return nil
}

// cut ends all connections, again and again.
type cut struct {
	scope    stage.Scope
	interval time.Duration
	loop     *loop
}

func (f *cut) String() string {
	return whose(fmt.Sprintf("connections cut every %v", f.interval), f.scope)
}

func (f *cut) Inject(s *stage.Stage) error {
	f.loop = every(f.interval, func() { s.Networks.Each(f.scope, (*network.Network).Cut) })
	return nil
}

func (f *cut) Heal(*stage.Stage) error {
	f.loop.end()
	return nil
}

// refuse cuts all connections and lets no new one be opened.
type refuse struct {
	scope stage.Scope
	lift  func()
}

func (f *refuse) String() string { return whose("connections refused", f.scope) }

func (f *refuse) Inject(s *stage.Stage) error {
	f.lift = s.Networks.Refuse(f.scope)
	return nil
}

func (f *refuse) Heal(*stage.Stage) error {
	if f.lift != nil {
		f.lift()
	}
	return nil
}

// blackHole holds everything back, and loses it with the connections when it is healed.
type blackHole struct {
	scope stage.Scope
	lift  func()
}

func (f *blackHole) String() string { return whose("a black hole", f.scope) }

func (f *blackHole) Inject(s *stage.Stage) error {
	f.lift = s.Networks.Impose(f.scope, func() network.Rule { return network.Silence })
	return nil
}

func (f *blackHole) Heal(s *stage.Stage) error {
	if f.lift != nil {
		s.Networks.Each(f.scope, (*network.Network).Cut)
		f.lift()
	}
	return nil
}

// delay adds to the time that a round trip takes.
type delay struct {
	scope     stage.Scope
	roundTrip time.Duration
}

func (f delay) String() string { return whose(fmt.Sprintf("round trips of %v", f.roundTrip), f.scope) }

func (f delay) Inject(s *stage.Stage) error { return f.set(s, f.roundTrip) }
func (f delay) Heal(s *stage.Stage) error   { return f.set(s, 0) }

func (f delay) set(s *stage.Stage, d time.Duration) error {
	s.Networks.Each(f.scope, func(n *network.Network) { n.SetRoundTrip(d) })
	return nil
}

// slice has everything arrive in small pieces.
type slice struct {
	scope stage.Scope
	bytes int
}

func (f slice) String() string { return whose(fmt.Sprintf("pieces of %d bytes", f.bytes), f.scope) }

func (f slice) Inject(s *stage.Stage) error { return f.set(s, f.bytes) }
func (f slice) Heal(s *stage.Stage) error   { return f.set(s, 0) }

func (f slice) set(s *stage.Stage, bytes int) error {
	s.Networks.Each(f.scope, func(n *network.Network) { n.SetSlice(bytes) })
	return nil
}
