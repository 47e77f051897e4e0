package fault

import (
	"math/rand/v2"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofTopologies() []Kind {
	return []Kind{
		{Name: "sentinel-failover", Where: sentinel, Forgets: true, Choose: func(_ *rand.Rand, scene Scene) Fault {
			return failover{scene.Names[0]}
		}},
		// A Cluster's planned failover loses no write.
		{Name: "cluster-failover", Where: cluster, Choose: func(random *rand.Rand, scene Scene) Fault { return failover{scene.name(random)} }},
		{Name: "move-slot", Where: cluster, Choose: func(random *rand.Rand, scene Scene) Fault { return &moveSlot{name: scene.name(random)} }},
	}
}

// failover promotes a replica, as an operator does before maintenance. It heals by itself:
// see [stage.Stage.Ready].
type failover struct{ name string }

func (f failover) String() string { return "failover of the primary of " + f.name }

func (f failover) Inject(s *stage.Stage) error {
	if err := s.AllAnswer(); err != nil {
		return err // a failover would wait for stopped nodes, which other faults heal
	}
	return s.Attempt(func() { s.Server.Failover(f.name) })
}

func (failover) Heal(*stage.Stage) error { return nil }

// moveSlot moves the slot of a name to another shard, and back.
type moveSlot struct {
	name string
	// moves is how many moves return the slot: a move that another fault interrupted must be
	// completed, since no node serves all of a slot in migration.
	moves int
}

func (f *moveSlot) String() string { return "the slot of " + f.name + " moved away and back" }

func (f *moveSlot) Inject(s *stage.Stage) error {
	if err := s.AllAnswer(); err != nil {
		return err
	}
	f.moves = 2
	return f.move(s)
}

func (f *moveSlot) Heal(s *stage.Stage) error {
	for f.moves > 0 {
		if err := s.AllAnswer(); err != nil {
			return err
		}
		if err := f.move(s); err != nil {
			return err
		}
	}
	return nil
}

func (f *moveSlot) move(s *stage.Stage) error {
	err := s.Attempt(func() { s.Server.MoveSlot(f.name) })
	if err == nil {
		f.moves--
	}
	return err
}
