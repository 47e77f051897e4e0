package core

import (
	"fmt"
	"maps"
	"strings"
)

// What a story tells, and what it fails by itself.

func (s *story) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// A detail is told if it is so.
type detail struct {
	is   bool
	word string
}

// with returns the text, with its details.
func with(text, separator string, all ...detail) string {
	for _, d := range all {
		if d.is {
			text += separator + d.word
		}
	}
	return text
}

// state is what there is: tenures, levels, waiters, and whether this client hears of grants.
func (s *story) state() string {
	var all []string
	next := func(at Time) string {
		if at == Never {
			return ""
		}
		return ", next " + s.at(at)
	}
	for t := range s.lock.Tenures {
		_, at := s.lock.Peek(t, s.now)
		text := fmt.Sprintf("%s %s %s", t.ID.text(), t.Want(), t.Place())
		if t.OpInFlight() != None {
			text += " in flight " + t.OpInFlight().String()
		}
		text += next(at)
		if t.Want() == Gone {
			text += ", over in " + s.at(t.GoneBy())
		}
		all = append(all, text)
	}
	for _, v := range s.lock.Levels() {
		text := fmt.Sprintf("%d %s", v.Owner, modes[v.Mode])
		if v.Token > 0 {
			text += fmt.Sprintf(", token %d", v.Token)
		}
		all = append(all, text)
	}
	for c := range s.lock.Waiters {
		all = append(all, fmt.Sprintf("%s waits%s", c.Tag, next(s.lock.Wakes(c, s.now))))
	}
	all = append(all, s.lock.grants.String())
	if s.lock.Idle() {
		all = append(all, "idle")
	}
	return strings.Join(all, "; ")
}

var modes = [...]string{Alone: "writes", Shared: "reads"}

// level is what the lock and a report know of a level.
func (s *story) level(v Level) string {
	text := fmt.Sprintf("%d %s since %d, %s", v.Owner, modes[v.Mode], s.now.Time-v.Since, ways[v.Way])
	return with(text, ", ",
		detail{v.First, "first"}, detail{v.Guest, "guest"}, detail{v.Part, "part"}, detail{v.Capped, "capped"},
		detail{v.Token > 0, fmt.Sprintf("token %d", v.Token)}, detail{v.Until < NeverSafe, "ends in " + s.at(s.now.At(v.Until))},
		detail{v.wrote, "has written"})
}

// at returns how long it is until then.
func (s *story) at(t Time) string {
	switch {
	case t == Never:
		return "never"
	case t <= s.now.Time:
		return "now"
	}
	return fmt.Sprint(t - s.now.Time)
}

func (s *story) parts(r PartResult) {
	s.tell("%s", [...]string{"has parted", "there are other levels", "nothing is held"}[r])
}

func (s *story) outcome(c *Call) {
	if c.Tenure != nil {
		s.t.Errorf("%s has ended, and has a tenure", c.Tag)
	}
	text := [...]string{"waits", "acquired", "denied", "timed out", "full", "cancelled", "closed", "may not upgrade", "failed", "answered", "not passed", "unanswered"}[c.Outcome]
	if c.Outcome == Acquired {
		text += " " + ways[c.Way]
		if c.Token > 0 {
			text += fmt.Sprintf(", token %d", c.Token)
		}
	}
	if c.Outcome == Full {
		text += fmt.Sprintf(", %d wait", c.Others)
	}
	s.tell("%s: %s", c.Tag, text)
}

var ways = [...]string{ByRedis: "from Redis", ByQueue: "by its ticket", ByNesting: "by nesting", ByHandoff: "by a hand-off", ByJoining: "beside readers", ByPass: "as it was passed on"}

func (c Cause) text() string {
	return [...]string{ByUnlock: "unlocked", LeaseEnded: "lease ended", TooLong: "held for too long", Unrenewed: "not renewed", KeyGone: "key gone", ByForce: "by force", ByTakeover: "taken over", ByClose: "by Close", Unconfirmed: "no answer"}[c]
}

