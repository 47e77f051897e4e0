package wire_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// How what the model has is written in Redis.

const modelLock = "lock"

func prefixText(client uint32) string { return fmt.Sprintf("%08x-0000-8000-", client) }

func uuidText(id core.ID) string {
	if server.IsForeign(id) {
		return fmt.Sprintf("%08x-0000-4000-8000-000000000000", id.Client-server.FirstForeign)
	}
	return fmt.Sprintf("%s8000-%012x", prefixText(id.Client), id.N)
}

// ownerText returns the text of an owner, that of some tenures with a note, which is a part of the
// owner to the scripts. A pass has none.
func ownerText(id core.ID, o core.OwnerID) string {
	switch {
	case id == server.Place:
		return "rlock:0"
	case server.IsForeign(id):
		return fmt.Sprintf("%s:%d", uuidText(id), id.N) // a process and a thread
	}
	text := wire.OwnerText(uuidText(id) + ":" + strconv.FormatUint(uint64(o), 10))
	if id.N%3 == 0 && o != 0 {
		text = text.WithNote(wire.Note{Text: "job *3:write 0", Line: modelLine(core.Ticket{ID: id, Owner: o}), At: time.UnixMilli(5), Waits: id.N%2 == 0})
	}
	return string(text)
}

// modelLine returns the line of a ticket: some of those with a note have one.
func modelLine(t core.Ticket) string {
	if t.ID.N%3 != 0 || t.Owner == 0 {
		return ""
	}
	return []string{"", "a", "b,*@:c"}[t.ID.N/3%3]
}

func fieldText(h server.Holder) string {
	if h.Writes {
		return ownerText(h.ID, h.Owner) + ":write"
	}
	return ownerText(h.ID, h.Owner) + permitsText(h.More)
}

// permitsText is the end of the text of an owner that has so many permits beside the first.
func permitsText(more int32) string {
	if more == 0 {
		return ""
	}
	return fmt.Sprintf("*%d", 1+more)
}

// member returns the member of the queue, "" for no ticket.
func member(t core.Ticket) string {
	if t == (core.Ticket{}) {
		return ""
	}
	if t == server.Window {
		return "?"
	}
	mode := "x"
	if t.Mode == core.Shared {
		mode = "s"
	}
	if t.Answerable {
		mode = "a"
	}
	if t.Brief {
		mode = "b"
	}
	if t.Polls {
		mode = strings.ToUpper(mode)
	}
	return mode + ownerText(t.ID, t.Owner) + permitsText(t.More)
}

// A snapshot is all that is compared after a command.
type snapshot struct {
	answer string
	words  []string        // the data in Redis, and the messages
	times  []time.Duration // the remaining times of the answer's lease, the lock, the queue, and each reader or permit
}

// sameAs reports whether two snapshots are the same, with times that differ by no more than the
// tolerance.
func (s snapshot) sameAs(o snapshot, tolerance time.Duration) bool {
	return s.answer == o.answer && slices.Equal(s.words, o.words) &&
		slices.EqualFunc(s.times, o.times, func(a, b time.Duration) bool { return (a - b).Abs() <= tolerance })
}

func (s snapshot) String() string {
	return fmt.Sprintf("%s\n  %s\n  %v", s.answer, strings.Join(s.words, "\n  "), s.times)
}

func ms(t core.Span) time.Duration { return time.Duration(t) * time.Millisecond }

