package rlock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// A Process is one that has a client of this package, as the client name of its
// connection says: "rlock:<program>:<host>:<pid>:<id>", with the [Client.ID] at the end.
// [Config.NoClientName] omits the name.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // as the process itself sees it
	Addr    string // where its connection comes from, as Redis sees it: "10.0.0.7:51234"
}

// String returns "program@host[pid]".
func (p Process) String() string { return fmt.Sprintf("%s@%s[%d]", p.Program, p.Host, p.PID) }

// clientLen is the length of a client's id, which begins the UUIDs of its tenures.
const clientLen = 19

// rollTime is how old the list of the connections of a node may be.
const rollTime = time.Second

// A roll is the processes that are connected with one node, by the ids of their clients.
type roll struct {
	readAt time.Time // zero if it was never read
	byID   map[string]Process
	err    error // why byID is empty
}

// rolls keeps the roll of each node for a moment, so that many questions in a row cost one
// CLIENT LIST: it has a line for each connection of the server.
type rolls struct {
	turn limit // of one place: one caller at a time reads a roll

	mu     sync.Mutex // protects following
	byNode map[uint32]*roll
}

func newRolls() *rolls {
	return &rolls{turn: limit{places: make(chan struct{}, 1)}, byNode: make(map[uint32]*roll)}
}

// fresh returns the roll of a node if it is not too old.
func (r *rolls) fresh(node uint32, now time.Time) *roll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if roll := r.byNode[node]; roll != nil && now.Sub(roll.readAt) < rollTime {
		return roll
	}
	return nil
}

// processes returns the processes that are connected with the node that serves n.
func (c *Client) processes(ctx context.Context, n *name) *roll {
	node := c.nodes.of(n.slot)
	if known := c.rolls.fresh(node, time.Now()); known != nil {
		return known
	}
	place, err := c.rolls.turn.enter(ctx, c.ctx.Done())
	if err != nil {
		return &roll{err: err}
	}
	if known := c.rolls.fresh(node, time.Now()); known != nil { // another call has read it meanwhile
		place.leave()
		return known
	}
	landed := make(chan *roll, 1)
	started := c.background.start(func() {
		defer place.leave()
		read := c.readRoll(n)
		if _, again := diagnose(read.err); again == nil || answered(read.err) {
			c.rolls.mu.Lock()
			c.rolls.byNode[node] = read
			c.rolls.mu.Unlock()
		}
		landed <- read
	})
	if !started {
		place.leave()
		return &roll{err: ErrClosed}
	}
	select {
	case read := <-landed:
		return read
	case <-ctx.Done():
		return &roll{err: ctx.Err()}
	}
}

// readRoll reads CLIENT LIST on a connection of its own: the reply may be some megabytes,
// and renewals must not wait behind it.
func (c *Client) readRoll(n *name) *roll {
	ctx := c.deadline.context(time.Now())
	var list string
	err := c.redis.Dedicated(func(conn rueidis.DedicatedClient) (err error) {
		// In a Cluster the first command leads to the node.
		results := conn.DoMulti(ctx,
			c.redis.B().Arbitrary("EXISTS").Keys(n.key).Build(),
			c.redis.B().Arbitrary("CLIENT", "LIST", "TYPE", "NORMAL").Build())
		list, err = results[1].ToString()
		return err
	})
	read := &roll{readAt: time.Now(), byID: make(map[string]Process), err: err}
	for line := range strings.Lines(list) {
		if p, id, ok := parseConnection(line); ok {
			read.byID[id] = p
		}
	}
	return read
}

// parseConnection reads a line of CLIENT LIST: words of the form key=value.
func parseConnection(line string) (p Process, id string, ok bool) {
	addr := ""
	for _, word := range strings.Fields(line) {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "addr":
			addr = value
		case "name":
			p, id, ok = parseClientName(value)
		}
	}
	p.Addr = addr
	return p, id, ok
}

// of returns the process that has the client of an owner, nil if it is not known.
func (r *roll) of(owner string) *Process {
	if len(owner) < clientLen {
		return nil
	}
	if p, ok := r.byID[owner[:clientLen]]; ok {
		return &p
	}
	return nil
}
