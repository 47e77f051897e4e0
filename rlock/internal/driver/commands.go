package driver

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A command of package core as a call of a script.

// commandFor returns the call for commands that share one, or for one.
func (r *redis) commandFor(part []*exchange) wire.Call {
	switch {
	case len(part) > 1 && part[0].cmd.Op == core.Acquire:
		acquires := make([]wire.Call, len(part))
		for i, c := range part {
			acquires[i] = r.command(c)
		}
		return part[0].kind.acquireAll.Together(acquires)
	case part[0].cmd.Op != core.Mirror:
		return r.command(part[0])
	}
	command := part[0].kind.mirror(r, part)
	for _, c := range part {
		if c.track {
			command.Track = append(command.Track, c.name.Key)
		}
	}
	return command
}

// asks returns how a mirror is told of the others that wait, nothing if it does not ask.
func (r *redis) asks(c *exchange) (a wire.Asker) {
	if c.cmd.Asks {
		a = r.Asks(&c.name.Keys, r.polls(c))
	}
	return a
}

// polls reports whether foreign clients that only poll are to count among those that wait.
func (r *redis) polls(c *exchange) bool { return r.client.leavesWindows(c.name, time.Now()) }

// command returns the call of a command that is sent by itself.
func (r *redis) command(c *exchange) wire.Call {
	switch c.cmd.Op {
	case core.Acquire:
		if c.kind.foreign && r.Polls() {
			r.client.seesAcquire(c.name, time.Now())
		}
		return c.conditioned(c.kind.acquire(r, c))
	case core.Resume:
		return c.kind.resume(r, c)
	case core.Join, core.Look, core.Leave, core.Step:
		return r.step(c)
	default: // other functions build these
		panic("driver: a call of a command " + c.cmd.Op.String())
	}
}

// step returns the call of a step.
func (r *redis) step(c *exchange) wire.Call {
	n := c.name
	s := wire.Step{Lease: r.milliseconds(c.cmd.Lease), Number: number(&c.cmd), Heard: c.cmd.Heard}
	switch c.cmd.Op {
	case core.Join:
		s.Join = member(c.cmd.Ticket, c.text)
	case core.Look:
		s.Look = member(c.cmd.Ticket, c.text)
	case core.Leave:
		s.Leave = member(c.cmd.Ticket, c.text)
		if c.joins != "" {
			s.Join = member(c.cmd.Joins, c.joins)
			s.Lease = r.milliseconds(core.Span(claimLease))
		}
	case core.Step: // which names no ticket
	default:
		panic("driver: a step of a command " + c.cmd.Op.String())
	}
	if s.Counts, s.Most = c.counts, -1; c.cmd.Bounded {
		s.Most = c.cmd.Most
	}
	s.Polls = c.kind.foreign && r.client.seesStep(n, s, time.Now())
	script := c.kind.step
	if c.cmd.Takes && c.cmd.Op != core.Leave || c.cmd.Joins.Takes {
		script = wire.PlainAskStep
	}
	return c.conditioned(r.Step(script, &n.Keys, s))
}

// conditioned puts the condition of the call before the command that it sends.
func (c *exchange) conditioned(command wire.Call) wire.Call {
	if u := c.unless; u != nil {
		return wire.Unless(u.Source, u.Keys, u.Args, &command)
	}
	return command
}

// release takes back what a command was granted, if replicas do not have it.
func (r *redis) release(c *exchange) wire.Call {
	return r.Step(c.kind.step, &c.name.Keys, wire.Step{Number: number(&c.cmd), Leave: member(c.cmd.Ticket, c.text)})
}

// number writes the number that a kind's part of the script takes: how many permits there are, or how many fencing
// tokens a grant is to reserve; "" for none.
func number(cmd *core.Command) string {
	switch {
	case cmd.Permits > 0:
		return strconv.Itoa(cmd.Permits)
	case cmd.Tokens > 0:
		return strconv.FormatUint(cmd.Tokens, 10)
	}
	return ""
}

// milliseconds writes a lease as the scripts take it.
func (r *redis) milliseconds(d core.Span) string {
	if d == core.Span(r.client.Config.Lease) {
		return r.client.leaseText
	}
	return strconv.FormatInt(max(time.Duration(d).Milliseconds(), 1), 10)
}

// mirrorLease returns the lease of a mirror as its script takes it.
func (r *redis) mirrorLease(cmd *core.Command) string {
	lease := r.milliseconds(cmd.Lease)
	if cmd.Exact {
		return wire.Exact(lease)
	}
	return lease
}

// carrying returns the call of the step with the guarded write.
func (r *redis) carrying(c *exchange, step *wire.Call) wire.Call {
	g, w := c.kind.guard(c), c.write
	keys, args := step.Split()
	counts := []string{strconv.Itoa(len(keys)), strconv.Itoa(len(args))}
	return wire.Call{
		Script: g.Release(w.source, step.Script),
		Keys:   slices.Concat(w.keys, g.keys, keys), Args: slices.Concat(w.args, g.args, []string{w.nonce}, args, counts),
	}
}

// Package core knows this client as thisClient, and each other client of rlock as otherClient.
const (
	thisClient  = 1
	otherClient = 2
)

// idOf returns the tenure of an owner in Redis, "<uuid>:<id>", the zero ID for an owner that is none of
// rlock's.
func (c *Client) idOf(owner string) core.ID {
	number, ok := wire.NumberOf(owner)
	if !ok {
		return core.ID{}
	}
	id := core.ID{Client: otherClient, N: number}
	if strings.HasPrefix(owner, c.ID.Prefix) {
		id.Client = thisClient
	}
	return id
}

// textOf returns the owner of a tenure of this client as it stands in Redis, with so many permits beside the first.
func (c *Client) textOf(id core.ID, o core.OwnerID, more int32) string {
	return wire.WithMore(c.ID.Text(id.N, uint64(o)), more)
}

// member is a ticket as it stands in the queue.
func member(t core.Ticket, text string) wire.Member {
	modes, mode := "xsa", t.Mode
	if t.Polls {
		modes = "XSA"
	}
	if t.Takes {
		mode = core.Shared + 1
	}
	return wire.Member{Mode: modes[mode : mode+1], Ticket: text}
}
