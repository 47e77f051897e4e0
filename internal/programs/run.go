package programs

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/history"
	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/elect"
	"github.com/go-rlock/rlock/rlock/once"
	"github.com/go-rlock/rlock/rlock/once/idempotent"
	"github.com/go-rlock/rlock/rlock/redisson"
)

// A Ground has the servers on which a program runs.
type Ground struct {
	Servers []Server // as many as the world has
	Virtual bool     // time is virtual, so that waits are exact

	// The fields below are for a process among others.
	Name     string            // the name of the process, "" for none
	Recorder *history.Recorder // the recorder of all its clients; nil: each has its own
	First    int               // a number below the numbers of all calls
}

// A Server is one of a Ground: a server, or the nodes of a Cluster or a Sentinel.
type Server struct {
	Option rueidis.ClientOption                   // how to connect, but for DialCtxFn
	Dial   func(address string) (net.Conn, error) // opens a connection
	Refuse func(text string)                      // answers scripts with an error, or executes them again for ""; nil: it cannot
	Fields func(key string) (owners []string)     // returns the owners that Redis shows for a lock; nil: it cannot
}

// A Run is the run of a program, with its results.
type Run struct {
	program *Program
	ground  Ground
	begin   time.Time
	ctx     context.Context // the context of all calls; it ends after a day
	cancel  context.CancelFunc
	admin   []rueidis.Client
	closing sync.WaitGroup // the calls of Close that go on beside the lanes
	face    *Face
	shared  sharing

	injector *history.Recorder // the recorder of faults
	flushed  atomic.Bool       // Redis has forgotten everything
	barred   atomic.Bool       // Redis refuses users now and then
	whole    atomic.Bool       // the faults and their effects are over
	away     atomic.Int64      // the server that has lost its data, and grants nothing; 0: none
	numbers  atomic.Int64      // the number of calls
	options  groupConfig       // the options of groups and guards

	members []*slot

	mu         sync.Mutex // guards the fields below
	problems   []string
	history    []history.Event          // the events of all clients
	gone       []*member                // the clients that were closed
	forgotten  map[string]bool          // the locks that Redis was made to forget
	deleted    map[string]time.Duration // when Redis was last made to forget a lock; "" for all locks
	unanswered map[string]time.Duration // when a release of a lock was last not confirmed
	refuses    bool                     // Redis refuses scripts
	refused    time.Duration            // the time until which Redis has refused scripts
	maybe      []func()                 // functions that end faults which may still come
	held, most int                      // the number of levels that callers have, and the most at once
	parcels    []*parcel                // holds that were passed on
	grants     []*grant
	takeovers  []*takeover      // calls that take a lock over
	results    map[int]*onceRun // the runs of all functions, by number
	posts      posts
	counts     counts
	notes      map[string]*note // by lock
}

// A slot is a client of the program, which may be closed and made anew.
type slot = atomic.Pointer[member]

// A member is one life of a client of the program, with a client of each server.
type member struct {
	run      *Run
	index    int
	name     string // the client's name in the history
	setting  Client
	clients  []*rlock.Client
	nets     []*nets
	recorder *history.Recorder
	observed *observed
	closes   atomic.Bool   // Close has been called
	closed   time.Duration // the time of that call

	group     *once.Group
	guard     *idempotent.Guard
	sync      *redisson.Client
	candidate *elect.Candidate
}

// main is the client of the first server.
func (m *member) main() *rlock.Client { return m.clients[0] }

func (r *Run) now() time.Duration { return time.Since(r.begin) }

func (r *Run) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf("%v: ", r.now())+fmt.Sprintf(format, args...))
}

// number returns a number for each call.
func (r *Run) number() int { return r.ground.First + int(r.numbers.Add(1)) }

// recorder returns the recorder of a client, or of faults: the ground's, or a new one.
func (r *Run) recorder(name string) *history.Recorder {
	if r.ground.Recorder != nil {
		return r.ground.Recorder
	}
	return history.NewRecorder(name, func(e history.Event) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.history = append(r.history, e)
		return nil
	})
}

// Execute runs a program, and waits until all of its clients are closed. face counts the calls.
func Execute(p *Program, ground Ground, face *Face) *Run {
	r := newRun(p, ground, face)
	defer r.close()
	if err := r.open(); err != nil {
		r.problem("%v", err)
		return r
	}
	var all sync.WaitGroup
	for i, l := range p.Lanes {
		c := r.caller(i, l.Client)
		all.Go(func() {
			for _, o := range l.Ops {
				c.perform(o)
			}
		})
	}
	r.breakThings(p.Faults)
	all.Wait()
	r.closing.Wait()
	r.end()
	return r
}

