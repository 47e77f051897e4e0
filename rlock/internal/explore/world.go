package explore

import (
	"fmt"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
)

const start = 100 // the time at which a world begins

// A world is one state: clients with the code of package core, the network, and Redis.
type world struct {
	*Setup
	now     core.Time
	clients []client
	server  server.Server
	config  *server.Config

	threads []thread      // foreign clients
	faults  int           // that may still come
	stalled core.Time     // Redis stands still until then
	old     server.Server // what a replica has, that has seen no command since then
	lags    bool          // there is such a replica
	forces  int           // the number of releases by force so far
	let     bool          // an operator has let a ticket through
	wiped   bool          // Redis has lost something: two may hold the lock for a while
	overlap int           // ticks in which two did
	idle    int           // ticks in which the lock was free while a caller waits
	unheard int           // ticks in which a tenure had the lock that its client does not know
	unused  int           // ticks in which no user held it while a caller waits
	taken   bool          // the lock has had a holder, or a ticket
	refused bool          // an attempt was refused in this tick, though only the dead wait
	refuses int           // ticks in a row in which one was
	token   uint64        // the largest fencing token of a hold
	order   []caller      // the tickets of a strict lock, in the order in which they joined
	passed  passed        // the lock as it was passed on last
	entered []core.ID     // tenures that were granted the lock, and may still be named by a command

	bad     string // the violation, "" for none
	effects server.Effects
}

// A passed is a lock that was passed on.
type passed struct {
	id    core.ID   // the tenure
	mode  core.Mode // of its level
	more  int32     // how many permits it has besides the first
	token uint64
	until core.Time // in Redis
	older core.Time // until when those are in Redis that were passed on before, and not resumed
	known bool      // its call has returned: users know of it
	used  bool      // a Resume was executed...
	by    caller    // ...for this client, in this round of its user
}

// untilAll returns until when it is in Redis, or one that was passed on before, if none has resumed
// them; 0 for never.
func (p *passed) untilAll() core.Time {
	if p.id == (core.ID{}) || p.used {
		return p.older
	}
	return max(p.older, p.until)
}

// A caller names a user, or the round of a client's user.
type caller struct{ client, user int }

// A client is one process: the locks, the driver as data, and its connections.
type client struct {
	id     int
	image  core.Image // the memory of the copy
	core   *core.Client
	locks  []*core.Lock
	users  []user
	timers []timer    // of the keeper
	nudges []nudge    // what the keeper or a user must ask about: with Lazy they take their time
	slots  [slots]int // in use, of each sort

	dead, frozen, asleep bool
	off                  bool      // no command of it reaches Redis
	lag                  core.Time // how far its monotonic clock is behind
	stays                core.Time // the end of the least hold of a reader that has unlocked, while others go on; 0 for none
	epoch                int       // of its connection
	sub                  subscription
	abroad               subscription // to what foreign clients are told
	pipe                 []packet     // sent, not executed
	back                 []packet     // executed, not read
	late                 []packet     // may still be executed; no answer is read
	heard                []message    // not read
	heeds                core.ID      // the tenure whose grant was heard since the last tick
	passed               int          // ticks in which others got the lock since a ticket of this client stands in the queue
	seen                 bool         // in this tick one did
	kept                 int          // ticks for which a reader here has waited while others read
	forced               core.ID      // the tenure that this client has last released by force, as the answer says
}

type subscription uint8

const (
	unsubscribed subscription = iota
	subscribing               // the command is under way
	subscribed
)

// A timer is when the keeper polls a tenure.
type timer struct {
	tenure *core.Tenure
	at     core.Time
}

// A nudge is a poll that an effect asks for: by the keeper, or by the user's goroutine.
type nudge struct {
	tenure *core.Tenure // nil: the user is woken
	user   int          // -1: the keeper
}

type userState uint8

const (
	idle userState = iota
	waiting
	holding
	unlocking
)

// A user is a goroutine that calls.
type user struct {
	state       userState
	writes      int // levels
	reads       int
	rounds      int
	call        *core.Call // waiting, unlocking
	stage       stage      // of its goroutine
	timer       core.Time  // when that asks Next by itself
	write       *core.Call // a guarded write that waits for a slot, in a goroutine of its own; nil for none
	ends        core.ID    // unlocking: the tenure that is released, or passed on...
	passes      bool       // ...is passed on,
	left        bool       // ...was found by a Leave that has no answer,
	carries     bool       // ...whose Leave carries a guarded write,
	wroteOut    bool       // ...which was executed,
	token       uint64     // with this token
	parted      core.ID    // the tenure that stays after its Unlock, until its lease ends
	partedUntil core.Time
	stays       core.Time // unlocking: until when the lock stays, 0 for not
	more        int32     // holding: how many permits it has asked for beside the first
	until       core.Time // holding: by when its hold ends at the latest, 0 for none
	wrote       bool      // holding: it has sent a guarded write
	began       int       // how many faults were to come when its hold began
	admitted    bool      // waiting: it knows of a position in the queue that it has, or had
}

