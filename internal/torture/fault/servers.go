package fault

import (
	"math/rand/v2"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofServers() []Kind {
	return []Kind{
		{Name: "pause-server", Where: single, Choose: func(*rand.Rand, Scene) Fault { return pauseServer{} }},
		{Name: "restart", Where: []stage.Topology{stage.Standalone}, Forgets: true, Choose: func(*rand.Rand, Scene) Fault { return restart{} }},
		{Name: "restart-aof", Where: []stage.Topology{stage.AOF}, Choose: func(*rand.Rand, Scene) Fault { return restart{} }},
		// Whoever takes over may not have all that the dead one had confirmed.
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

// primary hurts the node that takes the writes for a name. The others may make
// another the primary meanwhile.
type primary struct {
	name       string
	how        string
	hurt, mend func(*redistest.Server)

	node *redistest.Server // while it is hurt
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
