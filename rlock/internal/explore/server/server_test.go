package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// That the model does what the scripts do is tested in package wire.

var kinds = map[string]server.Kind{"plain": server.Plain, "read-write": server.ReadWrite, "semaphore": server.Semaphore}

// run executes random commands.
func run(kind server.Kind, seed uint64, each func(s *server.Server, c core.Command, now server.Time)) server.Server {
	r := rand.New(rand.NewPCG(seed, 0))
	s := server.Server{Config: &server.Config{Kind: kind, Claim: 2, Silence: 30}, Listens: 3}
	now := server.Time(100)
	for n := range uint64(25) {
		if r.IntN(4) == 0 {
			now++
		}
		c := core.Command{
			Op:     []core.Op{core.Acquire, core.Join, core.Join, core.Look, core.Leave, core.Mirror, core.Step, core.Unmark}[r.IntN(8)],
			Ticket: core.Ticket{ID: core.ID{Client: r.Uint32N(3), N: r.Uint64N(n/3 + 1)}, Mode: core.Mode(r.IntN(2)), Owner: 1},
			Lease:  4, Mirrored: core.Mirrored{Writes: 1}, Permits: 2, Tokens: 1,
		}
		each(&s, c, now)
		s.Do(c, now, &server.Effects{})
	}
	return s
}

func TestACopyIsASnapshot(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				var copies []server.Server
				var texts []string
				run(kind, seed, func(s *server.Server, c core.Command, now server.Time) {
					other := *s
					copies, texts = append(copies, *s), append(texts, fmt.Sprint(*s))
					other.Do(c, now, &server.Effects{}) // as the explorer does, in another order of events
					other.Do(core.Command{Op: core.Join, Ticket: core.Ticket{ID: core.ID{Client: 1, N: 30}, Owner: 1}, Permits: 2}, now, &server.Effects{})
				})
				for i := range copies {
					require.Equal(t, texts[i], fmt.Sprint(copies[i]), "command %d of seed %d", i, seed)
				}
			}
		})
	}
}

func BenchmarkStep(b *testing.B) {
	s := server.Server{Config: &server.Config{Kind: server.Plain, Claim: 2, Silence: 30}, Listens: 3}
	ticket := func(client uint32, n uint64) core.Ticket {
		return core.Ticket{ID: core.ID{Client: client, N: n}, Owner: 1}
	}
	effects := &server.Effects{}
	s.Do(core.Command{Op: core.Acquire, Ticket: ticket(0, 1), Lease: 4}, 1, effects)
	s.Do(core.Command{Op: core.Join, Ticket: ticket(1, 1)}, 1, effects)
	b.ReportAllocs()
	for b.Loop() {
		c := s
		effects.Messages, effects.Granted = effects.Messages[:0], effects.Granted[:0]
		c.Do(core.Command{Op: core.Leave, Ticket: ticket(0, 1), Joins: ticket(0, 2)}, 1, effects)
	}
}
