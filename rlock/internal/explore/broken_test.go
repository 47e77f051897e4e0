//go:build broken

package explore

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

var (
	faulty    = Setup{Clients: 2, Users: 1, Rounds: 1, Do: Cancel, Faults: 1, Fault: Break | Late | LoseMessage | Slow | Partition}
	twice     = Setup{Clients: 2, Users: 1, Rounds: 2, Faults: 2, Fault: Slow}
	tries     = Setup{Clients: 2, Users: 1, Rounds: 2, Do: Try | Cancel}
	crowd     = Setup{Clients: 2, Users: 2, Passes: 5}
	abroad    = Setup{Clients: 2, Users: 1, Rounds: 1, Foreign: []Foreign{Subscriber}, ForeignRounds: 1, Look: 9, Lease: 9, Do: Cancel}
	passOn    = Setup{Clients: 2, Users: 1, Rounds: 2, Do: Pass}
	repeats   = Setup{Clients: 2, Users: 1, Rounds: 1, Do: Fixed | Nest, Faults: 1, Fault: Repeat}
	forgotten = Setup{Clients: 2, Users: 1, Rounds: 1, Lease: 20, Faults: 1, Fault: Repeat}
	reads     = Setup{Clients: 2, Users: 2, Rounds: 1, RW: true, Do: Read}
)

// In deadWaiter a client dies in the queue of a free lock.
func deadWaiter(w *world) {
	c := &w.clients[1]
	c.dead = true
	w.server.Queue = []core.Ticket{{ID: core.ID{Client: 1, N: 1}, Owner: 1}}
	w.server.QueueEnds = server.Time(w.now + 8)
}

func but(s Setup, change func(*Setup)) Setup {
	change(&s)
	return s
}

