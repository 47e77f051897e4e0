package server_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/fleet/server"
	"github.com/go-rlock/rlock/internal/core"
	model "github.com/go-rlock/rlock/internal/explore/server"
)

// TestItIsTheModel runs random commands by both: replies, lock, queue, marks, times and messages are the same.
func TestItIsTheModel(t *testing.T) {
	counts := make(map[string]int)
	for _, clients := range []uint32{2, 5, 40} {
		for seed := range uint64(150) {
			compare(t, clients, seed, counts)
		}
	}
	for _, what := range []string{"Acquire 3", "Acquire 0", "Join 1", "Join 2", "Join 3", "Look 0", "Look 1", "Look 2", "Look 3", "Leave 0", "Leave 1", "Leave 2", "Leave 3", "Mirror 0", "Mirror 3", "buried", "called", "granted", "long"} {
		require.Greater(t, counts[what], 20, "%s is rare: %v", what, counts)
	}
}

var ops = [...]core.Op{core.Acquire, core.Join, core.Join, core.Join, core.Look, core.Look, core.Leave, core.Leave, core.Leave, core.Mirror, core.Step, core.Unmark}

var opNames = map[core.Op]string{core.Acquire: "Acquire", core.Join: "Join", core.Look: "Look", core.Leave: "Leave", core.Mirror: "Mirror", core.Step: "Step", core.Unmark: "Unmark"}

func compare(t *testing.T, clients uint32, seed uint64, counts map[string]int) {
	const claim, silence = 2000, 20_000
	r := rand.New(rand.NewPCG(seed, uint64(clients)))
	m := model.Server{Config: &model.Config{Kind: model.Plain, Claim: claim, Silence: silence, Windows: model.RedisWindows}}
	listens := make(map[uint32]bool)
	config := &server.Config{Claim: claim, Silence: silence, Listens: func(c uint32) bool { return listens[c] }}
	var l server.Lock
	var tickets []core.Ticket
	now := model.Time(1000)
	old, oldModel := &server.Lock{}, model.Server{}
	kinds := ops[:]
	if clients > 5 && seed%2 == 0 {
		kinds = slices.Concat(kinds, slices.Repeat([]core.Op{core.Join}, 12)) // long queues
	}
	for step := range 60 + 10*int(clients) {
		switch r.IntN(12) {
		case 0:
			now += model.Time(r.IntN(3000))
		case 1:
			now += model.Time(r.IntN(30_000) / (1 + 9*min(r.IntN(4), 1)))
		}
		if r.IntN(4) == 0 {
			c := r.Uint32N(clients)
			listens[c] = r.IntN(4) > 0
			if m.Listens = m.Listens.Without(c); listens[c] {
				m.Listens = m.Listens.With(c)
			}
		}
		pick := func() core.Ticket {
			// Most commands are about tenures that there are: the holder, one in the queue, or one of late.
			switch n := r.IntN(10); {
			case n < 3 && len(m.Holders) > 0:
				return core.Ticket{ID: m.Holders[0].ID, Owner: m.Holders[0].Owner}
			case n < 6 && len(m.Queue) > 0:
				return m.Queue[r.IntN(len(m.Queue))]
			case n < 7 && len(tickets) > 0:
				return tickets[r.IntN(len(tickets))]
			}
			t := core.Ticket{ID: core.ID{Client: r.Uint32N(clients), N: uint64(step + 1), Lingers: r.IntN(4) == 0}, Owner: core.OwnerID(1 + r.IntN(2)), Polls: r.IntN(5) == 0}
			tickets = append(tickets, t)
			return t
		}
		c := core.Command{Op: kinds[r.IntN(len(kinds))], Ticket: pick(), Lease: core.Span(3000 + r.IntN(30_000)), Writes: 1, Asks: r.IntN(2) == 0}
		if c.Op == core.Leave && r.IntN(3) == 0 {
			c.Joins = pick()
		}
		if c.Op == core.Join && clients > 5 && r.IntN(2) == 0 {
			c.Ticket = core.Ticket{ID: core.ID{Client: r.Uint32N(clients), N: uint64(step + 1)}, Owner: 1}
		}
		var ours, theirs model.Effects
		dead := len(m.Queue)
		a := l.Do(config, &c, now, &ours)
		b := m.Do(c, now, &theirs)
		where := []any{"clients %d, seed %d, step %d: %s %+v", clients, seed, step, opNames[c.Op], c}
		require.Equal(t, b, a, where...)
		require.Equal(t, theirs, ours, where...)
		same(t, &m, &l, where)

		counts[fmt.Sprintf("%s %d", opNames[c.Op], a.Found)]++
		if len(m.Queue) < dead-2 && len(m.Queue) > 0 {
			counts["buried"]++
		}
		if len(m.Queue) > 20 {
			counts["long"]++
		}
		for _, msg := range ours.Messages {
			switch msg.Kind {
			case core.Called:
				counts["called"]++
			case core.Granted:
				counts["granted"]++
			}
		}
		switch r.IntN(50) {
		case 0:
			old, oldModel = l.Clone(), m
		case 1: // a failover to an older state
			if oldModel.Config != nil {
				l, m = *old.Clone(), oldModel
				m.Listens = 0
				clear(listens)
			}
		}
	}
}

func same(t *testing.T, m *model.Server, l *server.Lock, where []any) {
	t.Helper()
	if len(m.Holders) == 0 {
		require.Equal(t, core.ID{}, l.Holder, where...)
	} else {
		require.Equal(t, m.Holders[0].ID, l.Holder, where...)
		require.Equal(t, m.Holders[0].Owner, l.Owner, where...)
		require.Equal(t, m.Ends, l.Ends, where...)
	}
	require.Equal(t, m.Queue, slices.Collect(l.Queue.All), where...)
	require.Equal(t, len(m.Queue), l.Queue.Len(), where...)
	require.ElementsMatch(t, m.Marks, l.Marks, where...)
	require.Equal(t, m.QueueEnds, l.QueueEnds, where...)
}

func BenchmarkJoinAndLeaveOfALongQueue(b *testing.B) {
	config := &server.Config{Claim: 2000, Silence: 60_000, Listens: func(uint32) bool { return true }}
	var l server.Lock
	var fx server.Effects
	for i := range uint64(100_000) {
		l.Do(config, &core.Command{Op: core.Join, Ticket: core.Ticket{ID: core.ID{Client: uint32(i), N: i + 1}, Owner: 1}}, 1, &fx)
	}
	n := uint64(100_000)
	b.ReportAllocs()
	for b.Loop() {
		fx.Messages, fx.Granted = fx.Messages[:0], fx.Granted[:0]
		n++
		c := core.Command{Op: core.Leave, Ticket: core.Ticket{ID: l.Holder, Owner: l.Owner}}
		c.Joins = core.Ticket{ID: core.ID{Client: uint32(n), N: n}, Owner: 1}
		l.Do(config, &c, 1, &fx)
	}
}
