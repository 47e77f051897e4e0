package core

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the traces into testdata")

// Each file of testdata is a story of one lock: an event in each block, and its effects below "----". Every command
// that is due is polled for, and waits for its answer; time is ticks.
func TestTraces(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no traces", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var s story
			var out strings.Builder
			for _, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
				event, want, _ := strings.Cut(block, "\n----\n")
				fmt.Fprintf(&out, "%s\n----\n", strings.TrimSuffix(event, "\n----"))
				for _, line := range strings.Split(event, "\n") {
					if line != "" && line[0] != '#' && line != "----" {
						s.happens(t, line)
					}
				}
				got := strings.Join(s.told, "\n")
				if s.told = nil; got != want && !*rewrite {
					t.Errorf("%s\n----\n%s\nand not\n%s", event, got, want)
				}
				if got != "" {
					got += "\n"
				}
				out.WriteString(got + "\n")
			}
			if *rewrite {
				if err := os.WriteFile(name, []byte(strings.TrimSpace(out.String())+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A story is a lock, its callers, and the commands that have no answer.
type story struct {
	now     Now
	client  *Client
	lock    *Lock
	callers map[string]*Call
	sent    []sentCommand
	told    []string

	t      *testing.T
	alarms map[*Tenure]Time // when the keeper polls it
	shells map[*Call]*shell // the goroutines of calls
}

// A shell is the goroutine of a Agent: it asks Next at that time, unless it waits for an answer.
type shell struct {
	at    Time
	flies bool
	ends  ID // of a release: the tenure
}

// A sentCommand has no answer yet. The keeper has sent it if it has no call.
type sentCommand struct {
	Command
	call *Call
}

func (s *story) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// words are the arguments of an event: name=value, or a flag.
type words map[string]string

func (w words) number(name string, otherwise int64) int64 {
	if v, ok := w[name]; ok {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			panic(name + " is " + v)
		}
		return n
	}
	return otherwise
}

func (w words) has(name string) bool { _, ok := w[name]; return ok }

func (w words) mode() Mode {
	if w.has("read") {
		return Shared
	}
	return Alone
}

// id reads 0.7: the seventh tenure of this client.
func id(text string) (id ID) {
	if text == "" {
		return id
	}
	c, n, _ := strings.Cut(text, ".")
	client, _ := strconv.ParseUint(c, 10, 32)
	id.Client = uint32(client)
	id.N, _ = strconv.ParseUint(n, 10, 64)
	return id
}

func (i ID) text() string {
	return fmt.Sprintf("%d.%d", i.Client, i.N)
}

func (s *story) happens(t *testing.T, line string) {
	fields := strings.Fields(line)
	w := words{}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(f, "=")
		w[k] = v
	}
	name := ""
	if len(fields) > 1 {
		name = fields[1]
	}
	o := OwnerID(w.number("owner", 1))
	if s.lock == nil && fields[0] != "client" {
		s.happens(t, "client")
	}
	switch fields[0] {
	case "client":
		s.now = Now{100, 100}
		s.client = &Client{Config: Config{
			Lease: Span(w.number("lease", 30)), Claim: 8, QueueTime: 60, Margin: 1, LookTime: 8, Slack: 1, Retry: 1, MaxRetry: 8, FirstPoll: 1, LastPoll: 4,
			Silence: 5, Patience: 3, LeastWait: 2, ReadersTime: 6, ShortSection: 1, HandoffLimit: 2, HandoffTime: 50,
			Foreign:  ForeignConfig{WindowLook: 2, Look: 4, SilentLook: 1, Noise: 2, SilentNoise: 1, LongLease: 100},
			Replicas: w.has("replicas"),
		}}
		s.lock = s.client.NewLock(Kind{Strict: w.has("fair"), Fenced: w.has("fenced"), Permits: int32(w.number("permits", 0))})
		s.callers, s.sent = map[string]*Call{}, nil
		s.t, s.alarms, s.shells = t, map[*Tenure]Time{}, map[*Call]*shell{}
	case "lock":
		c := &Call{Owner: o, Mode: w.mode(), Waits: !w.has("try"), Until: Never, Lease: Span(w.number("lease", 0)),
			Repeats: w.has("repeats"), Answers: w.has("answers"), Tag: name}
		if w.has("for") || !c.Waits {
			c.Until = s.now.Time + Time(w.number("for", 0))
		}
		if w.has("handle") {
			c.Handle = w["handle"]
		}
		s.callers[name] = c
		if s.lock.Lock(c, s.now) != Waiting {
			s.outcome(c)
		} else {
			s.begins(c, ID{})
		}
	case "unlock":
		var h any
		if w.has("handle") {
			h = w["handle"]
		}
		_, t, ok := s.lock.Unlock(o, w.mode(), h, s.now)
		if !ok {
			s.tell("nothing to unlock")
		}
		s.releases(t, w)
	case "unlockwith":
		_, t, ok := s.lock.UnlockWith(o, w.mode(), nil, s.now)
		if !ok {
			s.tell("it is not the only level")
		}
		w["carries"] = ""
		s.releases(t, w)
	case "cancel": // one that was granted the lock gives its level back
		if w := s.callers[name]; w.Outcome == Acquired {
			w.Outcome = Cancelled
			s.outcome(w)
			_, t, _ := s.lock.Unlock(w.Owner, w.Mode, w.Handle, s.now)
			s.releases(t, words{})
		} else {
			s.lock.Leave(w, Cancelled, s.now)
		}
	case "setlease":
		s.tell("%v", s.lock.SetLease(o, w.mode(), nil, Span(w.number("lease", 0)), s.now))
	case "pass":
		_, t, result := s.lock.Pass(o, w.mode(), nil, Span(w.number("within", 10)), s.now)
		s.parts(result)
		s.releases(t, w)
	case "resume":
		c := &Call{Owner: o, Mode: w.mode(), Until: Never, Lease: Span(w.number("lease", 0)), Named: id(w["of"]), Inherits: uint64(w.number("token", 0)), Tag: name}
		if w.has("for") {
			c.Until = s.now.Time + Time(w.number("for", 0))
		}
		s.callers[name] = c
		s.lock.Resume(c, s.now)
		s.begins(c, ID{})
	case "answer":
		if len(s.sent) == 0 {
			s.tell("nothing was sent")
			return
		}
		i := 0
		if op := slices.Index(opWords, name); op > 0 { // the first command of that sort
			i = slices.IndexFunc(s.sent, func(c sentCommand) bool { return c.Op == Op(op) })
			name = fields[2]
		}
		if i < 0 {
			s.tell("no such command was sent")
			return
		}
		s.answer(i, s.reply(name, w))
	case "write": // its caller does not wait for the answer
		c, cmd := &Call{Owner: o, Mode: w.mode(), Until: Never}, Command{}
		s.lock.Write(c)
		a := s.lock.Next(c, true, s.now)
		if a.Do == Sends {
			cmd = s.lock.Command(c, a.Op, s.now)
			s.lock.Leave(c, Cancelled, s.now)
			s.lock.Next(c, false, s.now)
		}
		s.tell("write of %s by %d, mode %d, follows %v: %v", cmd.ID.text(), cmd.Owner, cmd.Mode, cmd.Follows, a.Do == Sends)
	case "wrote":
		wrote(s.lock, id(w["of"]), w.mode(), s.reply(name, w), s.now)
	case "hear":
		kind := slices.Index([]string{"grant", "front", "forced", "foreign", "shown", "answer"}, name)
		s.lock.Hear(Message{Kind: MessageKind(kind), ID: id(w["of"]), Token: uint64(w.number("token", 0)), Tokens: uint64(w.number("tokens", 0)), Ours: w.has("ours")}, s.now)
	case "listening":
		s.lock.Listening(name != "no", s.now)
	case "abroad":
		s.lock.ListeningAbroad(s.now)
	case "doubt":
		s.lock.Doubt(s.now)
	case "force":
		force(s.lock, id(w["of"]), s.now)
	case "close":
		s.lock.Close(s.now)
	case "sleep": // the monotonic clock stands still, and the keeper finds out
		s.now.Safe += SafeTime(w.number("ticks", 1))
		for t := range s.alarms {
			s.alarms[t] = s.now.Time
		}
	case "serve": // all commands are executed, and answered that the tenure has the lock or has left
		for len(s.sent) > 0 {
			s.answer(0, Reply{Found: Holds, Left: true})
			s.carryOut()
		}
	case "tick":
		s.now.Time, s.now.Safe = s.now.Time+Time(w.number("ticks", 1)), s.now.Safe+SafeTime(w.number("ticks", 1))
	case "state":
		for t := range s.lock.Tenures {
			_, at := s.lock.Peek(t, s.now)
			s.tell("%s %s %s in flight %s, next %s", t.ID.text(), t.Want(), t.Place(), t.InFlight(), s.at(at))
		}
		for _, v := range s.lock.Levels() {
			s.tell("level of %d: %s, token %d", v.Owner, [...]string{Alone: "writes", Shared: "reads"}[v.Mode], v.Token)
		}
		s.tell("%d wait, idle %v", s.lock.Len(), s.lock.Idle())
	default:
		t.Fatalf("unknown line %q", line)
	}
	s.carryOut()
}

func (s *story) at(t Time) string {
	if t == Never {
		return "never"
	}
	return fmt.Sprint(t - s.now.Time)
}

func (s *story) reply(name string, w words) (a Reply) {
	a = Reply{Holder: id(w["holder"]), Foreign: w.has("foreign"), TTL: Span(w.number("ttl", 20)), Others: int(w.number("others", 0)), Token: uint64(w.number("token", 0)),
		Window: Span(w.number("window", 0)), Settled: w.has("settled"), Unreplicated: w.has("unreplicated"), Left: !w.has("missing")}
	if w.has("heldfor") {
		a.HeldBack, a.HeldFor = true, Span(w.number("heldfor", 0))
	}
	if w.has("joinfails") {
		a.JoinFault = NotRun
	}
	if f := slices.Index([]string{"", "notrun", "lost", "fatal"}, name); f > 0 {
		a.Fault = Fault(f)
	}
	if f := slices.Index([]string{"nowhere", "waits", "first", "holds"}, name); f >= 0 {
		a.Found = Found(f)
	}
	return a
}

func (s *story) parts(r PartResult) {
	s.tell("%s", [...]string{"has parted", "there are other levels", "nothing is held"}[r])
}

func (s *story) outcome(c *Call) {
	text := [...]string{"waits", "acquired", "denied", "timed out", "full", "cancelled", "closed", "may not upgrade", "failed", "answered", "not passed", "unanswered"}[c.Outcome]
	if c.Outcome == Acquired {
		text += " " + [...]string{ByRedis: "from Redis", ByQueue: "by its ticket", ByNesting: "by nesting", ByHandoff: "by a hand-off", ByJoining: "beside readers", ByPass: "as it was passed on"}[c.Way]
		if c.Token > 0 {
			text += fmt.Sprintf(", token %d", c.Token)
		}
	}
	s.tell("%s: %s", c.Tag, text)
}

func (c Cause) text() string {
	return [...]string{ByUnlock: "unlocked", LeaseEnded: "lease ended", Unrenewed: "not renewed", KeyGone: "key gone", ByForce: "by force", ByClose: "by Close", Unconfirmed: "no answer"}[c]
}

// begins begins the goroutine of a call, which releases the tenure of that ID, or none.
func (s *story) begins(c *Call, ends ID) {
	s.shells[c] = &shell{ends: ends}
	s.run(c)
}

// releases has a call release the tenure that an Unlock or a Pass has returned. In the background it leaves before it has a
// slot.
func (s *story) releases(t *Tenure, w words) {
	if t == nil {
		return
	}
	c := &Call{Until: Never, Carries: w.has("carries"), Tag: "the release"}
	if s.lock.Release(t, c); w.has("background") {
		s.lock.Leave(c, TimedOut, s.now)
		s.lock.Next(c, false, s.now)
		return
	}
	s.begins(c, t.ID)
}

// run is what the goroutine of a call does until it has to wait.
func (s *story) run(c *Call) {
	sh := s.shells[c]
	if sh == nil || sh.flies {
		return
	}
	//exhaustive:ignore
	switch a := s.lock.Next(c, true, s.now); a.Do {
	case Returns:
		if delete(s.shells, c); c.Outcome == Done {
			s.tell("%s is released: %s", sh.ends.text(), c.Cause.text())
		} else {
			s.outcome(c)
		}
	case Sends:
		sh.flies = true
		s.sends(s.lock.Command(c, a.Op, s.now), c)
	case Sleeps:
		sh.at = a.Until
	}
}

// answer answers the command that was sent in that place.
func (s *story) answer(i int, a Reply) {
	cmd := s.sent[i]
	s.sent = slices.Delete(s.sent, i, i+1)
	sh := s.shells[cmd.call]
	if sh == nil { // the call has returned
		cmd.call = nil
	}
	s.lock.Answer(&cmd.Command, cmd.call, a, s.now)
	if sh != nil {
		sh.flies, sh.at = false, 0
	}
}

// carryOut tells the effects, and fires the due timers of callers and of the keeper.
func (s *story) carryOut() {
	for {
		effects := slices.Clone(s.client.TakeEffects(s.now))
		for _, e := range effects {
			//exhaustive:ignore
			switch e.Kind {
			case Poll:
				if e.Call == nil {
					s.alarms[e.Tenure] = e.At
				} else if sh := s.shells[e.Call]; sh != nil {
					sh.at = min(sh.at, e.At)
				}
			case Ended:
				delete(s.alarms, e.Tenure)
			case Wake:
				if e.Call.Outcome == Acquired {
					delete(s.shells, e.Call)
					s.outcome(e.Call)
				} else if sh := s.shells[e.Call]; sh != nil {
					sh.flies = false
					s.run(e.Call)
				}
			case Lose:
				for _, v := range e.Lost {
					s.tell("owner %d loses it: %s", v.Owner, e.Cause.text())
				}
			default:
				s.tell("%s", [...]string{Subscribe: "subscribes", Unsubscribe: "unsubscribes", ListenAbroad: "listens to foreign clients", IgnoreAbroad: "ignores foreign clients"}[e.Kind])
			}
		}
		if len(effects) > 0 {
			continue
		}
		s.fire()
		if len(s.client.Effects) == 0 {
			s.misses()
			return
		}
	}
}

// fire fires the timers of calls and tenures whose time has come.
func (s *story) fire() {
	var due []*Call
	for c, sh := range s.shells {
		if !sh.flies && sh.at <= s.now.Time {
			due = append(due, c)
		}
	}
	slices.SortFunc(due, func(a, b *Call) int { return strings.Compare(a.Tag.(string), b.Tag.(string)) })
	for _, c := range due {
		s.run(c)
	}
	for t := range s.lock.Tenures {
		if at, ok := s.alarms[t]; ok && at <= s.now.Time && t.Agent == nil {
			cmd, at := s.lock.Poll(t, s.now)
			if s.alarms[t] = at; cmd.Op != None {
				s.sends(cmd, nil)
			}
		}
	}
}

// misses fails a command or a time of which no effect has told.
func (s *story) misses() {
	for t := range s.lock.Tenures {
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

var opWords = []string{"none", "acquire", "resume", "join", "look", "mirror", "leave", "step", "unmark"}

// sends tells a command.
func (s *story) sends(cmd Command, c *Call) {
	text := opWords[cmd.Op] + " " + cmd.ID.text()
	for _, f := range []struct {
		on   bool
		word string
	}{
		{cmd.Mode == Shared, "shared"}, {cmd.Polls, "polls"}, {cmd.Lease > 0, fmt.Sprintf("lease=%d", cmd.Lease)}, {cmd.Op == Mirror, fmt.Sprintf("owner=%d writes=%d reads=%v", cmd.Owner, cmd.Writes, cmd.Reads)},
		{cmd.Asks, "asks"}, {cmd.Tokens > 0, fmt.Sprintf("tokens=%d", cmd.Tokens)}, {cmd.Permits > 0, fmt.Sprintf("permits=%d", cmd.Permits)},
		{cmd.Takes, "takes"}, {cmd.Carries, "carries"}, {cmd.Heard, "heard"}, {cmd.Op == Resume, "of " + cmd.Passed.text()}, {cmd.Follows, "follows"}, {cmd.Joins.ID != ID{}, "with join " + cmd.Joins.ID.text()},
	} {
		if f.on {
			text += " " + f.word
		}
	}
	s.tell("sends %s", text)
	s.sent = append(s.sent, sentCommand{cmd, c})
}