// Each rule of the client that is broken is found, with the shortest way there unless it is long.
var brokenRules = []struct {
	name  string
	rules core.Rule
	found string // a part of the violation
	slow  bool   // it takes more than 20 000 states
	long  bool   // depth first finds it much sooner, or the way there is too long to look for the shortest one
	setup Setup
}{
	{"LeaveAgain", core.LeaveAgain, "has the key", false, false, faulty},
	{"LastLeave", core.LastLeave, "has the key", true, false, Setup{Clients: 2, Users: 1, Rounds: 1, Lease: 20, Do: Cancel, Faults: 1, Fault: Freeze}},
	{"OwnSendTime", core.OwnSendTime, "before another one knows", true, false, twice},
	{"TrustFromSeen", core.TrustFromSeen, "before another one knows", true, false, twice},
	{"CapEnds", core.CapEnds, "is holding", false, false, Setup{Clients: 1, Users: 1, Rounds: 1, Do: Capped}},
	{"CapLimits", core.CapLimits, "the summary of its levels", false, false, Setup{Clients: 1, Users: 1, Rounds: 1, Do: Capped | Nest}},
	{"Stays", core.Stays, "a lock that stays", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Do: Stay}},
	{"LeastLease", core.LeastLease, "before another one knows", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Lease: 9, Do: SetLease | Nest, Faults: 1, Fault: Break | Late}},
	{"LeastLease of a command that is repeated", core.LeastLease, "before another one knows", true, false, but(repeats, func(s *Setup) { s.Do = OnlyFixed | Nest })},
	{"Lengthens", core.Lengthens | core.LeastLease, "before another one knows", false, false, repeats},
	{"Lengthens readers", core.Lengthens | core.LeastLease, "before another one knows", true, false, but(repeats, func(s *Setup) { s.RW = true; s.Do |= FixedRead })},
	{"Lengthens permits", core.Lengthens | core.LeastLease, "before another one knows", false, false, but(repeats, func(s *Setup) { s.Kind = permit })},
	{"JoinOnce", core.JoinOnce, "has the key", false, false, faulty},
	{"JoinClaims", core.JoinClaims, "before another one knows", true, false, twice},
	{"Looks", core.Looks, "nothing will ever be sent", false, false, faulty},
	{"Remember", core.Remember, "does not know", false, false, tries},
	{"BriefClaims", core.BriefClaims, "before another one knows", true, false, Setup{Clients: 2, Users: 1, Rounds: 2, Lease: 6, Claim: 4, Brief: 2, Faults: 1, Fault: Slow}},
	{"HalfAClaim", core.HalfAClaim, "fewer than two faults", true, false, but(faulty, func(s *Setup) { s.Steady = true; s.Do = 0; s.Faults = 2; s.Fault = Break | Slow })},
	{"GiveBack", core.GiveBack, "does nothing about it", true, false, but(faulty, func(s *Setup) { s.Do = 0; s.Fault = Endless })},
	{"KnowsItsOwn", core.KnowsItsOwn, "no owner holds", false, true, forgotten},
	{"KnowsItsOwn of permits", core.KnowsItsOwn, "no owner holds", false, true, but(forgotten, func(s *Setup) { s.Kind = permit })},
	{"AllPermits", core.AllPermits, "before another one knows", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide}},
	{"NestsWithin", core.NestsWithin, "before another one knows", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Kind: permits, Do: Wide | Nest}},
	{"GivesAll", core.GivesAll, "no owner holds", false, true, but(forgotten, func(s *Setup) { s.Kind = permits; s.Do = Wide })},
	{"NewTicket", core.NewTicket, "free for", false, false, faulty},
	{"LooksAgain", core.LooksAgain, "free for", false, false, but(faulty, func(s *Setup) { s.Fault = Cut; s.Look = 7 })},
	{"TrySteps", core.TrySteps, "only the dead have waited", false, false, Setup{Clients: 2, Users: 1, Do: Try, begin: deadWaiter}},
	{"PollsOften", core.PollsOften, "free for", false, false, but(tries, func(s *Setup) { s.Polling = true; s.Look = 9; s.Lease = 9 })},
	{"HandoffLimit", core.HandoffLimit, "is passed", true, true, crowd},
	{"MirrorTells", core.MirrorTells, "is passed", true, true, crowd},
	{"ResumeSpends", core.ResumeSpends, "is passed", false, true, but(crowd, func(s *Setup) { s.Do = Pass; s.Lease = 9 })},
	{"LoseInTime", core.LoseInTime, "before another one knows", false, false, faulty},
	{"KeepLate", core.KeepLate, "was passed", true, false, Setup{Clients: 3, Users: 1, Rounds: 1, Kind: fair, Lease: 3, Claim: 4, Faults: 1, Fault: Stall}},
	{"LeaveFirst", core.LeaveFirst, "that it releases", false, false, Setup{Clients: 1, Users: 1, Rounds: 2, Lazy: true, Do: Cancel}},
	{"PassTicket", core.PassTicket, "gives up a position", false, false, Setup{Clients: 2, Users: 2, Rounds: 1, Do: Cancel}},
	{"HeldBackTicket", core.HeldBackTicket, "while others read", true, true, Setup{Clients: 1, Users: 2, RW: true, Do: Read | OnlyRead, Foreign: []Foreign{Subscriber}, Look: 9, Lease: 9}},
	{"Downgrades", core.Downgrades, "waits for a look", false, false, but(reads, func(s *Setup) { s.Do |= Downgrade; s.Users = 1; s.Look = 9; s.Lease = 9 })},
	{"Downgrades of a pass", core.Downgrades, "waits for a look", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, RW: true, Do: Read | Downgrade | Pass}},
	{"PartedUnmarks", core.PartedUnmarks, "a mark of client", true, true, Setup{Clients: 2, Users: 2, Rounds: 1, Kind: fair, Do: Stay}},
	{"KnowsParted", core.KnowsParted, "a lock that stays", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Do: Stay, Faults: 1, Fault: Forge}},
	{"KnowsParted of a pass", core.KnowsParted, "a lock that was passed on is released", false, false, but(passOn, func(s *Setup) { s.Faults = 1; s.Fault = Forge })},
	{"ResumesAgain", core.ResumesAgain, "it has resumed", false, false, but(passOn, func(s *Setup) { s.Faults = 1; s.Fault = Break })},
	{"OwnAnswer", core.OwnAnswer, "none wakes it", false, false, Setup{Clients: 1, Users: 1, Rounds: 1, Slots: 1}},
	{"PassReleases", core.PassReleases, "has the key", false, false, but(passOn, func(s *Setup) { s.Faults = 1; s.Fault = Break })},
	{"WindowTold", core.WindowTold, "free for", true, false, but(abroad, func(s *Setup) { s.Foreign = []Foreign{Sleeper} })},
	{"ListenerLooks", core.ListenerLooks | core.HolderFollowed, "free for", true, false, but(abroad, func(s *Setup) { s.Clients = 1; s.ForeignRounds = 2 })},
	{"FrontListens", core.FrontListens, "free for", false, true, abroad},
	{"HolderFollowed", core.HolderFollowed, "free for", true, false, but(abroad, func(s *Setup) { s.Clients = 1; s.Foreign = []Foreign{Poller}; s.ForeignRounds = 2 })},
	{"TellsShorter", core.TellsShorter, "free for", false, false, but(abroad, func(s *Setup) { s.Clients = 1; s.Do = Pass })},
	{"TellsShorter, stays", core.TellsShorter, "free for", false, false, but(abroad, func(s *Setup) { s.Clients = 1; s.Do = Stay })},
	{"WriterGivesWay", core.WriterGivesWay, "reader has waited", true, true, but(reads, func(s *Setup) {
		s.Clients = 1
		s.Foreign = []Foreign{Reader, Reader}
		s.ForeignRounds = 0
		s.Look = 9
		s.Lease = 9
	})},
	{"EndOfReaders", core.EndOfReaders, "2 valid holders", true, false, claimed},
	{"OwnWaiters", core.OwnWaiters, "waits for itself", false, false, Setup{Clients: 1, Users: 2, Rounds: 1, Do: Same}},
	{"StrictOrder", core.StrictOrder, "was passed", false, false, but(crowd, func(s *Setup) { s.Kind = fair; s.Rounds = 1 })},
	{"WriteEnds", core.WriteEnds, "in a later hold", false, false, Setup{Clients: 1, Users: 2, Rounds: 1, Do: Write, Faults: 1, Fault: Break | Late}},
	{"WriteEnds with a release that writes", core.WriteEnds, "has no command", false, false, Setup{Clients: 1, Users: 2, Rounds: 1, Do: Carry}},
	{"WriteEnds after the answer", core.WriteEnds, "in a later hold", false, false, Setup{Clients: 1, Users: 2, Rounds: 1, Ordered: true, Do: Write, Faults: 1, Fault: Double}},
	{"BoundCounts", core.BoundCounts, "asks for one of", false, false, Setup{Clients: 1, Users: 3, Rounds: 1, Do: Bounded, Most: 2}},
	{"BoundIsItsOwn", core.BoundIsItsOwn, "without a bound is refused", false, false, Setup{Clients: 2, Users: 2, Rounds: 1, Do: Bounded | Cancel}},
	{"BoundOnce", core.BoundOnce, "asks for a position", true, false, Setup{Clients: 3, Users: 1, Rounds: 1, Do: OnlyBounded, Faults: 1, Fault: LoseQueue}},
	{"BoundAsks", core.BoundAsks, "has not asked for a position", false, false, Setup{Clients: 1, Users: 2, Rounds: 1, Do: Bounded}},
	{"ForcedOut", core.ForcedOut, "has released by force", false, false, Setup{Clients: 1, Users: 1, Rounds: 1, Overtakes: true, Do: Force}},
	{"ForcedOut of a ticket in the queue", core.ForcedOut, "has released by force", false, true, Setup{Clients: 2, Users: 1, Rounds: 1, Do: Force}},
	{"ShowsNote", core.ShowsNote, "another note", false, false, Setup{Clients: 1, Users: 2, Rounds: 2, RW: true, Lease: 9, Do: Noted | OnlyRead | Read | FixedRead}},
	{"TakesFirst", core.TakesFirst, "takes it over", false, false, Setup{Clients: 3, Users: 1, Rounds: 1, Do: Take}},
	{"YieldsInTime", core.YieldsInTime, "by force, without a fault", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Do: Take}},
	{"YieldsToIt", core.YieldsToIt, "is handed off", true, true, Setup{Clients: 2, Users: 2, Rounds: 1, Do: Take}},
	{"AsksWhoTakes", core.AsksWhoTakes, "no ticket takes it over", false, false, Setup{Clients: 1, Users: 1, Rounds: 1, Faults: 1, Fault: Forge}},
	{"AsksIfLet", core.AsksIfLet, "nobody takes the lock over", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Faults: 1, Fault: Forge}},
	{"LetsTheNamed", core.LetsTheNamed, "by the ticket of another one", false, false, Setup{Clients: 2, Users: 2, Rounds: 1, Do: Let | Cancel}},
	{"ForceWaits", core.ForceWaits, "by force, without a fault", false, false, Setup{Clients: 2, Users: 1, Rounds: 1, Do: Take}},
	{"Reserves", core.Reserves, "has token", false, false, but(crowd, func(s *Setup) { s.Kind.Fenced = true; s.Rounds = 2 })},
}