func newRun(p *Program, ground Ground, face *Face) *Run {
	r := &Run{
		program: p, ground: ground, begin: time.Now(), face: face,
		forgotten: make(map[string]bool), deleted: make(map[string]time.Duration), unanswered: make(map[string]time.Duration),
		results: make(map[int]*onceRun), notes: make(map[string]*note),
		posts: posts{responses: make(map[string]string), keys: make(map[string]string), settled: make(map[string]bool)},
	}
	apply(groupSettings, &r.options, p.World.Options)
	r.ctx, r.cancel = context.WithTimeout(context.Background(), 24*time.Hour)
	r.injector = r.recorder("faults")
	return r
}

// open makes the clients.
func (r *Run) open() error {
	for _, s := range r.ground.Servers {
		option := s.Option
		option.DialCtxFn, option.DisableCache = dialer(s.Dial), true
		admin, err := rueidis.NewClient(option)
		if err != nil {
			return fmt.Errorf("no connection: %w", err)
		}
		r.admin = append(r.admin, admin)
	}
	if err := r.connectShared(); err != nil {
		return fmt.Errorf("no connection: %w", err)
	}
	for i := range r.program.World.Clients {
		m, err := r.member(i, 0)
		if err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		s := new(slot)
		s.Store(m)
		r.members = append(r.members, s)
	}
	r.setPermits()
	return nil
}

// close closes the rueidis clients that the clients shared.
func (r *Run) close() {
	r.cancel()
	r.shared.close()
	for _, admin := range r.admin {
		admin.Close()
	}
}

// caller returns the caller of a lane.
func (r *Run) caller(lane, client int) *caller {
	return &caller{run: r, lane: lane, slot: r.members[client], owner: rlock.NewOwner(), random: rand.New(rand.NewPCG(r.program.Seed, uint64(lane)))}
}

// A sharing has the rueidis clients, one for each server, that clients of the program share.
type sharing struct {
	redis []rueidis.Client
	nets  []*nets
}

func (r *Run) connectShared() error {
	s := &r.shared
	for _, server := range r.ground.Servers {
		n := newNets(server.Dial, r.program.World.Trip)
		option := server.Option
		option.DialCtxFn, option.DisableCache, option.ConnWriteTimeout = asked(n.dialCtx), true, 2*time.Second
		option.PipelineMultiplex = []int{-1, 1, 2}[r.program.Seed%3]
		redis, err := rueidis.NewClient(option)
		if err != nil {
			return err
		}
		s.redis, s.nets = append(s.redis, redis), append(s.nets, n)
	}
	return nil
}

func (s *sharing) close() {
	for i, redis := range s.redis {
		redis.Close()
		s.nets[i].each(func(n *netOf) { n.Close() })
	}
}

// member makes one life of a client.
func (r *Run) member(index, life int) (*member, error) {
	m := &member{run: r, index: index, name: fmt.Sprintf("c%d.%d", index, life), setting: r.program.World.Clients[index]}
	if r.ground.Name != "" {
		m.name = r.ground.Name + "/" + m.name
	}
	m.recorder = r.recorder(m.name)
	m.observed = newObserved(m)
	for i, server := range r.ground.Servers {
		config := r.program.World.config(m.setting)
		config.Observer = m.observed.hooks()
		if m.setting.shared() {
			config.Redis, config.Client = rueidis.ClientOption{}, r.shared.redis[i]
			m.nets = append(m.nets, r.shared.nets[i])
		} else {
			n := newNets(server.Dial, r.program.World.Trip)
			m.nets = append(m.nets, n)
			several := config.Redis.PipelineMultiplex
			config.Redis = server.Option
			config.Redis.DialCtxFn, config.Redis.PipelineMultiplex = n.dialCtx, several
			if r.ground.Virtual { // as in testbed.NewTestClient
				config.Redis.BlockingPoolCleanup = 24 * time.Hour
			}
		}
		r.face.config(&config)
		client, err := connect(r, config, (index+life)%2 == 0)
		if err != nil {
			m.discard()
			return nil, err
		}
		m.clients = append(m.clients, client)
	}
	m.join()
	return m, nil
}

