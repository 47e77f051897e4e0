package wire_test

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

// Foreign clients in the comparison: they do with plain commands what Redisson does with scripts of
// its own.

const foreignClients = 3

func clientName(client uint32) string { return fmt.Sprintf("client-%d", client) }

func foreignName(process int) string { return fmt.Sprintf("foreign-%d", process) }

// begins takes back what the last round has left, and decides whether there are foreign clients in
// this one.
func (c *comparison) begins() {
	for process := range foreignClients {
		c.on.listen(foreignName(process), c.keys.Channel(), false)
	}
	for client := range uint32(modelClients) {
		c.hear(client, false)
	}
	c.foreign = foreignSorts{}
	if c.model == server.Semaphore || c.random.IntN(3) == 0 {
		return
	}
	for !c.foreign.some() {
		c.foreign = foreignSorts{listen: c.random.IntN(2) == 0, poll: c.random.IntN(2) == 0, fair: c.random.IntN(2) == 0 && c.model == server.Plain}
	}
}

// foreignSorts are the sorts of foreign clients in a round.
type foreignSorts struct{ listen, poll, fair bool }

func (f foreignSorts) some() bool { return f != foreignSorts{} }

// events returns how many more things happen in the round.
func (f foreignSorts) events() int {
	if f.some() {
		return 24
	}
	return 0
}

// hear subscribes a client of ours to Redisson's channel, and to the channel by which it is
// counted.
func (c *comparison) hear(client uint32, on bool) {
	c.on.listen(clientName(client), c.keys.Ushers(), on)
	c.on.listen(clientName(client), c.keys.Channel(), on)
	c.server.Foreign.Ears = c.server.Foreign.Ears.Without(client)
	if on {
		c.server.Foreign.Ears = c.server.Foreign.Ears.With(client)
	}
}

// foreignEvent is something that a foreign client does, or that a client of ours does about them.
// As with a command, what it did may be undecided.
func (c *comparison) foreignEvent() (undecided bool) {
	now, was := c.now(), c.server
	c.server.Expire(now)
	c.doForeign(now)
	return c.isUnclear(&was, now, c.passed(now))
}

func (c *comparison) doForeign(now server.Time) {
	r, s := c.random, &c.server
	process := r.IntN(foreignClients)
	thread := core.ID{Client: server.FirstForeign + uint32(process), N: 1 + r.Uint64N(2)}
	switch r.IntN(9) {
	case 0, 1:
		if !c.foreign.listen {
			return
		}
		on := r.IntN(2) == 0
		c.note("%s listens: %v", foreignName(process), on)
		c.on.listen(foreignName(process), c.keys.Channel(), on)
		s.Foreign.Listen = s.Foreign.Listen.Without(uint32(process))
		if on {
			s.Foreign.Listen = s.Foreign.Listen.With(uint32(process))
		}
	case 2:
		client := uint32(r.IntN(modelClients))
		on := r.IntN(2) == 0
		c.note("client %d hears foreign clients: %v", client, on)
		c.hear(client, on)
	case 3, 4, 8:
		mode := core.Alone
		if c.model == server.ReadWrite && r.IntN(2) == 0 {
			mode = core.Shared
		}
		t := core.Ticket{ID: thread, Mode: mode}
		if !slices.ContainsFunc(s.Holders, func(h server.Holder) bool { return h.ID == thread }) && s.ForeignEnters(t, 3000, now) {
			c.note("%s takes the lock, %v", ownerText(thread, 0), mode)
			c.take(t, 3*time.Second)
		}
	case 5:
		if i := slices.IndexFunc(s.Holders, func(h server.Holder) bool { return server.IsForeign(h.ID) }); i >= 0 {
			h := s.Holders[i]
			c.note("%s frees the lock", fieldText(h))
			s.ForeignLeaves(h.ID, now)
			c.free(h)
		}
	case 6, 7:
		if !c.foreign.fair {
			return
		}
		if i := slices.Index(s.Foreign.Fair, thread); i >= 0 {
			c.note("%s leaves the fair queue", ownerText(thread, 0))
			c.on.do([]string{"LREM", c.keys.FairQueue(), "1", ownerText(thread, 0)})
			s.Foreign.Fair = slices.Delete(slices.Clone(s.Foreign.Fair), i, i+1)
			return
		}
		c.note("%s joins the fair queue", ownerText(thread, 0))
		c.on.do([]string{"RPUSH", c.keys.FairQueue(), ownerText(thread, 0)})
		s.Foreign.Fair = append(slices.Clip(s.Foreign.Fair), thread)
	}
}

// now returns the time on the server's clock.
func (c *comparison) now() server.Time { return c.timeOf(c.on.do([]string{"TIME"})[0]) }

