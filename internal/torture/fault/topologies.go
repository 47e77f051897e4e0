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

// failover has a replica take over, as an operator does before maintenance. It is
// healed by itself: see [stage.Stage.Ready].
type failover struct{ name string }

func (f failover) String() string { return "failover of the primary of " + f.name }

func (f failover) Inject(s *stage.Stage) error {
	if err := s.AllAnswer(); err != nil {
		return err // it would wait for those who do not, whom others are to heal
	}
	return s.Attempt(func() { s.Server.Failover(f.name) })
}

func (failover) Heal(*stage.Stage) error { return nil }

// moveSlot moves the slot of a name to another shard, and back.
type moveSlot struct {
	name string
	away bool
}

func (f *moveSlot) String() string { return "the slot of " + f.name + " moved away and back" }

func (f *moveSlot) Inject(s *stage.Stage) error {
	if err := s.AllAnswer(); err != nil {
		return err
	}
	err := s.Attempt(func() { s.Server.MoveSlot(f.name) })
	f.away = err == nil
	return err
}

func (f *moveSlot) Heal(s *stage.Stage) error {
	if !f.away {
		return nil
	}
	if err := s.AllAnswer(); err != nil {
		return err
	}
	err := s.Attempt(func() { s.Server.MoveSlot(f.name) })
	f.away = err != nil
	return err
}
