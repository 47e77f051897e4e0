package fault

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofWorkers() []Kind {
	return []Kind{
		// Another life begins when it is healed.
		{Name: "kill-worker", Where: everywhere, Choose: ofWorker("kill -9", func(w *stage.Worker) error {
			w.Kill()
			return nil
		}, (*stage.Worker).Revive)},
		// For less than its lease, or for more.
		{Name: "pause-worker", Where: everywhere, Choose: ofWorker("SIGSTOP", (*stage.Worker).Pause, func(w *stage.Worker) error {
			// A worker that was killed meanwhile cannot be resumed.
			if err := w.Resume(); err != nil && err != redistest.ErrKilled {
				return err
			}
			return nil
		})},
	}
}

func ofWorker(how string, hurt, mend func(*stage.Worker) error) func(*rand.Rand, Scene) *Fault {
	return func(random *rand.Rand, scene Scene) *Fault {
		number := random.IntN(scene.Workers)
		f := makeFault(fmt.Sprintf("%s of worker %d", how, number),
			func(s *stage.Stage) error { return hurt(s.Workers[number]) },
			func(s *stage.Stage) error { return mend(s.Workers[number]) })
		f.Worker = number
		return f
	}
}

// A stop is a way to stop a server.
type stop struct {
	how        string
	hurt, mend func(*redistest.Server)
}

var (
	pause = stop{"SIGSTOP", (*redistest.Server).Pause, (*redistest.Server).Resume}
	kill  = stop{"kill -9", (*redistest.Server).Stop, (*redistest.Server).Start}
)

func ofServers() []Kind {
	return []Kind{
		{Name: "pause-server", Where: single, Choose: pause.only},
		{Name: "restart", Where: []stage.Topology{stage.Standalone}, Forgets: true, Choose: kill.only},
		{Name: "restart-aof", Where: []stage.Topology{stage.AOF}, Choose: kill.only},
		{Name: "pause-one", Where: apart, Choose: pause.one},
		{Name: "restart-one", Where: apart, Choose: kill.one},
		// The new primary may not have all writes that the dead one had confirmed.
		{Name: "pause-primary", Where: replicated, Forgets: true, Choose: pause.primary},
		{Name: "kill-primary", Where: replicated, Forgets: true, Choose: kill.primary},
	}
}

// only stops the only server.
func (k stop) only(*rand.Rand, Scene) *Fault { return k.numbered(0, "the server") }

// one stops one of several servers, which loses no data.
func (k stop) one(random *rand.Rand, _ Scene) *Fault {
	number := random.IntN(stage.Apart)
	return k.numbered(number, fmt.Sprintf("server %d", number))
}

func (k stop) numbered(number int, which string) *Fault {
	return makeFault(k.how+" of "+which,
		func(s *stage.Stage) error { return s.Attempt(func() { k.hurt(s.Servers[number]) }) },
		func(s *stage.Stage) error { return s.Attempt(func() { k.mend(s.Servers[number]) }) })
}

// primary stops the node that takes the writes for a name. The others may make another one the primary meanwhile.
func (k stop) primary(random *rand.Rand, scene Scene) *Fault {
	name := scene.name(random)
	var stopped *redistest.Server
	return makeFault(k.how+" of the primary of "+name, func(s *stage.Stage) error {
		return s.Attempt(func() {
			node := s.Server.Primary(name)
			k.hurt(node)
			stopped = node
		})
	}, func(s *stage.Stage) error {
		if stopped == nil {
			return nil
		}
		return s.Attempt(func() {
			k.mend(stopped)
			stopped = nil
		})
	})
}

func ofTopologies() []Kind {
	return []Kind{
		{Name: "sentinel-failover", Where: sentinel, Forgets: true, Choose: func(_ *rand.Rand, scene Scene) *Fault { return failover(scene.Names[0]) }},
		// A Cluster's planned failover loses no write.
		{Name: "cluster-failover", Where: cluster, Choose: func(random *rand.Rand, scene Scene) *Fault { return failover(scene.name(random)) }},
		{Name: "move-slot", Where: cluster, Choose: func(random *rand.Rand, scene Scene) *Fault { return moveSlot(scene.name(random)) }},
	}
}

// failover promotes a replica, as an operator does before maintenance. It heals by itself: see [stage.Stage.Ready].
func failover(name string) *Fault {
	return makeFault("failover of the primary of "+name, func(s *stage.Stage) error {
		if err := s.AllAnswer(); err != nil {
			return err // a failover would wait for stopped nodes, which other faults heal
		}
		return s.Attempt(func() { s.Server.Failover(name) })
	}, nothing)
}

// moveSlot moves the slot of a name to another shard, and back.
func moveSlot(name string) *Fault {
	// moves is how many moves return the slot: a move that another fault interrupted must be completed, since no node serves
	// all of a slot in migration.
	moves := 0
	move := func(s *stage.Stage) error {
		err := s.AllAnswer()
		if err == nil {
			err = s.Attempt(func() { s.Server.MoveSlot(name) })
		}
		if err == nil {
			moves--
		}
		return err
	}
	return makeFault("the slot of "+name+" moved away and back", func(s *stage.Stage) error {
		if err := s.AllAnswer(); err != nil {
			return err
		}
		moves = 2
		return move(s)
	}, func(s *stage.Stage) (err error) {
		for moves > 0 && err == nil {
			err = move(s)
		}
		return err
	})
}
