package explore

import (
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// A claim has ended unheard if a client takes its ticket to be in the queue, and Redis has it
// nowhere, though nothing was lost.
func TestWhenAClaimHasEndedUnheard(t *testing.T) {
	id := core.ID{Client: 0, N: 1}
	for _, c := range []struct {
		name   string
		change func(w *world)
		ended  bool
	}{
		{"it is nowhere", func(*world) {}, true},
		{"it is in the queue", func(w *world) { w.server.Queue = []core.Ticket{{ID: id}} }, false},
		{"it has the lock", func(w *world) { w.server.Holders = []server.Holder{{ID: id}} }, false},
		{"its lease is over", func(w *world) { w.server.Holders = []server.Holder{{ID: id, Ends: server.Time(w.now)}} }, true},
		{"another one has it", func(w *world) { w.server.Holders = []server.Holder{{ID: core.ID{Client: 1, N: 1}}} }, true},
		{"Redis has lost everything", func(w *world) { w.wiped = true }, false},
		{"its client is dead", func(w *world) { w.clients[0].dead = true }, false},
	} {
		w := newWorld(&Setup{Clients: 2, Users: 1})
		w.now++
		l, now := w.clients[0].locks[0], w.clock(&w.clients[0])
		l.Subscribed(true, now)
		call := &core.Call{Owner: 1, Waits: true, Until: core.Never}
		l.BeginLock(call, now)
		cmd := l.Command(call, l.Next(call, true, now).Op, now)
		if w.claimEnded() {
			t.Fatalf("%s: it is not in the queue yet", c.name)
		}
		l.Answer(&cmd, nil, core.Reply{Found: core.Waits, Holder: core.ID{Client: 1, N: 1}, TTL: 4}, now)
		if c.change(w); w.claimEnded() != c.ended || call.Tenure.ID != id {
			t.Errorf("%s: %v", c.name, !c.ended)
		}
	}
}
