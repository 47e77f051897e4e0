package fault

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofNetworks() []Kind {
	return []Kind{
		{Name: "cut", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) *Fault {
			scope, interval := scene.scope(random), often(random)
			return repeated(whose(fmt.Sprintf("connections cut every %v", interval), scope), interval,
				func(s *stage.Stage) { s.Networks.Each(scope, (*network.Network).Cut) })
		}},
		// All connections are cut, and no new one can be opened.
		{Name: "refuse", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) *Fault {
			scope := scene.scope(random)
			return lifted(whose("connections refused", scope), func(s *stage.Stage) func() { return s.Networks.Refuse(scope) })
		}},
		{Name: "hold", Where: everywhere, Choose: ruled("everything held, and delivered later", network.Silence)},
		// Everything is held back, and lost with the connections when the fault is healed.
		{Name: "black-hole", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) *Fault {
			scope := scene.scope(random)
			return lifted(whose("a black hole", scope), func(s *stage.Stage) func() {
				lift := s.Networks.Impose(scope, func() network.Rule { return network.Silence })
				return func() {
					s.Networks.Each(scope, (*network.Network).Cut)
					lift()
				}
			})
		}},
		{Name: "delay", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) *Fault {
			scope, roundTrip := scene.scope(random), time.Duration(1+random.IntN(300))*time.Millisecond
			return tuned(fmt.Sprintf("round trips of %v", roundTrip), scope, roundTrip, (*network.Network).SetRoundTrip)
		}},
		{Name: "slice", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) *Fault {
			scope, bytes := scene.scope(random), 1+random.IntN(16)
			return tuned(fmt.Sprintf("pieces of %d bytes", bytes), scope, bytes, (*network.Network).SetSlice)
		}},
		{Name: "lose-reply", Where: everywhere, Choose: nth("reply lost to each script number", network.Cut, network.Reply)},
		{Name: "lose-request", Where: everywhere, Choose: nth("lost: each script number", network.Cut, network.Request)},
		{Name: "hold-reply", Where: everywhere, Choose: nth("reply held to each script number", network.Hold, network.Reply)},
		{Name: "hold-request", Where: everywhere, Choose: nth("held, and executed late: each script number", network.Hold, network.Request)},
		{Name: "deaf", Where: everywhere, Choose: ruled("all messages dropped", network.Deaf)},
	}
}

// scope chooses the workers that a fault of the network affects: all, or one that is cut off
// from the others.
func (s Scene) scope(random *rand.Rand) stage.Scope {
	if random.IntN(2) == 0 {
		return stage.Everyone
	}
	return stage.Scope(random.IntN(s.Workers))
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
func ruled(what string, rule network.Rule) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, scene Scene) *Fault {
		return imposed(what, scene.scope(random), func() network.Rule { return rule })
	}
}

// nth imposes a rule for every nth frame of a stage with a script.
func nth(what string, fate network.Fate, stage network.Stage) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, scene Scene) *Fault {
		n := 1 + random.IntN(200)
		return imposed(fmt.Sprintf("%s %d", what, n), scene.scope(random), func() network.Rule { return each(n, fate, stage, []string{"EVALSHA", "EVAL"}) })
	}
}

func imposed(what string, scope stage.Scope, rule func() network.Rule) *Fault {
	return lifted(whose(what, scope), func(s *stage.Stage) func() { return s.Networks.Impose(scope, rule) })
}

// lifted returns a fault that a function of its own heals.
func lifted(text string, impose func(*stage.Stage) (lift func())) *Fault {
	lift := func() {}
	return makeFault(text, func(s *stage.Stage) error {
		lift = impose(s)
		return nil
	}, func(*stage.Stage) error {
		lift()
		return nil
	})
}

// tuned sets a figure of the networks, and 0 in the end.
func tuned[T any](what string, scope stage.Scope, value T, set func(*network.Network, T)) *Fault {
	on := func(value T) func(*stage.Stage) error {
		return func(s *stage.Stage) error {
			s.Networks.Each(scope, func(n *network.Network) { set(n, value) })
			return nil
		}
	}
	var zero T
	return makeFault(whose(what, scope), on(value), on(zero))
}