// take writes the state after a foreign client has taken the lock to Redis.
func (c *comparison) take(t core.Ticket, lease time.Duration) {
	owner, ms := ownerText(t.ID, 0), strconv.FormatInt(lease.Milliseconds(), 10)
	longest := strconv.FormatInt(int64(c.server.Ends-c.now()), 10)
	switch {
	case c.model != server.ReadWrite:
		c.on.do([]string{"HSET", modelLock, owner, "1"}, []string{"PEXPIRE", modelLock, ms})
	case t.Mode == core.Shared:
		c.on.do([]string{"HSET", modelLock, "mode", "read", owner, "1"}, []string{"SET", c.keys.Extra() + ":" + owner + ":rwlock_timeout:1", "1", "PX", ms},
			[]string{"PEXPIRE", modelLock, longest})
	default:
		c.on.do([]string{"HSET", modelLock, "mode", "write", owner + ":write", "1"}, []string{"PEXPIRE", modelLock, ms})
	}
}

// free writes the state after a holder's release to Redis.
func (c *comparison) free(h server.Holder) {
	c.on.do([]string{"HDEL", modelLock, fieldText(h)})
	if c.model == server.ReadWrite && !h.Writes {
		c.on.do([]string{"DEL", c.keys.Extra() + ":" + fieldText(h) + ":rwlock_timeout:1"})
	}
	if len(c.server.Holders) == 0 {
		c.on.do([]string{"DEL", modelLock})
	} else {
		c.on.do([]string{"PEXPIRE", modelLock, strconv.FormatInt(int64(c.server.Ends-c.now()), 10)})
	}
}

// windowEnds returns the times at which a window of foreign clients ends, or the next one may be
// put in the queue.
func (c *comparison) windowEnds() (ends []server.Time) {
	m := c.server.Foreign.Memory
	for _, t := range []server.Time{m.Over, m.Next, m.Polled} {
		if t > 0 {
			ends = append(ends, t)
		}
	}
	return ends
}

// foreignTimes returns the times of the hash by their fields, in the order of these.
func foreignTimes(m *server.Memory) ([]string, []*server.Time) {
	return []string{"b", "e", "f", "h", "n", "q", "s", "t", "u", "w"},
		[]*server.Time{&m.Began, &m.Over, &m.FairAt, &m.Heard, &m.Next, &m.Polled, &m.Seen, &m.Last, &m.Used, &m.Holding}
}

// foreignOf returns what the model has about foreign clients, and adds the times to n.
func (k *modelKind) foreignOf(s *server.Server, now server.Time, n *snapshot) (words []string) {
	m := s.Foreign.Memory
	words = []string{"foreign"}
	fields, times := foreignTimes(&m)
	for i, field := range fields {
		if *times[i] != 0 {
			words = append(words, field)
			n.times = append(n.times, ms(core.Span(*times[i]-now))/k.blur(field))
		}
	}
	if m.Length > 0 {
		words = append(words, fmt.Sprint("l ", m.Length))
	}
	if m.Polls {
		words = append(words, "p 1")
	}
	if m.Ends > 0 {
		n.times = append(n.times, ms(core.Span(m.Ends-now)))
	}
	for _, id := range s.Foreign.Fair {
		words = append(words, "fair "+ownerText(id, 0))
	}
	if s.Foreign.PlaceEnds > 0 {
		n.times = append(n.times, ms(core.Span(s.Foreign.PlaceEnds-now)))
	}
	return words
}

// readForeign is foreignOf for Redis.
func (c *comparison) readForeign(looks []any, n *snapshot) (words []string) {
	hash := make(map[string]string)
	all, _ := looks[0].([]any)
	for i := 0; i < len(all); i += 2 {
		hash[all[i].(string)] = all[i+1].(string)
	}
	at := func(text string) (server.Time, time.Duration) {
		t, _ := strconv.ParseInt(text, 10, 64)
		if !c.on.exact() {
			t += c.offset.Milliseconds()
		}
		return server.Time(t), ms(core.Span(server.Time(t) - c.last))
	}
	c.shown = make(map[string]server.Time)
	words = []string{"foreign"}
	fields, _ := foreignTimes(new(server.Memory))
	for _, field := range fields {
		if text, ok := hash[field]; ok {
			words = append(words, field)
			t, left := at(text)
			c.shown[field] = t
			n.times = append(n.times, left/c.blur(field))
		}
	}
	for _, field := range []string{"l", "p"} {
		if text, ok := hash[field]; ok {
			words = append(words, field+" "+text)
		}
	}
	if len(hash) > 0 {
		n.times = append(n.times, time.Duration(looks[1].(int))*time.Millisecond)
	}
	fair, _ := looks[2].([]any)
	for _, owner := range fair {
		words = append(words, "fair "+owner.(string))
	}
	if text, ok := looks[3].(string); ok {
		_, left := at(text)
		n.times = append(n.times, left)
	}
	return words
}

// blur is by how much less exact a time of the hash is than the clock: "n" and "q" are 16 times as
// far away as the lock was idle, and "e" as far as it was until the window was used.
func (k *modelKind) blur(field string) time.Duration {
	switch {
	case k.exact:
		return 1
	case field == "n", field == "q":
		return 1 + time.Duration(server.RedisWindows.Vain)
	case field == "e":
		return 2
	}
	return 1
}

// adopt copies the times of Redis to the model, where they are not exact: windows are short.
func (c *comparison) adopt() {
	if c.exact {
		return
	}
	m := &c.server.Foreign.Memory
	fields, times := foreignTimes(m)
	for i, field := range fields {
		*times[i] = c.shown[field]
	}
}
