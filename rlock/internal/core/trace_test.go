package core

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-rlock/rlock/internal/golden"
)

// A file of testdata has a topic, and a case of it is a story of one lock: see [golden.Case]. The
// commands are those of happens. Every command to Redis that is due is polled for, and waits for its
// answer; time is ticks, or milliseconds of a client with real times. A case may begin anew by client.
func TestTraces(t *testing.T) {
	golden.Cases(t, false, func(t *testing.T, c *golden.Case) {
		var s story
		c.Tell(t, func(command string) []string {
			if command != "" {
				s.happens(t, command)
			}
			told := s.told
			s.told = nil
			return told
		})
	})
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
	alarms map[*Tenure]Time   // when the keeper polls it
	shells map[*Call]*shell   // the goroutines of calls
	full   bool               // no call has a slot for its command
	rests  bool               // the keeper polls nothing
	states map[ID]tenureState // that Changed has told
}

type tenureState struct {
	want  Want
	place Place
}

// A shell is the goroutine of a call: it asks Next at that time, unless it waits for an answer.
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

// handle is that of the level which a call opens or closes.
func (w words) handle() any {
	switch {
	case w.has("handle"):
		return w["handle"]
	case w.has("guest"):
		return Guests
	}
	return nil
}

// realTimes are those of a client, in milliseconds.
func realTimes() Config {
	return Config{
		Lease: 30_000, Claim: 2_000, QueueTime: 60_000, Margin: 12, LookTime: 2_000, Slack: 1, Retry: 10, MaxRetry: 500,
		FirstPoll: 1, LastPoll: 128, Silence: 250, Patience: 250, LeastWait: 5, HandoffLimit: 100, HandoffTime: 10,
	}
}

// config returns the times of a client: a few ticks, or real ones. Each number of a Config may be
// given by its name.
func (w words) config() Config {
	c := Config{
		Lease: 30, Claim: 8, QueueTime: 60, Margin: 1, LookTime: 8, Slack: 1, Retry: 1, MaxRetry: 8, FirstPoll: 1, LastPoll: 4,
		Silence: 5, Patience: 3, LeastWait: 2, ReadersTime: 6, ShortSection: 1, HandoffLimit: 2, HandoffTime: 50,
		Foreign: ForeignConfig{WindowLook: 2, Look: 4, SilentLook: 1, Noise: 2, SilentNoise: 1, LongLease: 100},
	}
	if w.has("real") {
		c = realTimes()
	}
	c.Replicas = w.has("replicas")
	for name := range w {
		if slices.Contains([]string{"real", "replicas", "jitter", "fair", "fenced", "permits"}, name) {
			continue
		}
		v, same := reflect.ValueOf(&c).Elem(), func(n string) bool { return strings.EqualFold(n, name) }
		f := v.FieldByNameFunc(same)
		if !f.IsValid() {
			f = v.FieldByName("Foreign").FieldByNameFunc(same)
		}
		f.SetInt(w.number(name, 0)) // which panics if there is no such time
	}
	if w.has("jitter") {
		c.Jitter = func(d Span) Span { return d / 2 }
	}
	return c
}

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

// opOf reads the name of a command, None for another word.
func opOf(text string) Op {
	for op := Acquire; op < ops; op++ {
		if strings.EqualFold(op.String(), text) {
			return op
		}
	}
	return None
}

func (i ID) text() string {
	return fmt.Sprintf("%d.%d", i.Client, i.N)
}

// until is when the time of a call is up.
func (s *story) until(w words) Time {
	if !w.has("for") {
		return Never
	}
	return s.now.Time + Time(w.number("for", 0))
}