// sends tells a command.
func (s *story) sends(cmd Command, c *Call) {
	number := func(name string, n int) detail { return detail{n > 0, fmt.Sprintf("%s=%d", name, n)} }
	s.tell("sends %s", with(strings.ToLower(cmd.Op.String())+" "+cmd.ID.text(), " ",
		detail{cmd.Mode == Shared, "shared"}, detail{cmd.Polls, "polls"}, number("more", int(cmd.More)), number("lease", int(cmd.Lease)),
		detail{cmd.Op == Mirror, fmt.Sprintf("owner=%d writes=%d reads=%v", cmd.Owner, cmd.Writes, cmd.Reads)},
		detail{cmd.Op.Enters() && cmd.Owner > 1, fmt.Sprintf("by %d", cmd.Owner)}, detail{cmd.Exact, "exactly"}, detail{cmd.Asks, "asks"}, detail{cmd.Heeds, "whether it is taken over"},
		detail{len(cmd.Tells) > 0, tellings(cmd.Tells)}, detail{cmd.Ends != (Holding{}), "ends " + cmd.Ends.ID.text()},
		detail{cmd.Bounded, fmt.Sprintf("most=%d", cmd.Most)}, number("tokens", int(cmd.Tokens)), number("permits", cmd.Permits),
		detail{cmd.Answerable, "takes"}, detail{cmd.Brief, "brief"}, detail{cmd.Carries, "carries"}, detail{cmd.Heard, "heard"},
		detail{cmd.Op == Write, fmt.Sprintf("owner=%d", cmd.Owner)}, detail{cmd.Op == Resume, "of " + cmd.Passed.text()},
		detail{cmd.Follows, "follows"}, detail{cmd.Joins.ID != ID{}, "with join " + cmd.Joins.ID.text()}))
	s.sent = append(s.sent, sentCommand{cmd, c})
}

// misses fails a command or a time of which no effect has told, a call that spins, and counts that
// are wrong.
func (s *story) misses() {
	s.counts()
	for t := range s.alarms {
		if t.Lock() == nil {
			s.t.Error("the keeper is not told that a tenure is over")
		}
	}
	for c, sh := range s.shells {
		if !sh.flies && !s.full && sh.at <= s.now.Time {
			s.t.Errorf("%s asks again and again", c.Tag)
		}
	}
	for t := range s.lock.Tenures {
		if s.rests || s.full {
			break
		}
		at, ok := s.alarms[t]
		if sh := s.shells[t.Agent]; sh != nil {
			if at, ok = sh.at, true; sh.flies {
				at = 0
			}
		}
		if _, due := s.lock.Peek(t, s.now); due < Never && (!ok || at > max(due, s.now.Time)) {
			s.t.Errorf("%s is polled in %s, and is due in %s", t.ID.text(), s.at(at), s.at(due))
		}
	}
	for r := range s.lock.Waiters {
		if sh, due := s.shells[r], s.lock.Wakes(r, s.now); !sh.flies && sh.at > max(due, s.now.Time) {
			s.t.Errorf("%s looks in %s, and is due in %s", r.Tag, s.at(sh.at), s.at(due))
		}
	}
}

// changed is told of another want or place.
func (s *story) changed(t *Tenure, want Want, place Place) {
	was, is := tenureState{want, place}, tenureState{t.Want(), t.Place()}
	if s.states[t.ID] != was || is == was {
		s.t.Errorf("%s goes from %v to %v, and was %v", t.ID.text(), was, is, s.states[t.ID])
	}
	s.states[t.ID] = is
}

// counts fails what the lock has counted, but for its waiters and tenures themselves.
func (s *story) counts() {
	l, overdue, repeats := s.lock, int32(0), map[OwnerID]int{}
	for c := range l.Waiters {
		if c.overdue {
			overdue++
		}
		if c.counted {
			repeats[c.Owner]++
		}
	}
	if l.line.overdue != overdue || len(repeats) != len(l.line.repeats) || len(repeats) > 0 && !maps.Equal(repeats, l.line.repeats) {
		s.t.Errorf("%d calls are overdue, and %v repeat, and not %d and %v", overdue, repeats, l.line.overdue, l.line.repeats)
	}
	n := 0
	for t := range l.Tenures {
		if n++; l.Find(t.ID) != t || t.Lock() != l {
			s.t.Errorf("%s is not found", t.ID.text())
		}
		if is := (tenureState{t.Want(), t.Place()}); s.states[t.ID] != is {
			s.t.Errorf("nobody is told that %s is %v", t.ID.text(), is)
		}
	}
	if byID := l.tenures.byID; n != l.tenures.countTenures() || byID != nil && (len(byID) != n || n == 0) || byID == nil && n > manyTenures {
		s.t.Errorf("%d tenures are counted, and %d found by their IDs, and not %d", l.tenures.countTenures(), len(byID), n)
	}
}

func tellings(all []Telling) (text string) {
	for _, t := range all {
		text += fmt.Sprintf("tells %s left=%d ", t.ID.text(), t.Left)
	}
	return strings.TrimSpace(text)
}

// The names of what only tests tell.

func (v verdict) String() string {
	return [...]string{"hasLock", "inQueue", "nowhere", "hasLeft", "absent", "wasGranted", "executed", "notRun", "unknown", "fatal"}[v]
}

func (h subscription) String() string {
	return [...]string{"unsubscribed", "subscribing", "subscribed", "notSubscribed"}[h]
}

func (e Extension) String() string {
	return [...]string{EndMoves: "EndMoves", EndAsked: "EndAsked", NoEnd: "NoEnd", NoLevel: "NoLevel"}[e]
}