// snapshotOf returns what the model has after a command.
func (k *modelKind) snapshotOf(s *server.Server, c core.Command, a core.Reply, e *server.Effects, now server.Time) (n snapshot) {
	holds := func(uuid string) bool {
		return slices.ContainsFunc(s.Holders, func(h server.Holder) bool { return uuidText(h.ID) == uuid })
	}
	switch {
	case a.Found == core.Holds:
		n.answer = fmt.Sprintf("left %v, holds, token %d, others %d", a.Left, a.Token, a.Others)
	case c.Op == core.Leave && c.Joins == (core.Ticket{}) || c.Op == core.Step || c.Op == core.Unmark:
		n.answer = fmt.Sprintf("left %v", a.Left)
	case c.Op == core.Mirror || c.Op == core.Resume || c.Op == core.Write:
		n.answer = "lost"
	default:
		var holder string
		switch {
		case a.Foreign:
			holder = k.holderText(c.Op, aForeignOne, holds)
		case a.Holder != (core.ID{}):
			holder = k.holderText(c.Op, uuidText(a.Holder), holds)
		}
		if holder != "" {
			n.times = append(n.times, ms(a.TTL))
		}
		n.answer = fmt.Sprintf("left %v, found %d, holder %s", a.Left, a.Found, holder)
		if a.Full {
			n.answer += fmt.Sprintf(", %d tickets", a.Tickets)
		}
	}
	if a.HeldBack {
		n.answer += ", held back"
		n.times = append(n.times, ms(a.HeldFor))
	}
	if a.Window > 0 {
		n.times = append(n.times, ms(a.Window))
	}
	var others []string
	for _, h := range a.Holders {
		if server.IsForeign(h.ID) {
			others = append(others, ownerText(h.ID, 0))
		} else {
			others = append(others, uuidText(h.ID)+permitsText(h.More))
		}
	}
	if a.Takes {
		n.answer += ", taken over"
	}
	slices.Sort(others)
	n.answer += strings.Join(others, " ")
	left := func(t server.Time) { n.times = append(n.times, max(ms(core.Span(t-now)), 0)) }
	var fields []string
	if len(s.Holders) > 0 {
		left(s.Ends)
	}
	switch {
	case s.Mode == server.Read:
		fields = append(fields, "mode read")
	case s.Mode == server.Write:
		fields = append(fields, "mode write")
	}
	holders := slices.Clone(s.Holders)
	slices.SortFunc(holders, func(a, b server.Holder) int { return strings.Compare(fieldText(a), fieldText(b)) })
	if more := s.Held() - len(holders); more > 0 {
		fields = append(fields, fmt.Sprintf("* -%d", more))
	}
	for _, h := range holders {
		fields = append(fields, fieldText(h)+" "+strconv.Itoa(h.Count))
		if k.model != server.Plain && !h.Writes {
			left(h.Ends)
		}
	}
	if len(s.Queue)+len(s.Marks) > 0 {
		left(s.QueueEnds)
	}
	slices.Sort(fields)
	n.words = append(fields, "queue")
	for _, t := range s.Queue {
		n.words = append(n.words, member(t))
	}
	n.words = append(n.words, "marks")
	var marks []string
	for _, id := range s.Marks {
		marks = append(marks, "!"+uuidText(id))
	}
	slices.Sort(marks)
	n.words = append(append(n.words, marks...), fmt.Sprint("counter ", s.Counter))
	n.words = append(n.words, k.foreignOf(s, now, &n)...)
	var messages []string
	for _, m := range e.Messages {
		messages = append(messages, k.messageText(m, c.Tokens))
	}
	n.words = append(append(n.words, "messages"), byChannel(messages)...)
	n.words = append(n.words, fmt.Sprintf("carried %v", e.Wrote))
	return n
}

// byChannel sorts messages by their channels: only on one channel they keep their order. Questions
// about several holders have none, since a hash has none.
func byChannel(messages []string) []string {
	key := func(m string) string {
		channel, text, _ := strings.Cut(m, " ")
		if strings.HasPrefix(text, "h ") {
			return m
		}
		return channel
	}
	slices.SortStableFunc(messages, func(a, b string) int { return strings.Compare(key(a), key(b)) })
	return messages
}

// holderText returns the holder that an answer names by its UUID, or a word for any of the holders
// where the scripts may name any of them. Of permits they name the one that ends first.
func (k *modelKind) holderText(op core.Op, uuid string, holds func(uuid string) bool) string {
	switch {
	case k.model == server.ReadWrite && op == core.Acquire && uuid != "":
		return "one of them"
	case uuid == aForeignOne:
		return uuid
	case (k.model == server.ReadWrite || k.model == server.Semaphore && !k.exact) && holds(uuid):
		return "one of them"
	}
	return uuid
}

// sort is the letter of the kind in a message.
func (k *modelKind) sort() string {
	return map[server.Kind]string{server.Plain: "p", server.ReadWrite: "r", server.Semaphore: "s"}[k.model]
}

// aForeignOne is the word for a foreign holder: the model does not say which.
const aForeignOne = "a foreign one"

