package wire_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A comparison is one kind of lock on one server, and the model beside it.
type comparison struct {
	*modelKind
	on     subject
	offset time.Duration // how much time has been let pass by advance
	config server.Config

	// Of a round.
	random    *rand.Rand
	server    server.Server
	foreign   foreignSorts           // which foreign clients there are
	shown     map[string]server.Time // the times that Redis has shown last in their hash, by field
	known     []core.Ticket
	resumed   core.Command // the last Resume
	next      [modelClients]uint64
	log       []string
	tolerance time.Duration
	last      server.Time
	effects   server.Effects
}

// compare returns the comparison of a kind on a server. The scripts of the kind may be replaced before its rounds.
func compare(t testing.TB, on subject, k modelKind) *comparison {
	k.redis = open(t)
	var err error
	k.keys, err = k.redis.KeysOf(modelLock, k.kind.Layout, "")
	require.NoError(t, err)
	for _, s := range []*wire.Script{k.acquire, k.resume, k.step, k.mirror, k.guard, k.release} {
		_, ok := on.do([]string{"SCRIPT", "LOAD", s.Text()})[0].(string)
		require.True(t, ok, "the script is not accepted")
	}
	k.exact = on.exact()
	return &comparison{modelKind: &k, on: on, config: server.Config{Kind: k.model, Claim: modelClaim, Silence: modelSilence, Uncounted: k.uncounted, Windows: server.RedisWindows}}
}

// round runs random commands in a lock of its own. It returns how many, and what differs, "" for nothing.
func (c *comparison) round(n uint64) (commands int, difference string) {
	c.on.do([]string{"FLUSHALL"})
	c.random = rand.New(rand.NewPCG(n, 1))
	c.server = server.Server{Config: &c.config}
	c.begins()
	c.resumed = core.Command{}
	c.known, c.next, c.log, c.tolerance = nil, [modelClients]uint64{}, nil, 0
	if !c.on.exact() {
		c.tolerance = 2 * time.Millisecond
	}
	for i := range uint32(modelClients) {
		c.listen(i, i < modelClients-1)
	}
	for range 24 + c.foreign.events() {
		if c.foreign.some() && c.random.IntN(3) == 0 {
			if c.foreignEvent() {
				return commands, ""
			}
			continue
		}
		switch c.random.IntN(12) {
		case 0:
			c.advance()
		case 1:
			if c.random.IntN(4) == 0 {
				client := uint32(c.random.IntN(modelClients))
				c.listen(client, !c.server.Listens.Has(client))
			}
		default:
			commands++
			if undecided, difference := c.command(c.draw()); undecided || difference != "" {
				return commands, difference
			}
		}
	}
	return commands, ""
}

func (c *comparison) listen(client uint32, on bool) {
	c.note("client %d listens: %v", client, on)
	c.on.listen(clientName(client), c.keys.GrantChannels()+prefixText(client), on)
	c.server.Listens = c.server.Listens.Without(client)
	if on {
		c.server.Listens = c.server.Listens.With(client)
	}
}

// advance lets time pass, as often as not until a lease is about to end, or has just ended.
func (c *comparison) advance() {
	d := time.Duration(c.random.IntN(3000)) * time.Millisecond
	if c.foreign.some() && c.random.IntN(3) > 0 {
		d = time.Duration(1+c.random.IntN(30)) * time.Millisecond // windows are short
	}
	if ends := append(ends(&c.server), c.windowEnds()...); len(ends) > 0 && c.random.IntN(3) == 0 {
		d = ms(core.Span(ends[c.random.IntN(len(ends))]-c.last)) + time.Duration(c.random.IntN(3)-1)*time.Millisecond
		if !c.on.exact() {
			d += 20 * time.Millisecond
		}
	}
	if d > 0 {
		c.note("%v pass", d)
		c.on.advance(d, &c.keys)
		c.offset += d
		c.last += server.Time(d.Milliseconds())
		if !c.on.exact() {
			c.tolerance += time.Millisecond
		}
	}
}

