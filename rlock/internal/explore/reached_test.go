package explore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// A report keeps the errors of a test that is to fail.
type report struct {
	testing.TB
	errors []string
}

func (r *report) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// A full run that does not reach a hard state fails, and says which one. A short one does not.
func TestARunThatMissesAHardStateFails(t *testing.T) {
	all := Reached{1, 1, 1, 1, 1}
	for i := range hardStates {
		n := total{reached: all}
		n.reached[i] = 0
		r, short := report{TB: t}, report{TB: t}
		n.ledger(&r, true)
		n.ledger(&short, false)
		if want := "no state was reached in which there is " + hardStates[i].name; !slices.Equal(r.errors, []string{want}) || short.errors != nil {
			t.Errorf("without %s: %q, and a short run: %q", hardStates[i].name, r.errors, short.errors)
		}
	}
	r := report{TB: t}
	n := total{reached: all}
	if n.ledger(&r, true); r.errors != nil {
		t.Errorf("all are reached, and it fails: %q", r.errors)
	}
}

// A claim has ended unheard if a client takes its ticket to be in the queue, and Redis has it nowhere, though nothing was
// lost.
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
		l.Listening(true, now)
		call := &core.Call{Owner: 1, Waits: true, Until: core.Never}
		l.Lock(call, now)
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
