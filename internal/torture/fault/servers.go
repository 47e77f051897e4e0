package fault

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofServers() []Kind {
	return []Kind{
		{Name: "pause-server", Where: single, Choose: func(*rand.Rand, Scene) Fault { return pauseServer{} }},
		{Name: "restart", Where: []stage.Topology{stage.Standalone}, Forgets: true, Choose: func(*rand.Rand, Scene) Fault { return restart{} }},
		{Name: "restart-aof", Where: []stage.Topology{stage.AOF}, Choose: func(*rand.Rand, Scene) Fault { return restart{} }},
		{Name: "pause-one", Where: apart, Choose: func(random *rand.Rand, _ Scene) Fault {
			return one{random.IntN(stage.Apart), "SIGSTOP", (*redistest.Server).Pause, (*redistest.Server).Resume}
		}},
		{Name: "restart-one", Where: apart, Choose: func(random *rand.Rand, _ Scene) Fault {
			return one{random.IntN(stage.Apart), "kill -9", (*redistest.Server).Stop, (*redistest.Server).Start}
		}},
		// The new primary may not have all writes that the dead one had confirmed.
		{Name: "pause-primary", Where: replicated, Forgets: true, Choose: func(random *rand.Rand, scene Scene) Fault {
			return &primary{name: scene.name(random), how: "SIGSTOP", hurt: (*redistest.Server).Pause, mend: (*redistest.Server).Resume}
		}},
		{Name: "kill-primary", Where: replicated, Forgets: true, Choose: func(random *rand.Rand, scene Scene) Fault {
			return &primary{name: scene.name(random), how: "kill -9", hurt: (*redistest.Server).Stop, mend: (*redistest.Server).Start}
		}},
	}
}

// pauseServer stops the only server with SIGSTOP.
type pauseServer struct{}

func (pauseServer) String() string              { return "SIGSTOP of the server" }
func (pauseServer) Inject(s *stage.Stage) error { return s.Attempt(s.Server.Pause) }
func (pauseServer) Heal(s *stage.Stage) error   { return s.Attempt(s.Server.Resume) }

// restart kills the only server with kill -9, and starts it when it is healed.
type restart struct{}

func (restart) String() string              { return "kill -9 of the server" }
func (restart) Inject(s *stage.Stage) error { return s.Attempt(s.Server.Stop) }
func (restart) Heal(s *stage.Stage) error   { return s.Attempt(s.Server.Start) }

// one stops or pauses one of several servers, which loses no data.
type one struct {
	number     int
	how        string
	hurt, mend func(*redistest.Server)
}

func (f one) String() string { return fmt.Sprintf("%s of server %d", f.how, f.number) }

func (f one) Inject(s *stage.Stage) error {
	return s.Attempt(func() { f.hurt(s.Servers[f.number]) })
}

func (f one) Heal(s *stage.Stage) error {
	return s.Attempt(func() { f.mend(s.Servers[f.number]) })
}

// primary stops or pauses the node that takes the writes for a name. The others may make
// another one the primary meanwhile.
type primary struct {
	name       string
	how        string
	hurt, mend func(*redistest.Server)

	node *redistest.Server // while it is stopped or paused
}

func (f *primary) String() string { return f.how + " of the primary of " + f.name }

func (f *primary) Inject(s *stage.Stage) error {
	return s.Attempt(func() {
		node := s.Server.Primary(f.name)
		f.hurt(node)
		f.node = node
	})
}

func (f *primary) Heal(s *stage.Stage) error {
	if f.node == nil {
		return nil
	}
	return s.Attempt(func() {
		f.mend(f.node)
		f.node = nil
	})
}