// ends returns the times at which a key of the lock expires, or a holder's lease.
func ends(s *server.Server) (ends []server.Time) {
	if len(s.Holders) > 0 {
		ends = append(ends, s.Ends)
	}
	for _, h := range s.Holders {
		if h.Ends > 0 {
			ends = append(ends, h.Ends)
		}
	}
	if len(s.Queue)+len(s.Marks) > 0 {
		ends = append(ends, s.QueueEnds)
	}
	if s.Foreign.Memory.Ends > 0 {
		ends = append(ends, s.Foreign.Memory.Ends)
	}
	return ends
}

func (c *comparison) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// command runs one command by both, and returns how they differ. A clock that does not stand still shows only between which
// times Redis ran it: it has to be as the model says for one of them. The round is undecided if a key expired at about
// that time.
func (c *comparison) command(cmd core.Command) (undecided bool, difference string) {
	c.note("%s", commandText(cmd))
	words := []string{"ZREM", c.keys.Queue(), "!" + uuidText(cmd.ID)}
	if cmd.Op != core.Unmark {
		words = c.call(cmd).Words()
		if keys, _ := strconv.Atoi(words[2]); c.uncounted && cmd.Op > core.Acquire && cmd.Op != core.Write {
			words[3+keys] = "c" + words[3+keys][1:]
		}
	}
	replies := c.on.do(append([][]string{{"TIME"}, words}, c.looks()...)...)
	began := c.timeOf(replies[0])
	was := c.server
	want := c.expected(cmd, began)
	c.last = began
	got := c.read(cmd, replies[1], replies[2:])
	ended := c.passed(began)
	if c.isUnclear(&was, began, ended) || c.isUnclear(&c.server, began, ended) {
		return true, ""
	}
	first := want
	for at := began; !got.sameAs(want, c.tolerance); want = c.expected(cmd, at) {
		if at++; at > ended {
			if c.isTied(&was) {
				return true, ""
			}
			return false, fmt.Sprintf("%s\nRedis: %v\nmodel: %v", strings.Join(c.log, "\n"), got, first)
		}
		c.server = was
	}
	c.adopt()
	return false, ""
}

// passed reads the clock of the server, and adds the time since began to the tolerance.
func (c *comparison) passed(began server.Time) (ended server.Time) {
	if c.exact {
		return began
	}
	ended = c.now()
	c.tolerance += ms(core.Span(ended - began))
	return ended
}

// isUnclear reports whether something ends at about the times from began to ended.
func (c *comparison) isUnclear(s *server.Server, began, ended server.Time) bool {
	slack := server.Time(c.tolerance.Milliseconds())
	return !c.exact && slices.ContainsFunc(ends(s), func(end server.Time) bool { return began-slack <= end && end <= ended+slack })
}

// isTied reports whether it cannot be known whose lease ends first, which a command names: the ends of two differ by no more
// than the clocks may.
func (c *comparison) isTied(s *server.Server) bool {
	slack := server.Time(c.tolerance.Milliseconds())
	for i, a := range s.Holders {
		for _, b := range s.Holders[:i] {
			if !c.exact && c.model == server.Semaphore && max(a.Ends-b.Ends, b.Ends-a.Ends) <= slack {
				return true
			}
		}
	}
	return false
}

// expected runs a command at that time by the model.
func (c *comparison) expected(cmd core.Command, at server.Time) snapshot {
	c.effects = server.Effects{}
	reply := c.server.Do(cmd, at, &c.effects)
	return c.snapshotOf(&c.server, cmd, reply, &c.effects, at)
}

func commandText(c core.Command) string {
	names := [...]string{"none", "acquire", "resume", "join", "look", "mirror", "leave", "step", "unmark", "write"}
	text := fmt.Sprintf("%s %s for %d", names[c.Op], member(c.Ticket), c.Lease)
	if c.Joins != (core.Ticket{}) {
		text += ", " + member(c.Joins) + " joins"
	}
	if c.Op == core.Mirror {
		text += fmt.Sprintf(", exact %v, writes %d, reads %v", c.Exact, c.Writes, c.Reads)
	}
	if c.Op == core.Resume {
		text += ", of " + ownerText(c.Passed, 0)
	}
	if c.Bounded {
		text += fmt.Sprintf(", with %d tickets at most", c.Most)
	}
	if c.Carries {
		text += ", with a guarded write"
	}
	if c.Polling {
		text += ", polling"
	}
	if c.Heard {
		text += ", heard"
	}
	if c.Permits > 0 {
		text += fmt.Sprintf(", %d permits", c.Permits)
	}
	return text
}
