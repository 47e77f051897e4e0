package wire

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Process is one that has a client of rlock, as the client name of its connection says.
type Process struct {
	Program string // the base name of its file
	Host    string // its own name for its machine, or container
	PID     int    // as the process itself sees it
	Addr    string // where its connection comes from, as Redis sees it: "10.0.0.7:51234"
}

// rollTime is how old the list of the connections of a node may be.
const rollTime = time.Second

// A Roll is the processes that are connected with one node, by the ids of their clients.
type Roll struct {
	readAt time.Time // zero if it was never read
	byID   map[string]Process
	Err    error // why byID is empty
}

// rolls keeps the roll of each node for a moment, so that many questions in a row cost one
// CLIENT LIST: it has a line for each connection of the server.
type rolls struct {
	turn Limit // of one place: one caller at a time reads a roll

	mu     sync.Mutex // protects following
	byNode map[uint32]*Roll
}

func newRolls() *rolls {
	return &rolls{turn: Limit{places: make(chan struct{}, 1)}, byNode: make(map[uint32]*Roll)}
}

// fresh returns the roll of a node if it is not too old.
func (r *rolls) fresh(node uint32, now time.Time) *Roll {
	r.mu.Lock()
	defer r.mu.Unlock()
	if roll := r.byNode[node]; roll != nil && now.Sub(roll.readAt) < rollTime {
		return roll
	}
	return nil
}

// Processes returns the processes that are connected with the node that serves the lock.
func (r *Redis) Processes(ctx context.Context, k *Keys) *Roll {
	node := r.Nodes.Of(k.Slot)
	if known := r.rolls.fresh(node, time.Now()); known != nil {
		return known
	}
	place, err := r.rolls.turn.Enter(ctx, r.ctx.Done())
	if err != nil {
		return &Roll{Err: err}
	}
	if known := r.rolls.fresh(node, time.Now()); known != nil { // another call has read it meanwhile
		place.Leave()
		return known
	}
	read, err := inBackground(ctx, r, place, func() *Roll {
		read := r.readRoll(k)
		if Answered(read.Err) {
			r.rolls.mu.Lock()
			r.rolls.byNode[node] = read
			r.rolls.mu.Unlock()
		}
		return read
	})
	if err != nil {
		return &Roll{Err: err}
	}
	return read
}

// readRoll reads CLIENT LIST on a connection of its own: the reply may be some megabytes,
// and renewals must not wait behind it.
func (r *Redis) readRoll(k *Keys) *Roll {
	ctx := r.deadline.context(time.Now())
	_, result := r.together(ctx,
		r.Client.B().Arbitrary("EXISTS").Keys(k.Key).Build(), // leads to the node
		r.Client.B().Arbitrary("CLIENT", "LIST", "TYPE", "NORMAL").Blocking())
	list, err := result.ToString()
	read := &Roll{readAt: time.Now(), byID: make(map[string]Process), Err: err}
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

// Of returns the process that has the client of an owner, nil if it is not known.
func (r *Roll) Of(owner string) *Process {
	if len(owner) < ClientLen {
		return nil
	}
	if p, ok := r.byID[owner[:ClientLen]]; ok {
		return &p
	}
	return nil
}

const (
	// namePrefix begins the client name of a connection.
	namePrefix = "rlock:"
	// longestPart is how many bytes of a program's or a host's name are shown.
	longestPart = 64
)

// clientName returns the client name of the connections of the client with that id,
// "rlock:<program>:<host>:<pid>:<id>".
func clientName(id string) string { return namePrefix + processName() + ":" + id }

// processName returns the part of the client name that all clients of a process share.
var processName = sync.OnceValue(func() string {
	program := "unknown"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return namePart(program) + ":" + namePart(host) + ":" + strconv.Itoa(os.Getpid())
})

// namePart replaces what Redis refuses in a client name (spaces, and all that is not
// printable ASCII), and the colons, since they separate the parts.
func namePart(text string) string {
	if text == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' {
			return '_'
		}
		return r
	}, text[:min(len(text), longestPart)])
}

// parseClientName returns the process and the client's id of such a name. ok is false
// for any other name.
func parseClientName(name string) (p Process, id string, ok bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 4 {
		return Process{}, "", false
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || len(parts[3]) != ClientLen {
		return Process{}, "", false
	}
	return Process{Program: parts[0], Host: parts[1], PID: pid}, parts[3], true
}