func (k *modelKind) messageText(m server.Message, reserve uint64) string {
	ticket := uuidText(m.ID) + permitsText(m.More)
	//exhaustive:ignore
	switch m.Kind {
	case core.Granted:
		var token, n string
		if reserve > 0 {
			token, n = strconv.FormatUint(m.Token, 10), strconv.FormatUint(reserve, 10)
		}
		return fmt.Sprintf("%s%s +%s %s %s %s", k.keys.GrantChannels(), prefixText(m.ID.Client), ticket, token, n, modelLock)
	case core.Shown:
		return fmt.Sprintf("%s h %s %s%s", wire.ClientChannel(prefixText(m.ID.Client)), ticket, k.sort(), modelLock)
	case core.AtFront:
		return fmt.Sprintf("%s%s ?%s %s", k.keys.GrantChannels(), prefixText(m.ID.Client), ticket, modelLock)
	case core.LetThrough:
		return fmt.Sprintf("%s%s >%d %s %s", k.keys.GrantChannels(), prefixText(m.ID.Client), m.Left, ticket, modelLock)
	case core.Satisfied:
		return fmt.Sprintf("%s%s =%s %d %sit", k.keys.GrantChannels(), prefixText(m.ID.Client), uuidText(m.ID), len(modelLock), modelLock)
	case core.ForeignNews:
		if m.Fair == server.Place {
			return k.keys.Channel() + ":" + ownerText(m.Fair, 0) + " 00"
		}
		if m.Fair != (core.ID{}) {
			return k.keys.Channel() + ":" + uuidText(m.Fair) + " 00"
		}
		if m.Readers {
			return k.keys.Channel() + " 01"
		}
		return k.keys.Channel() + " 00"
	}
	return fmt.Sprint("message of kind ", m.Kind)
}

// timeOf reads the answer to TIME, in milliseconds.
func (c *comparison) timeOf(reply any) server.Time {
	now := reply.([]any)
	s, _ := strconv.ParseInt(now[0].(string), 10, 64)
	us, _ := strconv.ParseInt(now[1].(string), 10, 64)
	at := s*1000 + us/1000
	if !c.on.exact() {
		at += c.offset.Milliseconds()
	}
	return server.Time(at)
}

// looks returns the commands that read all that is compared.
func (c *comparison) looks() [][]string {
	lock := []string{"HGETALL", modelLock}
	if c.model == server.Semaphore {
		lock = []string{"ZRANGE", modelLock, "0", "-1", "WITHSCORES"}
	}
	looks := [][]string{lock, {"PTTL", modelLock}, {"ZRANGE", c.keys.Queue(), "0", "-1"}, {"PTTL", c.keys.Queue()}, {"KEYS", "*"}}
	looks = append(looks, []string{"GET", c.keys.Extra()}, []string{"HGETALL", c.keys.Foreign()}, []string{"PTTL", c.keys.Foreign()})
	return append(looks, []string{"LRANGE", c.keys.FairQueue(), "0", "-1"}, []string{"ZSCORE", c.keys.FairTimes(), "rlock:0"})
}

var idOfOwner = regexp.MustCompile(`(-[0-9a-f]{12}):\d+(#[^ *]*)?`)

// read makes a snapshot of what Redis has after a command.
func (c *comparison) read(cmd core.Command, answer any, looks []any) (n snapshot) {
	left := func(ms int) { n.times = append(n.times, time.Duration(ms)*time.Millisecond) }
	all, _ := looks[0].([]any)
	ran := false
	if all, ok := answer.([]any); ok && cmd.Carries {
		ran, answer = all[0] == 1, all[2]
	}
	var holders []string
	takes := false
	if all, ok := answer.([]any); ok && cmd.Takes && (cmd.Op == core.Join || cmd.Op == core.Look) {
		answer = all[0]
		takes = all[1] == 1
		for _, owner := range all[2:] {
			one, more := wire.OwnerText(strings.TrimSuffix(owner.(string), ":write")).CutMore()
			text := one.UUID() + permitsText(more)
			if !one.IsOurs() {
				text = string(one)
			}
			if !slices.Contains(holders, text) {
				holders = append(holders, text)
			}
		}
	}
	n.answer, n.times = c.answer(cmd, answer, func(uuid string) bool {
		return slices.ContainsFunc(all, func(field any) bool { return strings.HasPrefix(field.(string), uuid+":") })
	})
	if takes {
		n.answer += ", taken over"
	}
	slices.Sort(holders)
	n.answer += strings.Join(holders, " ")
	if len(all) > 0 {
		left(looks[1].(int))
	}
	var fields []string
	for i := 0; i < len(all); i += 2 {
		fields = append(fields, all[i].(string)+" "+all[i+1].(string))
	}
	slices.Sort(fields)
	now := c.last
	for i, f := range fields {
		name, value, _ := strings.Cut(f, " ")
		switch {
		case name == "*": // how many permits owners have beside their first
		case c.model == server.Semaphore:
			ends, _ := strconv.ParseInt(value, 10, 64)
			if !c.on.exact() {
				ends += c.offset.Milliseconds()
			}
			left(int(max(ends-int64(now), 0)))
			fields[i] = name + " 1"
		case c.model == server.ReadWrite && name != "mode" && !strings.HasSuffix(name, ":write"):
			ttl := c.on.do([]string{"PTTL", c.keys.Extra() + ":" + name + ":rwlock_timeout:1"})[0].(int)
			left(max(ttl, 0))
		}
	}
	queue, _ := looks[2].([]any)
	if len(queue) > 0 {
		left(looks[3].(int))
	}
	n.words = append(fields, "queue")
	var marks []string
	for _, m := range queue {
		if m := m.(string); m[0] == '!' {
			marks = append(marks, m)
		} else {
			n.words = append(n.words, m)
		}
	}
	slices.Sort(marks)
	counter := "0"
	if c.fenced && looks[5] != nil {
		counter = looks[5].(string)
	}
	n.words = append(append(append(n.words, "marks"), marks...), "counter "+counter)
	n.words = append(n.words, c.readForeign(looks[6:], &n)...)
	var messages []string
	for _, m := range c.on.published() {
		messages = append(messages, idOfOwner.ReplaceAllString(m[0]+" "+m[1], "$1"))
	}
	n.words = append(append(n.words, "messages"), byChannel(messages)...)
	n.words = append(n.words, fmt.Sprintf("carried %v", ran))
	for _, key := range looks[4].([]any) {
		if key := key.(string); key != modelLock && key != c.keys.Queue() && key != c.keys.Extra() && key != c.keys.Foreign() && key != c.keys.FairQueue() && key != c.keys.FairTimes() && !strings.HasPrefix(key, c.keys.Extra()+":") {
			n.words = append(n.words, "unknown key "+key)
		}
	}
	return n
}