// Each rule of the client is broken by a row, and docs/protocol.md names no other one.
func TestEachRuleHasARow(t *testing.T) {
	rows := map[string]bool{}
	var broken core.Rule
	for _, b := range brokenRules {
		rows[b.name] = true
		broken |= b.rules
	}
	if all := core.Rules(); broken != all {
		t.Errorf("no row breaks %b", all&^broken)
	}
	text, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := bytes.Cut(text, []byte("\n## Rules\n"))
	named := regexp.MustCompile("`([A-Z][a-z]+[A-Za-z]*)`").FindAllSubmatch(text, -1)
	if !ok || len(named) < 20 {
		t.Fatalf("%d rules are named", len(named))
	}
	for _, m := range named {
		if name := string(m[1]); name != "TryLock" && !rows[name] {
			t.Errorf("no row breaks %s", name)
		}
	}
}

// The most states in which a broken rule is looked for.
const mostBroken = 400_000

func TestBrokenRules(t *testing.T) {
	for _, b := range brokenRules {
		if !strings.Contains(b.name, *only) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			if b.slow && testing.Short() {
				t.Skip("more than 20 000 states")
			}
			t.Parallel()
			s := b.setup
			s.Broken.Rules = b.rules
			explore := Shortest
			if b.long {
				explore = All
			}
			limit := Limit{States: mostBroken}
			if testing.Short() {
				limit.States = min(limit.States, 5_000)
			}
			r := explore(s, limit)
			if testing.Short() && r.Bad == "" && !r.Complete {
				t.Skip("more than 5 000 states")
			}
			if *only != "" {
				t.Log(r)
			} else {
				t.Logf("%d states, %d events: %s", r.States, len(r.Trace), r.Bad)
			}
			if r.Bad == "" || !strings.Contains(r.Bad, b.found) {
				t.Errorf("%q is found, not %q", r.Bad, b.found)
			}
			s.Broken.Rules = 0 // and nothing without the break
			if r := explore(s, Limit{States: r.States}); r.Bad != "" {
				t.Error(r)
			}
		})
	}
}

