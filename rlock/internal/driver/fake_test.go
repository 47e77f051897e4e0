package driver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/contract"
	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A fate is the outcome of a command on the fake wire.
type fate uint8

const (
	passes    fate = iota // it is executed, and its answer comes at once
	held                  // it waits for deliver, in any order
	late                  // it is executed at once, and its answer waits for deliver
	lost                  // it is not executed, and has no answer
	unheard               // it is executed, and has no answer
	strays                // it has no answer, and deliver executes it
	refused               // it is not executed, and the answer says so: a server that loads its data
	misfit                // it is not executed, since the key is no lock
	panicking             // the carrier panics
)

// A fake is Redis and the network of several clients: the scripts in Go, and commands and answers
// that the test holds back, loses and reorders.
type fake struct {
	t     testing.TB
	redis *redistest.Server
	fate  func(cmd *core.Command) fate // nil: all pass
	start time.Time
	kind  KindID
	most  int // permits of a semaphore

	mu      sync.Mutex                // guards the fields below
	server  server.Server             // of key
	others  map[string]*server.Server // of other names
	config  server.Config
	clients []*fakeWire
	waiting []*pending
	sent    []core.Command
	texts   []string                 // of the tenures that were released
	alone   []core.Op                // the commands that may use a connection of their own
	owners  map[core.ID]core.OwnerID // of the tickets that have come
	wrote   map[core.ID]int          // how often the guarded write of a release was executed
	flying  map[core.ID]int          // how many commands of a tenure are in flight, or were left behind
	tracked *Client                  // the client that is told of the next change of the key, nil for none
	awaits  []*fakeWire              // the clients that are told of the next change of the queue
	met     string                   // what each condition returns, "" for nothing
}

// A pending is a command or an answer that is held back.
type pending struct {
	cmd  core.Command
	done chan struct{}
}

// A fakeWire is the carrier of one client.
type fakeWire struct {
	*redis
	fake   *fake
	client *Client
	number uint32
	all    *wire.Limits
	subs   map[string][]*fakeSub

	tracks bool // Redis tells of changed keys
	keeps  bool // a caller must not leave a command behind, as in a Cluster
	deaf   bool // the connection of the subscriptions has ended
}

func newFake(t testing.TB, embedded *redistest.Server, kind KindID) *fake {
	f := &fake{t: t, redis: embedded, start: time.Now(), kind: kind, owners: make(map[core.ID]core.OwnerID), wrote: make(map[core.ID]int), flying: make(map[core.ID]int), others: make(map[string]*server.Server)}
	f.config = server.Config{Kind: servers[kind], Claim: core.Span(claimLease), Brief: core.Span(briefClaim), Silence: core.Span(queueTime)}
	f.server = server.Server{Config: &f.config}
	return f
}

var servers = [kindCount]server.Kind{
	PlainKind: server.Plain, FencedKind: server.Plain, FairKind: server.Plain,
	ReadWriteKind: server.ReadWrite, SemaphoreKind: server.Semaphore,
}

