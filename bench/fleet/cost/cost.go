// Package cost has what each command of a lock costs Redis, as measured: processor time of the server's main thread.
package cost

import (
	"time"

	"github.com/go-rlock/rlock/internal/core"
)

// A Table has the costs of which a command's is made. Times are processor time of Redis.
type Table struct {
	Server  string // name and version
	Machine string // the processor
	When    string // the day

	// Command is what each command costs beside its script when each comes over a connection of its own: to read it, and
	// to write the answer. Message is the cost of a message to a subscriber.
	Command, Message time.Duration

	// The scripts, without that. A release tells the next ticket, which Message is counted for apart.
	Acquire   time.Duration // of a free lock
	Refused   time.Duration // of a lock that is held
	Join      time.Duration // behind another ticket
	JoinFirst time.Duration // behind the holder, as the first ticket
	JoinFree  time.Duration // of a free lock, which it gets
	Look      time.Duration // at a ticket in the queue
	Leave     time.Duration // a release for which no ticket waits
	LeaveNext time.Duration // a release that grants the lock to the first ticket
	LeaveJoin time.Duration // the same, and a ticket joins with it
	Mirror    time.Duration // of one lock
	Subscribe time.Duration

	// A client that polls: SET NX PX that gets the lock, one that does not, and the script that deletes a key with its value.
	Set, SetRefused, Delete time.Duration

	// Times of this machine, for the comparison with real runs.
	Sleep5ms time.Duration // that time.Sleep takes for 5 ms: the median
	Pass     time.Duration // a section without work in a process whose other goroutines wait
}

// Of returns the cost of a command that was answered so, and has sent messages to so many tickets that were granted the
// lock, or to holders that may linger.
func (t *Table) Of(c *core.Command, a *core.Reply, messages int) time.Duration {
	return t.Command + t.script(c, a, messages > 0) + time.Duration(messages)*t.Message
}

func (t *Table) script(c *core.Command, a *core.Reply, tells bool) time.Duration {
	joins := c.Joins.ID != core.ID{}
	switch {
	case c.Op == core.Acquire && a.Found == core.Holds:
		return t.Acquire
	case c.Op == core.Acquire:
		return t.Refused
	case c.Op == core.Join && a.Found == core.Holds:
		return t.JoinFree
	case c.Op == core.Join && a.Found == core.First:
		return t.JoinFirst
	case c.Op == core.Join:
		return t.Join
	case c.Op == core.Look:
		return t.Look
	case c.Op == core.Leave && joins:
		return t.LeaveJoin
	case c.Op == core.Leave && tells:
		return t.LeaveNext
	case c.Op == core.Mirror:
		return t.Mirror
	}
	return t.Leave
}

// A Row is one cost of the table.
type Row struct {
	Name string
	Cost time.Duration
}

// Rows returns the costs of the scripts and commands.
func (t *Table) Rows() []Row {
	return []Row{
		{"acquire: the lock is free", t.Acquire},
		{"acquire: the lock is held", t.Refused},
		{"step: a ticket joins behind another", t.Join},
		{"step: a ticket joins as the first, behind the holder", t.JoinFirst},
		{"step: a ticket joins and gets the lock, which is free", t.JoinFree},
		{"step: a look", t.Look},
		{"step: a release, no ticket waits", t.Leave},
		{"step: a release that grants the lock to the next ticket", t.LeaveNext},
		{"step: the same, and a ticket joins", t.LeaveJoin},
		{"mirror of one lock", t.Mirror},
		{"a message to a client", t.Message},
		{"SUBSCRIBE", t.Subscribe},
		{"SET NX PX: the lock is free", t.Set},
		{"SET NX PX: the lock is held", t.SetRefused},
		{"the script that deletes a key with its value", t.Delete},
	}
}
