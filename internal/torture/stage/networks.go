package stage

import (
	"fmt"
	"slices"
	"sync"

	"github.com/go-rlock/rlock/internal/network"
)

// A Scope names the workers that a fault of the network affects: Everyone, or the worker of
// that number.
type Scope int

// Everyone is all workers, and all other clients of the stage.
const Everyone Scope = -1

// networks are those in front of the data nodes: for each node one for each worker, so that a
// holder can be cut off from the others, and one for all other clients. Several faults may
// affect them at once, so the rules of all are kept, and the first rule that does not pass a
// frame decides about it.
type networks struct {
	mu      sync.Mutex // protects following
	fronts  []front
	rules   []*imposed
	refused []*Scope // of the faults that refuse connections
}

// A front is a network in front of one node.
type front struct {
	*network.Network
	worker int // -1 for a client that is no worker
	node   string
}

type imposed struct {
	scope Scope
	rule  func() network.Rule
}

// meets reports whether the scope includes f.
func (s Scope) meets(f front) bool { return s == Everyone || int(s) == f.worker }

// open makes the networks of a worker, in front of each node.
func (n *networks) open(worker int, nodes []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range nodes {
		one, err := network.Listen(node)
		if err != nil {
			return fmt.Errorf("stage: %w", err)
		}
		n.fronts = append(n.fronts, front{one, worker, node})
	}
	n.applyLocked()
	return nil
}

// of returns the addresses of a worker's networks, by those of the nodes.
func (n *networks) of(worker int) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	addresses := make(map[string]string)
	for _, f := range n.fronts {
		if f.worker == worker {
			addresses[f.node] = f.Addr()
		}
	}
	return addresses
}

// Each calls f for each network of the scope.
func (n *networks) Each(scope Scope, f func(*network.Network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.fronts {
		if scope.meets(one) {
			f(one.Network)
		}
	}
}

// Impose adds a rule, made for each network, since rules may count. The returned function
// removes it, and delivers held frames; it may be called twice.
func (n *networks) Impose(scope Scope, rule func() network.Rule) (lift func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := &imposed{scope, rule}
	n.rules = append(n.rules, one)
	n.applyLocked()
	return func() {
		n.mu.Lock()
		i := slices.Index(n.rules, one)
		if i >= 0 {
			n.rules = slices.Delete(n.rules, i, i+1)
			n.applyLocked()
		}
		n.mu.Unlock()
		if i >= 0 {
			n.Each(scope, (*network.Network).Deliver)
		}
	}
}

// Refuse makes the networks refuse connections, and cuts the open ones, until the returned
// function is called, which may be called twice.
func (n *networks) Refuse(scope Scope) (lift func()) {
	n.mu.Lock()
	id := &scope
	n.refused = append(n.refused, id)
	n.mu.Unlock()
	n.Each(scope, (*network.Network).Refuse)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		i := slices.Index(n.refused, id)
		if i < 0 {
			return
		}
		n.refused = slices.Delete(n.refused, i, i+1)
		for _, f := range n.fronts {
			refused := func(s *Scope) bool { return s.meets(f) }
			if scope.meets(f) && !slices.ContainsFunc(n.refused, refused) {
				f.Heal()
			}
		}
		n.applyLocked() // Heal removes the rules as well
	}
}

func (n *networks) applyLocked() {
	for _, f := range n.fronts {
		var rules []network.Rule
		for _, one := range n.rules {
			if one.scope.meets(f) {
				rules = append(rules, one.rule())
			}
		}
		if len(rules) == 0 {
			f.Rule(nil)
			continue
		}
		f.Rule(func(frame network.Frame) network.Fate {
			for _, rule := range rules {
				if fate := rule(frame); fate != network.Pass {
					return fate
				}
			}
			return network.Pass
		})
	}
}
