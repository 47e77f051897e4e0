package fault

import (
	"fmt"
	"math/rand/v2"

	"github.com/go-rlock/rlock/internal/launch"
	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofWorkers() []Kind {
	return []Kind{
		{Name: "kill-worker", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault {
			return killWorker{scene.worker(random)}
		}},
		{Name: "pause-worker", Where: everywhere, Choose: func(random *rand.Rand, scene Scene) Fault {
			return pauseWorker{scene.worker(random)}
		}},
	}
}

// killWorker ends a worker with kill -9. Another life begins when it is healed.
type killWorker struct{ number int }

func (f killWorker) String() string { return fmt.Sprintf("kill -9 of worker %d", f.number) }
func (f killWorker) Worker() int    { return f.number }

func (f killWorker) Inject(s *stage.Stage) error {
	s.Workers[f.number].Kill()
	return nil
}

func (f killWorker) Heal(s *stage.Stage) error { return s.Workers[f.number].Revive() }

// pauseWorker stops a worker with SIGSTOP, for less than its lease or for more.
type pauseWorker struct{ number int }

func (f pauseWorker) String() string              { return fmt.Sprintf("SIGSTOP of worker %d", f.number) }
func (f pauseWorker) Worker() int                 { return f.number }
func (f pauseWorker) Inject(s *stage.Stage) error { return s.Workers[f.number].Pause() }

func (f pauseWorker) Heal(s *stage.Stage) error {
	// A worker that was killed meanwhile cannot be resumed.
	if err := s.Workers[f.number].Resume(); err != nil && err != launch.ErrKilled {
		return err
	}
	return nil
}