// A packet is a command on its way to Redis, and the answer on its way back.
type packet struct {
	cmd   core.Command
	reply core.Reply
	since core.Time // late: when it was sent
	epoch int
	user  int  // whose call has sent it; -1: the keeper, or a call that has left
	slot  slot // that it has
	left  bool // it was left behind: its answer is not read
	// overtaken says that an answer that came later was read before this one. The next is not: so
	// no answer is unread for ever.
	overtaken bool
	write     write
	behind    bool // a Leave: nothing of its tenure can run after it, if the connection stays
}

// A message is on its way to a client. confirms says that the client is subscribed now.
type message struct {
	core.Message
	confirms bool
	abroad   bool // it hears what foreign clients are told now
	verifies bool // its connection was replaced
}

func newWorld(s *Setup) *world {
	w := &world{Setup: s, now: start, faults: s.Faults, config: s.server()}
	w.server.Config = w.config
	for _, k := range s.Foreign {
		f := thread{kind: k}
		if k == Sleeper {
			f.state = foreignWaiting
			w.server.Foreign.Listen = w.server.Foreign.Listen.With(uint32(len(w.threads)))
		}
		w.threads = append(w.threads, f)
	}
	w.clients = make([]client, s.Clients)
	for i := range w.clients {
		c := &w.clients[i]
		c.id = i
		c.image.Client = core.Client{Config: s.config(), ID: uint32(i)}
		c.core = &c.image.Client
		for j := range s.locks() {
			c.image.Locks[j].Reset(c.core, s.Kind)
			c.image.Locks[j].NoteShortTurn()
			c.locks = append(c.locks, &c.image.Locks[j])
		}
		c.users = make([]user, s.Users)
	}
	if s.begin != nil {
		s.begin(w)
	}
	return w
}

// copyTo makes n a copy of the world, in its memory.
func (w *world) copyTo(n *world) {
	clients, order, entered, threads := n.clients, n.order, n.entered, n.threads
	*n = *w
	n.threads = append(threads[:0], w.threads...)
	n.effects = server.Effects{}
	n.order = append(order[:0], w.order...)
	n.entered = append(entered[:0], w.entered...)
	if len(clients) != len(w.clients) {
		clients = make([]client, len(w.clients))
	}
	n.clients = clients
	for i := range w.clients {
		w.clients[i].copyTo(&n.clients[i])
	}
}

func (c *client) copyTo(n *client) {
	n.id, n.dead, n.frozen, n.asleep, n.off, n.lag, n.epoch, n.sub, n.passed, n.heeds, n.abroad, n.seen, n.kept, n.stays, n.forced = c.id, c.dead, c.frozen, c.asleep, c.off, c.lag, c.epoch, c.sub, c.passed, c.heeds, c.abroad, c.seen, c.kept, c.stays, c.forced
	y := &n.image
	y.Copy(c.core, c.locks...)
	n.core, n.locks = &y.Client, n.locks[:0]
	for i := range c.locks {
		n.locks = append(n.locks, &y.Locks[i])
	}
	n.users = append(n.users[:0], c.users...)
	for i := range n.users {
		u := &n.users[i]
		u.call, u.write = y.CopyOfCall(u.call), y.CopyOfCall(u.write)
	}
	n.timers = append(n.timers[:0], c.timers...)
	for i := range n.timers {
		n.timers[i].tenure = y.CopyOfTenure(n.timers[i].tenure)
	}
	n.nudges = append(n.nudges[:0], c.nudges...)
	for i := range n.nudges {
		n.nudges[i].tenure = y.CopyOfTenure(n.nudges[i].tenure)
	}
	n.slots = c.slots
	n.pipe, n.back, n.late = copied(y, n.pipe, c.pipe), copied(y, n.back, c.back), copied(y, n.late, c.late)
	n.heard = append(n.heard[:0], c.heard...)
}

func copied(y *core.Image, to, from []packet) []packet {
	to = append(to[:0], from...)
	for i := range to {
		y.CopyOfCommand(&to[i].cmd)
	}
	return to
}

// clock returns what the client's clocks show.
func (w *world) clock(c *client) core.Now {
	return core.Now{Time: w.now - c.lag, Safe: core.SafeTime(w.now)}
}

// lives reports whether the client does something.
func (c *client) lives() bool { return !c.dead && !c.frozen }

func (c *client) lockOf(u int) *core.Lock {
	if len(c.locks) > 1 {
		return c.locks[u]
	}
	return c.locks[0]
}

// ownerOf returns the owner that a user is.
func (w *world) ownerOf(u int) core.OwnerID {
	if w.Do&Same != 0 {
		return 1
	}
	return core.OwnerID(u + 1)
}

func (w *world) fail(format string, args ...any) {
	if w.bad == "" {
		w.bad = fmt.Sprintf(format, args...)
	}
}
