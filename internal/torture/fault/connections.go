package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

func ofConnections() []Kind {
	return []Kind{
		{Name: "client-kill", Where: everywhere, Choose: func(random *rand.Rand, _ Scene) Fault {
			return &killConnections{kind: "normal", interval: often(random)}
		}},
		{Name: "client-kill-pubsub", Where: everywhere, Choose: func(random *rand.Rand, _ Scene) Fault {
			return &killConnections{kind: "pubsub", interval: often(random)}
		}},
		{Name: "client-pause", Where: slices.Concat(single, apart, cluster), Choose: choosePause},
		// Sentinels are clients too, and take a primary that pauses them for dead.
		{Name: "client-pause", Where: sentinel, Forgets: true, Choose: choosePause},
		{Name: "script-flush", Where: everywhere, Choose: func(*rand.Rand, Scene) Fault { return new(flushScripts) }},
	}
}

// often is an interval between 10 ms and a second.
func often(random *rand.Rand) time.Duration {
	return []time.Duration{10, 30, 100, 300, 1000}[random.IntN(5)] * time.Millisecond
}

// killConnections makes the servers end the workers' connections, again and again.
type killConnections struct {
	kind     string // normal or pubsub
	interval time.Duration
	loop     *loop
}

func (f *killConnections) String() string {
	return fmt.Sprintf("CLIENT KILL of %s connections every %v", f.kind, f.interval)
}

func (f *killConnections) Inject(s *stage.Stage) error {
	f.loop = every(f.interval, func() {
		// A node that is down has no connections.
		_ = s.Everywhere("CLIENT", "KILL", "USER", stage.User, "TYPE", f.kind)
	})
	return nil
}

func (f *killConnections) Heal(*stage.Stage) error {
	f.loop.end()
	return nil
}

func choosePause(random *rand.Rand, scene Scene) Fault {
	what := []string{"ALL", "WRITE"}[random.IntN(2)]
	return pauseClients{what, time.Duration(random.Int64N(int64(2 * scene.Lease))).Round(time.Millisecond)}
}

// pauseClients makes the servers answer no client, or no client that writes. It ends by
// itself, since no paused client can end it.
type pauseClients struct {
	what  string
	lasts time.Duration
}

func (f pauseClients) String() string {
	return fmt.Sprintf("CLIENT PAUSE %d %s", f.lasts.Milliseconds(), f.what)
}

func (f pauseClients) Inject(s *stage.Stage) error {
	return s.Everywhere("CLIENT", "PAUSE", strconv.FormatInt(f.lasts.Milliseconds(), 10), f.what)
}

func (f pauseClients) Heal(s *stage.Stage) error { return s.Everywhere("CLIENT", "UNPAUSE") }

// flushScripts makes the servers forget the scripts, every 10 ms.
type flushScripts struct{ loop *loop }

func (f *flushScripts) String() string { return "SCRIPT FLUSH every 10ms" }

func (f *flushScripts) Inject(s *stage.Stage) error {
	f.loop = every(10*time.Millisecond, func() { _ = s.Everywhere("SCRIPT", "FLUSH") })
	return nil
}

func (f *flushScripts) Heal(*stage.Stage) error {
	f.loop.end()
	return nil
}