// answer writes the reply of a script as snapshotOf does. It returns the times in it, too.
func (c *comparison) answer(cmd core.Command, reply any, holds func(uuid string) bool) (text string, times []time.Duration) {
	span := func(ms any) time.Duration { return time.Duration(ms.(int)) * time.Millisecond }
	held := func(left bool, token any, others int) string {
		last, _ := token.(string)
		if last == "" {
			last = "0"
		}
		return fmt.Sprintf("left %v, holds, token %s, others %d", left, last, others)
	}
	denied := func(left bool, found int, ttl, owner any) string {
		shown, _ := wire.OwnerText(owner.(string)).CutWrite()
		shown, _ = shown.CutMore()
		name := string(shown)
		if name != "" {
			times = append(times, span(ttl))
		}
		if len(name) > 14 && name[14] != '8' {
			name = aForeignOne
		}
		return fmt.Sprintf("left %v, found %d, holder %s", left, found, c.holderText(cmd.Op, idOfOwner.ReplaceAllString(name, "$1"), holds))
	}
	switch all := reply.(type) {
	case error:
		if cmd.Op == core.Write && strings.HasPrefix(all.Error(), "RLOCK_FENCED") {
			return "lost", nil
		}
		return all.Error(), nil
	case nil:
		return held(false, nil, 0), nil
	case string:
		return held(false, all, 0), nil
	case int:
		if cmd.Op == core.None {
			return strconv.Itoa(all), nil
		}
		if cmd.Op == core.Resume || cmd.Op == core.Write {
			if all == 0 {
				return "lost", nil
			}
			return held(false, nil, all-1), nil
		}
		return fmt.Sprintf("left %v", all > 0 && cmd.Op != core.Unmark), nil
	case []any:
		switch len(all) {
		case 1:
			if all[0] == 0 {
				return "lost", nil
			}
			if n := all[0].(int); n < 0 {
				return held(false, nil, -n-1) + ", taken over", nil
			}
			return held(false, nil, all[0].(int)-1), nil
		case 2:
			return denied(false, 0, all[0], all[1]), times
		case 5, 6:
			if token, ok := all[4].(string); ok {
				text = held(all[0] != 0, token, 0)
			} else {
				text = denied(all[0] != 0, found(all[4]), all[1], all[2])
				if at, ok := all[4].([]any); ok && at[0] == -1 {
					text += fmt.Sprintf(", %d tickets", at[2])
				}
			}
			if len(all) > 5 {
				text += ", held back"
				times = append(times, span(all[5]))
			}
			if all[3].(int) > 0 {
				times = append(times, span(all[3]))
			}
			return text, times
		}
	}
	return fmt.Sprint("an answer of another form: ", reply), nil
}

// found returns where a step has found the ticket.
func found(reply any) int {
	if at, ok := reply.([]any); ok {
		return max(at[0].(int), 0)
	}
	return reply.(int)
}