// Each cell of the table is needed.
func TestEachCellIsNeeded(t *testing.T) {
	cells := []struct {
		want  core.Want
		place core.Place
		found string
		setup Setup
	}{
		{core.Gone, core.Unsure, "nothing will ever be sent", faulty},
		{core.Gone, core.Unsure, "nothing will ever be sent", Setup{Clients: 2, Users: 1, Rounds: 1, Do: Try, begin: deadWaiter}},
		{core.Gone, core.InQueue, "nothing will ever be sent", tries},
		{core.Gone, core.Owner, "nothing will ever be sent", tries},
		{core.Asked, core.Out, "nothing will ever be sent", tries},
		{core.Asked, core.InQueue, "nothing will ever be sent", tries},
		{core.Asked, core.InQueue, "nothing will ever be sent", Setup{Clients: 2, Users: 1, Rounds: 1, Do: Try, Lease: 3, Claim: 4, Faults: 1, Fault: Stall}},
		{core.Asked, core.Out, "nothing will ever be sent", passOn},
		{core.Asked, core.Unsure, "nothing will ever be sent", but(passOn, func(s *Setup) { s.Faults = 1; s.Fault = Break })},
		{core.Held, core.Owner, "fewer than two faults end a hold", Setup{Clients: 1, Users: 1, Rounds: 1, Steady: true}},
		{core.Parted, core.Owner, "nothing will ever be sent", Setup{Clients: 2, Users: 1, Rounds: 1, Do: Pass}},
	}
	core.Cells(func(w core.Want, p core.Place) {
		for _, c := range cells {
			if c.want == w && c.place == p {
				return
			}
		}
		t.Errorf("want %d, place %d: the table has the cell, and it is not here", w, p)
	})
	for _, c := range cells {
		s := c.setup
		s.Broken = core.Without(c.want, c.place)
		r := Shortest(s, Limit{States: 200_000})
		t.Logf("want %d, place %d: %7d states, %2d events: %s", c.want, c.place, r.States, len(r.Trace), r.Bad)
		if r.Bad == "" || !strings.Contains(r.Bad, c.found) {
			t.Errorf("want %d, place %d: %q is found, not %q", c.want, c.place, r.Bad, c.found)
		}
	}
}