// join returns a new client. Its connection is one to the embedded server, over which no command
// goes.
func (f *fake) join(change func(*Config)) *Client {
	config := Config{
		Lease: 30 * time.Second, HandoffLimit: 100, HandoffTime: 10 * time.Millisecond,
		NoClientChannel: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if change != nil {
		change(&config)
	}
	option := f.redis.Options()
	option.ForceSingleClient, option.DisableCache, option.PipelineMultiplex = true, true, -1
	option.RingScaleEachConn, option.ReadBufferEachConn, option.WriteBufferEachConn = 1, 4<<10, 4<<10
	option.Dialer.KeepAlive = time.Hour // few PINGs
	id := wire.NewID()
	r, err := wire.Open(wire.Options{Redis: option}, id.Prefix)
	require.NoError(f.t, err)
	c := newClient(config, r, id)
	w := &fakeWire{redis: &redis{Redis: r, hub: c.Hub}, client: c, fake: f, tracks: config.TrackedKeys > 0, all: wire.NewLimits(), subs: make(map[string][]*fakeSub)}
	f.mu.Lock()
	w.number = uint32(len(f.clients) + 1)
	f.clients = append(f.clients, w)
	f.mu.Unlock()
	c.open(w)
	f.t.Cleanup(func() {
		_ = c.Close()
		synctest.Wait()
		if invariants {
			assert.Zero(f.t, c.witness.countUnanswered(), "rule 4: commands have no answer")
		}
	})
	return c
}

func (w *fakeWire) Tracks() bool                           { return w.tracks }
func (w *fakeWire) IsAbandonable() bool                    { return !w.keeps }
func (w *fakeWire) Ends() bool                             { return true }
func (w *fakeWire) Limits(uint16) *wire.Limits             { return w.all }
func (w *fakeWire) nodeOf(*Name) uint32                    { return 0 }
func (w *fakeWire) refreshNodes(time.Time, bool)           {}
func (w *fakeWire) Deadline(now time.Time) context.Context { return w.redis.Deadline(now) }

// number names the tenures of a client as the server knows them.
func (w *fakeWire) outward(id core.ID) core.ID {
	if id != (core.ID{}) {
		id.Client = w.number
	}
	return id
}

func (w *fakeWire) inward(id core.ID) core.ID {
	switch {
	case id == core.ID{}:
	case id.Client == w.number:
		id.Client = wire.ThisClient
	default:
		id.Client = wire.OtherClient
	}
	return id
}

func (w *fakeWire) Carry(ctx context.Context, c *wire.Exchange) {
	if c.Cmd.Op == core.Leave {
		w.fake.mu.Lock()
		w.fake.texts = append(w.fake.texts, string(c.Text))
		w.fake.mu.Unlock()
	}
	w.fake.takesOff(w.outward(c.Cmd.ID), c)
	defer w.fake.lands(ctx, w.outward(c.Cmd.ID), c)
	c.Answer = w.fake.run(ctx, w, c)
	a := &c.Answer
	if c.Cmd.Carries && a.Fault == core.Answered {
		w.fake.mu.Lock()
		if c.Write.Fate = wire.WriteFenced; w.fake.wrote[w.outward(c.Cmd.ID)] > 0 {
			c.Write.Fate = wire.WriteRan
		}
		w.fake.mu.Unlock()
	}
	if c.Cmd.Op == core.Mirror && a.Found == core.Holds { // it changes the key, and a change ends the tracking
		w.fake.mu.Lock()
		if w.fake.tracked = nil; c.Track {
			w.fake.tracked = w.client
		}
		if c.Awaits {
			w.fake.awaits = append(w.fake.awaits, w)
		}
		w.fake.mu.Unlock()
	}
}

func (w *fakeWire) CarryAll(ctx context.Context, all []*wire.Exchange) {
	for _, c := range all {
		w.Carry(ctx, c)
	}
}

// takesOff counts a command of the tenure, which must follow none if it may use a connection of its
// own. A guarded write may come at any time, and so may a Leave: the second one finds nothing.
func (f *fake) takesOff(id core.ID, c *wire.Exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.First {
		assert.Zero(f.t, f.flying[id], "%v may overtake a command", c.Cmd.Op)
		f.alone = append(f.alone, c.Cmd.Op)
	}
	if mustLead(c.Cmd.Op) {
		f.flying[id]++
	}
}

// lands ends the flight of a command that was not left behind.
func (f *fake) lands(ctx context.Context, id core.ID, c *wire.Exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if mustLead(c.Cmd.Op) && (ctx.Err() == nil || c.Answer.Fault == core.Answered) {
		f.flying[id]--
	}
}

// mustLead reports whether no later command of the tenure may be executed before this one.
func mustLead(op core.Op) bool { return op != core.Write && op != core.Leave }

// run carries one command.
func (f *fake) run(ctx context.Context, w *fakeWire, c *wire.Exchange) (a wire.Answer) {
	name, cmd, conditional := c.Keys.Key, c.Cmd, c.Unless != nil
	none := wire.Answer{Reply: core.Reply{Fault: core.Unknown}, Err: wire.ErrNoAnswer, Sent: wire.Sent{Generation: w.Generation()}}
	fate := passes
	f.mu.Lock()
	f.sent = append(f.sent, cmd)
	if f.fate != nil {
		fate = f.fate(&cmd)
	}
	f.mu.Unlock()
	execute := func() wire.Answer {
		f.mu.Lock()
		met := f.met
		f.mu.Unlock()
		if conditional && met != "" {
			return wire.Answer{Reply: core.Reply{Fault: core.Skipped}, Met: &met, Heard: true, Clock: 1, Sent: none.Sent}
		}
		return f.execute(w, name, cmd)
	}
	holdBack := func() *pending {
		p := &pending{cmd, make(chan struct{})}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waiting = append(f.waiting, p)
		return p
	}
	wait := func() bool {
		select {
		case <-holdBack().done:
			return true
		case <-ctx.Done():
			none.Err = ctx.Err()
			return false
		}
	}
	//exhaustive:ignore
	switch fate {
	case panicking:
		panic("the carrier panics")
	case lost:
		return none
	case strays:
		p := holdBack()
		go func() {
			<-p.done
			execute()
		}()
		return none
	case refused:
		none.Fault = core.NotRun
		return none
	case misfit:
		none.Fault, none.Err, none.Heard = core.Fatal, wire.ErrWrongType, true
		return none
	case unheard:
		execute()
		return none
	case held:
		if !wait() {
			return none
		}
	case late:
		a = execute()
		if !wait() {
			return none
		}
		return a
	}
	return execute()
}

// at returns the lock of the name on the server.
func (f *fake) at(name string) *server.Server {
	if name == key {
		return &f.server
	}
	if f.others[name] == nil {
		f.others[name] = &server.Server{Config: &f.config}
	}
	return f.others[name]
}

// foreignOwner is the holder of a lock that is no client of ours.
const foreignOwner = "4ea0a2a4-6f6f-4f7c-9d5c-2d8a3f9f1b11:7"

// execute runs a command on the server, and delivers the messages.
func (f *fake) execute(w *fakeWire, name string, cmd core.Command) (a wire.Answer) {
	f.mu.Lock()
	redis := f.at(name)
	cmd.ID, cmd.Joins.ID = w.outward(cmd.ID), w.outward(cmd.Joins.ID)
	for _, h := range redis.Holders { // tenures of all clients have different numbers
		if h.ID.N == cmd.Ends.ID.N {
			cmd.Ends.ID = h.ID
		}
		for i := range cmd.Tells {
			if h.ID.N == cmd.Tells[i].ID.N {
				cmd.Tells[i].ID = h.ID
			}
		}
		if h.Owner == 0 && h.ID.N == cmd.Passed.N {
			cmd.Passed = h.ID
		}
	}
	for _, ticket := range []core.Ticket{cmd.Ticket, cmd.Joins} {
		f.owners[ticket.ID] = max(f.owners[ticket.ID], ticket.Owner)
	}
	var effects server.Effects
	reply := redis.Do(cmd, server.Time(time.Since(f.start)), &effects)
	changed := f.changes(w, redis, cmd.Op)
	for i, h := range reply.Holders {
		reply.Holders[i].ID = w.inward(h.ID)
	}
	told, owners := server.Told(&cmd, &reply), maps.Clone(f.owners)
	if effects.Wrote {
		f.wrote[cmd.ID]++
	}
	var tell []func()
	for _, m := range effects.Messages {
		for _, to := range f.clients {
			if to.number == m.ID.Client && m.Kind <= core.AtFront {
				text := fmt.Sprintf("?%s %s", to.client.textOf(m.ID, f.owners[m.ID], m.More), name)
				if m.Kind == core.Granted {
					text = fmt.Sprintf("+%s %d %d %s", to.client.textOf(m.ID, f.owners[m.ID], m.More), m.Token, m.Tokens, name)
				}
				for _, s := range to.subs[name] {
					tell = append(tell, func() { s.hear(text) })
				}
			}
		}
	}
	f.mu.Unlock()
	for _, t := range tell {
		t()
	}
	for _, m := range told {
		for _, to := range f.clients {
			if to.number != m.ID.Client {
				continue
			}
			text := to.client.textOf(m.ID, owners[m.ID], 0)
			m.ID = core.ID{Client: wire.ThisClient, N: m.ID.N}
			if l, now := to.client.enterTenure(name, text, m.ID); l != nil {
				l.Hear(m, now)
				l.shard.exit(l)
			}
			break
		}
	}
	for _, c := range changed {
		c.noteKeyChanged("rlock_queue:{" + name + "}")
	}
	if reply.Foreign {
		a.Owner = foreignOwner
	}
	reply.Holder = w.inward(reply.Holder)
	a.Reply, a.Heard, a.Sent = reply, true, wire.Sent{Generation: w.Generation()}
	return a
}

// changes returns the clients that Redis tells of a changed queue, once: not the one that changed it.
func (f *fake) changes(by *fakeWire, redis *server.Server, op core.Op) (told []*Client) {
	if op != core.Join {
		return nil
	}
	for _, w := range f.awaits {
		if w != by {
			told = append(told, w.client)
		}
	}
	f.awaits = slices.DeleteFunc(f.awaits, func(w *fakeWire) bool { return w != by })
	return told
}

// deliver lets the command or answer go on that was held back in that place, and the last one for
// -1.
func (f *fake) deliver(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i < 0 {
		i = len(f.waiting) - 1
	}
	close(f.waiting[i].done)
	f.waiting = slices.Delete(f.waiting, i, i+1)
}

// gives lets the commands of these sorts have that fate from now on, or all commands, for no sort.
// The others pass.
func (f *fake) gives(what fate, of ...core.Op) {
	f.decides(func(cmd *core.Command) fate {
		if len(of) == 0 || slices.Contains(of, cmd.Op) {
			return what
		}
		return passes
	})
}

// givesNext is the same of the next command that is one of those.
func (f *fake) givesNext(what fate, is func(cmd *core.Command) bool) {
	f.decides(func(cmd *core.Command) fate {
		if !is(cmd) {
			return passes
		}
		f.fate = nil
		return what
	})
}

func (f *fake) decides(fate func(cmd *core.Command) fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = fate
}

// forgets lets the server lose the lock.
func (f *fake) forgets() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server.Holders = nil
}