// connect makes a client in one of the two ways.
func connect(r *Run, config rlock.Config, patient bool) (*rlock.Client, error) {
	if !patient {
		return on(r.face, rlock.New)(config)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	return on(r.face, rlock.NewContext)(ctx, config)
}

// discard closes a client that no caller has used.
func (m *member) discard() {
	for _, c := range m.clients {
		_ = c.Close()
	}
	m.closeNets()
}

func (m *member) closeNets() {
	if m.setting.shared() {
		return
	}
	for _, n := range m.nets {
		n.each(func(n *netOf) { n.Close() })
	}
}

// join makes what the other packages have for the client.
func (m *member) join() {
	f, c := m.run.face, m.run.options
	c.once.Done = func(_ context.Context, e once.Event) { f.call("once.Source " + string(e.Source)) }
	c.idempotent.Who = func(*http.Request) string { return "account" }
	f.fields("once.Options", c.once)
	f.fields("idempotent.Options", c.idempotent)
	m.group, m.guard = on(f, once.New)(m.main(), c.once), on(f, idempotent.New)(m.main(), c.idempotent)
	m.sync = on(f, redisson.New)(m.main())
	m.candidate = on(f, elect.New)(m.main(), leaders, on(f, elect.WithText)(m.name), on(f, elect.WithOverrun)(func() { f.call("overrun") }))
}

func (m *member) leave() {
	m.closed = m.run.now()
	m.closes.Store(true)
	on(m.run.face, m.group.Close)()
	on(m.run.face, m.guard.Close)()
	m.recorder.Closes()
	var failed error
	var took time.Duration
	for _, c := range m.clients {
		began := m.run.now()
		if err := on(m.run.face, c.Close)(); err != nil {
			failed = err
		}
		took = max(took, m.run.now()-began)
	}
	m.run.mu.Lock()
	opened, ended := m.observed.opened, m.observed.closed
	m.run.mu.Unlock()
	if opened != len(m.clients) || ended != opened {
		m.run.problem("the Observer of %s was told of %d clients that opened, and %d that closed", m.name, opened, ended)
	}
	m.judgeClosed(failed, took)
	if r := m.run; r.ground.Recorder == nil {
		_ = m.recorder.Close()
	}
	m.closeNets()
}

// replace closes a client, and makes it anew.
func (r *Run) replace(i int) {
	s := r.members[i]
	old := s.Load()
	r.mu.Lock()
	r.gone = append(r.gone, old)
	life := len(r.gone)
	r.mu.Unlock()
	next, err := r.member(i, life)
	if err != nil {
		r.problem("client %d is not made anew: %v", i, err)
		return
	}
	s.Store(next)
	r.closing.Go(old.leave)
}

type netOf = network.Network

// nets are the networks of a client to the nodes of a server, one for each address.
type nets struct {
	dial func(address string) (net.Conn, error)

	mu    sync.Mutex
	trip  time.Duration
	nodes map[string]*network.Network
}

func newNets(dial func(string) (net.Conn, error), trip time.Duration) *nets {
	return &nets{dial: dial, trip: trip, nodes: make(map[string]*network.Network)}
}

// dialCtx is DialCtxFn of a rueidis client.
func (n *nets) dialCtx(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
	n.mu.Lock()
	node := n.nodes[address]
	if node == nil {
		node = network.New(func() (net.Conn, error) { return n.dial(address) })
		node.SetRoundTrip(n.trip)
		n.nodes[address] = node
	}
	n.mu.Unlock()
	return node.Dial(ctx, address, d, c)
}

// each does something to the networks to all nodes.
func (n *nets) each(do func(*network.Network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range n.nodes {
		do(node)
	}
}

// heal ends all faults.
func (n *nets) heal() {
	n.each(func(node *network.Network) {
		node.SetRoundTrip(n.trip)
		node.SetSlice(0)
		node.Heal()
		node.Deliver()
	})
}

// A dialCtx is a DialCtxFn of a rueidis client.
type dialCtx = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// dialer returns a dialCtx without a network between.
func dialer(dial func(string) (net.Conn, error)) dialCtx {
	return asked(func(_ context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return dial(address)
	})
}

// asked returns a dialCtx for clients of rueidis alone, whose connections are read only after a
// command. A full server refuses a connection unasked. That ends the process of such a client if
// its caller has left by then: see docs/peers.md.
func asked(dial dialCtx) dialCtx {
	return func(ctx context.Context, address string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, address, d, c)
		if err != nil {
			return nil, err
		}
		return &askedConn{Conn: conn}, nil
	}
}

// An askedConn fails a read before the first write.
type askedConn struct {
	net.Conn
	written atomic.Bool
}

func (c *askedConn) Write(b []byte) (int, error) {
	c.written.Store(true)
	return c.Conn.Write(b)
}

func (c *askedConn) Read(b []byte) (int, error) {
	if !c.written.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Read(b)
}