// happens has one event, and carries its effects out.
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
		s.client, s.states = &Client{Config: w.config()}, map[ID]tenureState{}
		s.client.Changed = s.changed
		s.lock = s.client.NewLock(Kind{Strict: w.has("fair"), Fenced: w.has("fenced"), Permits: int32(w.number("permits", 0))})
		s.callers, s.sent = map[string]*Call{}, nil
		s.t, s.alarms, s.shells, s.full, s.rests = t, map[*Tenure]Time{}, map[*Call]*shell{}, false, false
	case "lock":
		c := &Call{Owner: o, Mode: w.mode(), Waits: !w.has("try"), Until: s.until(w), Lease: Span(w.number("lease", 0)),
			More: int32(w.number("more", 0)), Grace: Span(w.number("grace", 0)), Most: int32(w.number("most", 0)), Guest: w.has("guest"), Part: w.has("part"), Capped: w.has("capped"),
			Repeats: w.has("repeats"), Answerable: w.has("answers"), Handle: w.handle(), Tag: name}
		if !c.Waits {
			c.Until = s.now.Time
		}
		s.callers[name] = c
		if s.lock.BeginLock(c, s.now) != Waiting {
			s.outcome(c)
		} else {
			s.begins(c, ID{})
		}
	case "has": // a call takes the free lock; only what is unusual is told
		if s.lock.grants == subscribed {
			s.begin(fields[1:], w, "join", "holds", name+": acquired by its ticket")
		} else {
			s.begin(fields[1:], w, "acquire", "holds", name+": acquired from Redis")
		}
	case "waits": // a call takes a ticket behind another client's holder; only what is unusual is told
		s.happens(t, "listening")
		answer := "waits"
		if w.has("first") {
			answer = "first"
		}
		if !w.has("foreign") && !w.has("window") {
			answer += " holder=1.1"
		}
		s.begin(fields[1:], w, "join", answer, "")
	case "unlock":
		was, t, ok := s.lock.Unlock(o, w.mode(), w.handle(), s.now)
		if !ok {
			s.tell("nothing to unlock")
		} else if w.has("tell") {
			s.tell("closed: %s", s.level(was))
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
			s.lock.End(w, Cancelled, s.now)
			if sh := s.shells[w]; w.Purpose != Locks {
				sh.flies = false
				s.run(w)
			}
		}
	case "setlease":
		s.tell("%v", s.lock.SetLease(o, w.mode(), w.handle(), Span(w.number("lease", 0)), s.now))
	case "extend":
		s.tell("%s", s.lock.Extend(o, w.mode(), w.handle(), Span(w.number("by", 0)), s.now))
	case "stay":
		s.lock.StayUntil(s.now.Time + Time(w.number("for", 0)))
	case "pass":
		_, t, result := s.lock.Pass(o, w.mode(), nil, Span(w.number("within", 10)), s.now)
		s.parts(result)
		s.releases(t, w)
	case "resume":
		c := &Call{Owner: o, Mode: w.mode(), Until: s.until(w), Lease: Span(w.number("lease", 0)), Named: id(w["of"]), Inherits: uint64(w.number("token", 0)), Tag: name}
		s.callers[name] = c
		s.lock.BeginResume(c, s.now)
		s.begins(c, ID{})
	case "answer":
		if len(s.sent) == 0 {
			s.tell("nothing was sent")
			return
		}
		i := 0
		if op := opOf(name); op != None { // the first command of that sort
			i = slices.IndexFunc(s.sent, func(c sentCommand) bool { return c.Op == op })
			name = fields[2]
		}
		if i < 0 {
			s.tell("no such command was sent")
			return
		}
		s.answer(i, s.reply(name, w))
	case "write":
		c := &Call{Owner: o, Mode: w.mode(), Handle: w.handle(), Until: Never, Tag: "the write"}
		s.callers["write"] = c
		s.lock.BeginWrite(c)
		s.begins(c, ID{})
	case "force":
		c := &Call{Named: id(w["of"]), Until: Never, Tag: "by force"}
		s.lock.BeginForce(c)
		s.begins(c, c.Named)
	case "hear":
		kind := slices.Index([]string{"grant", "front", "forced", "foreign", "shown", "answer", "taken", "let"}, name)
		s.lock.Hear(Message{Kind: MessageKind(kind), ID: id(w["of"]), Token: uint64(w.number("token", 0)), Tokens: uint64(w.number("tokens", 0)), Left: Span(w.number("left", 0)), Ours: w.has("ours")}, s.now)
	case "listening":
		if name == "foreign" {
			s.lock.ListeningForeign(s.now)
		} else {
			s.lock.Subscribed(name != "no", s.now)
		}
	case "reconnected": // as the driver says it, once to the holder and once to the tickets
		s.lock.Confirm(s.now)
		if s.lock.Subscribes() {
			s.lock.Subscribed(true, s.now)
		}
	case "deafened":
		s.lock.Disconnected(s.now)
	case "settle":
		s.lock.Settle(s.now)
	case "confirm":
		s.lock.Confirm(s.now)
	case "wish": // to be told when another owner waits
		s.lock.AskOthers(s.now)
	case "keeper": // it polls, or rests
		s.rests = name == "rests"
	case "slots": // for commands of calls: without one they wait for it
		if s.full = name == "none"; !s.full {
			for _, sh := range s.shells {
				sh.at = s.now.Time
			}
		}
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
		s.tell("%s", s.state())
	case "levels":
		for _, v := range s.lock.Levels() {
			s.tell("%s", s.level(v))
		}
	case "holds":
		text := fmt.Sprintf("%d holds: %v", o, s.lock.Holds(o, s.now))
		if s.lock.Held() != nil {
			text += ", valid for " + s.at(s.now.At(s.lock.ValidUntil(o)))
		}
		l := s.lock
		s.tell("%s", with(text, ", ", detail{l.IsWritten(), "written"}, detail{l.IsHeld() && l.levels.asked == NeverSafe, "kept"}, detail{l.IsShown(s.now), "shown"}, detail{l.Busy(), "busy"}))
	default:
		t.Fatalf("unknown line %q", line)
	}
	s.carryOut()
}