// meets changes what each condition returns.
func (f *fake) meets(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.met = text
}

// holders returns how many tenures the lock has.
func (f *fake) holders() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.server.Holders)
}

// direct returns the commands that might use a connection of their own.
func (f *fake) direct() []core.Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.alone)
}

// count returns how many commands of the sort were sent.
func (f *fake) count(op core.Op) int { return len(f.ops(op)) }

// A fakeSub is a subscription. The hub says nothing more about one that is confirmed at once.
type fakeSub struct {
	wire *fakeWire
	name string
	hear func(string)
}

func (w *fakeWire) listen(n *Name, hear func(string), _ func()) subscription {
	s := &fakeSub{w, n.Key, hear}
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	w.subs[n.Key] = append(w.subs[n.Key], s)
	w.fake.heard(w, n.Key)
	return s
}

// heard notes whether the client hears the messages about the lock.
func (f *fake) heard(w *fakeWire, name string) {
	redis := f.at(name)
	if len(w.subs[name]) == 0 {
		redis.Listens = redis.Listens.Without(w.number)
	} else {
		redis.Listens = redis.Listens.With(w.number)
	}
}

func (w *fakeWire) isSubscribed(n *Name) bool {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	return w.fake.at(n.Key).Listens.Has(w.number)
}

func (s *fakeSub) state() (confirmed, refused bool) {
	s.wire.fake.mu.Lock()
	defer s.wire.fake.mu.Unlock()
	return !s.wire.deaf, false
}

func (s *fakeSub) listenForeign(func(string)) {}
func (s *fakeSub) ignoreForeign()             {}
func (s *fakeSub) hearsForeign() bool         { return false }

func (s *fakeSub) close() {
	f := s.wire.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	s.wire.subs[s.name] = slices.DeleteFunc(s.wire.subs[s.name], func(o *fakeSub) bool { return o == s })
	f.heard(s.wire, s.name)
}

const key = "orders:42"

func (c *Client) lock() *NamedLock {
	f := c.wire.(*fakeWire).fake
	l := NewLock(c, f.kind, key)
	if f.most > 0 {
		l = NewSemaphore(c, key, f.most)
	}
	return &l
}

func request(o contract.Owner) Request {
	return Request{Owner: o, AcquireOptions: contract.AcquireOptions{Wait: contract.Forever}}
}
