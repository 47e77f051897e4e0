package server_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// That the model does what the scripts do is tested in package wire.

var kinds = map[string]server.Kind{"plain": server.Plain, "read-write": server.ReadWrite, "semaphore": server.Semaphore}

func name(id core.ID) byte { return byte(id.Client)<<5 | byte(id.N) }

func key(s *server.Server, now server.Time) []byte { return s.Append(nil, now, name) }

// run executes random commands, with times that begin at start.
func run(kind server.Kind, seed uint64, start server.Time, each func(s *server.Server, c core.Command, now server.Time)) server.Server {
	r := rand.New(rand.NewPCG(seed, 0))
	s := server.Server{Config: &server.Config{Kind: kind, Claim: 2, Silence: 30}, Listens: 3}
	now := start
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
				var keys [][]byte
				run(kind, seed, 100, func(s *server.Server, c core.Command, now server.Time) {
					other := *s
					copies, keys = append(copies, *s), append(keys, key(s, 100))
					other.Do(c, now, &server.Effects{}) // as the explorer does, in another order of events
					other.Do(core.Command{Op: core.Join, Ticket: core.Ticket{ID: core.ID{Client: 1, N: 30}, Owner: 1}, Permits: 2}, now, &server.Effects{})
				})
				for i := range copies {
					require.Equal(t, keys[i], key(&copies[i], 100), "command %d of seed %d", i, seed)
				}
			}
		})
	}
}

func TestStatesThatDifferByTheTimeAreOne(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			var early, late [][]byte
			collect := func(keys *[][]byte) func(*server.Server, core.Command, server.Time) {
				return func(s *server.Server, _ core.Command, now server.Time) { *keys = append(*keys, key(s, now)) }
			}
			run(kind, 1, 100, collect(&early))
			run(kind, 1, 5000, collect(&late))
			assert.Equal(t, early, late)
			assert.Greater(t, len(slices.CompactFunc(early, slices.Equal)), 10, "nothing happens")
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