// begin begins a call and answers its command. It tells neither the command nor the outcome if these
// are the usual ones.
func (s *story) begin(call []string, w words, op, answer, outcome string) {
	before := len(s.told)
	s.happens(s.t, "lock "+strings.Join(call, " "))
	command := "sends " + op + " " + s.sent[len(s.sent)-1].ID.text()
	if w.has("read") {
		command += " shared"
	}
	if op == "acquire" {
		command += fmt.Sprintf(" polls lease=%d", w.number("lease", int64(s.client.Config.Lease)))
	} else {
		command += fmt.Sprintf(" lease=%d", s.client.Config.Claim)
	}
	if w.has("owner") {
		command += " by " + w["owner"]
	}
	s.happens(s.t, "answer "+op+" "+answer+" "+strings.Join(call[1:], " "))
	s.told = append(s.told[:before], slices.DeleteFunc(s.told[before:], func(told string) bool { return told == command || told == outcome })...)
}

func (s *story) reply(name string, w words) (a Reply) {
	a = Reply{Holder: id(w["holder"]), Foreign: w.has("foreign"), TTL: Span(w.number("ttl", 20)), Others: int(w.number("others", 0)), Token: uint64(w.number("token", 0)),
		Window: Span(w.number("window", 0)), Settled: w.has("settled"), Unreplicated: w.has("unreplicated"), Left: !w.has("missing"),
		Full: w.has("full"), Tickets: int(w.number("full", 0))}
	a.Takes = w.has("takes")
	if w.has("by") { // the holders of a lock that is taken over
		for h := range strings.SplitSeq(w["by"], ",") {
			one, more, _ := strings.Cut(h, "*")
			n, _ := strconv.Atoi(more)
			a.Holders = append(a.Holders, Holding{id(one), int32(max(n-1, 0)), strings.HasPrefix(one, "7.")})
		}
	}
	if w.has("heldfor") {
		a.HeldBack, a.HeldFor = true, Span(w.number("heldfor", 0))
	}
	if w.has("joinfails") {
		a.JoinFault = NotRun
	}
	if f := slices.Index([]string{"", "notrun", "lost", "fatal", "behind"}, name); f > 0 {
		a.Fault = Fault(f)
	}
	if f := slices.Index([]string{"nowhere", "waits", "first", "holds"}, name); f >= 0 {
		a.Found = Found(f)
	}
	return a
}

// begins begins the goroutine of a call, which releases the tenure of that ID, or none.
func (s *story) begins(c *Call, ends ID) {
	s.shells[c] = &shell{ends: ends}
	s.run(c)
}

// releases has a call release the tenure that an Unlock or a Pass has returned.
func (s *story) releases(t *Tenure, w words) {
	if t == nil {
		return
	}
	c := &Call{Until: s.until(w), Carries: w.has("carries"), Tag: "the release"}
	s.lock.BeginRelease(t, c)
	s.begins(c, t.ID)
}

// run is what the goroutine of a call does until it has to wait.
func (s *story) run(c *Call) {
	sh := s.shells[c]
	if sh == nil || sh.flies {
		return
	}
	switch a := s.lock.Next(c, !s.full, s.now); a.Do {
	case Returns:
		if delete(s.shells, c); c.Outcome != Done {
			s.outcome(c)
			return
		}
		if c.Purpose == Releases {
			s.tell("%s is released: %s", sh.ends.text(), c.Cause.text())
		} else {
			s.tell("%s: %s, found %v", c.Tag, c.Fault, c.Found)
		}
	case Sends:
		sh.flies = true
		s.sends(s.lock.Command(c, a.Op, s.now), c)
	case Queues, Sleeps:
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
				delete(s.states, e.Tenure.ID)
			case Wake:
				if e.Call.Outcome == Waiting {
					s.t.Errorf("%s is woken for nothing", e.Call.Tag)
				}
				if e.Call.Outcome == Acquired {
					delete(s.shells, e.Call)
					s.outcome(e.Call)
				} else if sh := s.shells[e.Call]; sh != nil {
					sh.flies = false
					s.run(e.Call)
				}
			case Lose:
				if len(e.Lost) == 0 || e.Tenure == nil {
					s.t.Errorf("a loss of nobody, or of nothing: %+v", e)
				}
				for _, v := range e.Lost {
					s.tell("owner %d loses it: %s", v.Owner, e.Cause.text())
				}
			default:
				s.tell("%s", [...]string{Subscribe: "subscribes", Unsubscribe: "unsubscribes", ListenForeign: "listens to foreign clients", IgnoreForeign: "ignores foreign clients", Wanted: "wanted"}[e.Kind])
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
		if s.rests {
			break
		}
		if at, ok := s.alarms[t]; ok && at <= s.now.Time && t.Agent == nil {
			cmd, at := s.lock.Poll(t, s.now)
			if s.alarms[t] = at; cmd.Op != None {
				s.sends(cmd, nil)
			}
		}
	}
}
