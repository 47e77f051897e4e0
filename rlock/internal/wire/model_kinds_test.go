package wire_test

import (
	"slices"
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A modelKind is a kind of lock in a comparison: the model of it and the scripts.
type modelKind struct {
	name                  string
	model                 server.Kind
	acquire, step, mirror *wire.Script
	resume, guard         *wire.Script
	layout                wire.Layout
	release               *wire.Script // of a release that carries a guarded write
	fenced                bool
	uncounted             bool // in a Cluster with plain pub/sub no node knows all subscribers

	redis *wire.Redis // writes the steps
	keys  wire.Keys
	exact bool // times are exact
}

var (
	modelPlain  = modelKind{name: "plain", model: server.Plain, acquire: wire.Acquire, resume: wire.Resume, step: wire.PlainStep, mirror: wire.Mirror, guard: wire.PlainGuard.Script("return 1"), release: wire.PlainGuard.Release("return 'it'", wire.PlainStep), layout: withFair(layouts[0])}
	modelFenced = modelKind{name: "fenced", model: server.Plain, acquire: wire.Acquire, resume: wire.Resume, step: wire.PlainStep, mirror: wire.Mirror, guard: wire.PlainGuard.Script("return 1"), release: wire.PlainGuard.Release("return 'it'", wire.PlainStep), layout: withFair(layouts[1]), fenced: true}
	modelRW     = modelKind{name: "read-write", model: server.ReadWrite, acquire: wire.ReadWriteAcquire, resume: wire.Resume, step: wire.ReadWriteStep, mirror: wire.ReadWriteMirror, guard: wire.ReadWriteGuard.Script("return 1"), release: wire.ReadWriteGuard.Release("return 1", wire.ReadWriteStep), layout: layouts[2]}
	modelPermit = modelKind{name: "permits", model: server.Semaphore, acquire: wire.SemaphoreAcquire, resume: wire.SemaphoreResume, step: wire.SemaphoreStep, mirror: wire.SemaphoreMirror, guard: wire.SemaphoreGuard.Script("return 1"), release: wire.SemaphoreGuard.Release("return 1", wire.SemaphoreStep), layout: layouts[3]}

	modelPlainUncounted = modelPlain.inACluster()
	modelRWUncounted    = modelRW.inACluster()

	modelKinds = []modelKind{modelPlain, modelFenced, modelRW, modelPermit, modelPlainUncounted, modelRWUncounted}
)

func (k modelKind) inACluster() modelKind {
	k.name, k.uncounted = k.name+" in a Cluster with plain pub-sub", true
	return k
}

const (
	modelClaim   = 2000
	modelSilence = 60_000
	modelClients = 4
	modelPermits = 2
)

// call returns the call that a client sends for the command.
func (k *modelKind) call(c core.Command) wire.Call {
	lease := strconv.FormatInt(int64(c.Lease), 10)
	owner := ownerText(c.ID, c.Owner) + permitsText(c.More)
	number := ""
	switch {
	case k.fenced:
		number = strconv.FormatUint(c.Tokens, 10)
	case k.model == server.Semaphore:
		number = strconv.Itoa(c.Permits)
	}
	n := &k.keys
	//exhaustive:ignore
	switch c.Op {
	case core.Acquire:
		switch {
		case k.fenced:
			return k.acquire.Call(3, n.Key, n.Queue(), n.Extra(), lease, owner, number)
		case k.model == server.ReadWrite:
			mode := "write"
			if c.Mode == core.Shared {
				mode = "read"
			}
			return k.acquire.Call(4, n.Key, n.Queue(), n.Extra(), n.Extra()+":"+owner+":rwlock_timeout:1", lease, owner, mode)
		case k.model == server.Semaphore:
			return k.acquire.Call(2, n.Key, n.Queue(), lease, owner, number)
		}
		return k.acquire.Call(2, n.Key, n.Queue(), lease, owner)
	case core.Resume:
		from := ownerText(c.Passed, 0) + permitsText(c.More)
		s := wire.Resumption{Lease: lease, From: from, To: owner, Polls: c.Polling}
		switch {
		case k.model == server.Semaphore:
			return k.resume.Call(2, n.Key, n.Queue(), lease, from, owner)
		case k.model != server.ReadWrite:
		case c.Mode == core.Alone:
			s.From, s.To = from+":write", owner+":write"
		default:
			s.FromLease, s.ToLease = n.Extra()+":"+from+":rwlock_timeout:1", n.Extra()+":"+owner+":rwlock_timeout:1"
		}
		call := k.redis.Resume(n, s)
		call.Script = k.resume
		return call
	case core.Mirror:
		var asks wire.Asker
		if c.Asks {
			asks = k.redis.Asks(n, c.Polling)
		}
		if c.Exact {
			lease = wire.Exact(lease)
		}
		family, writes := k.redis.Family(), strconv.Itoa(c.Writes)
		switch k.model {
		case server.ReadWrite:
			keys := append([]string{n.Key, n.Extra(), n.Channel()}, asks.Keys...)
			return wire.Call{Script: k.mirror, Keys: keys, Args: []string{family, lease, owner, writes, wire.Flag(c.Reads), asks.How}}
		case server.Semaphore:
			return wire.Call{Script: k.mirror, Keys: []string{n.Key}, Args: []string{lease, owner}}
		}
		keys := append([]string{n.Key}, asks.Keys...)
		return wire.Call{Script: k.mirror, Keys: keys, Args: []string{family, lease, owner, writes, asks.How, asks.Channel}}
	}
	write := wire.Call{Script: k.guard, Keys: []string{n.Key}, Args: []string{owner, wire.Nonce()}}
	if k.model == server.ReadWrite {
		write.Keys, write.Args = []string{n.Extra(), n.Key}, []string{map[core.Mode]string{core.Alone: "x", core.Shared: "s"}[c.Mode], owner, wire.Nonce()}
	}
	if c.Op == core.Write {
		return write
	}
	step := wire.Step{Lease: lease, Number: number, Polls: c.Polling, Heard: c.Heard}
	//exhaustive:ignore
	switch c.Op {
	case core.Join:
		step.Join = member(c.Ticket)
		step.Counts, step.Most = c.Bounded, c.Most
	case core.Look:
		step.Look = member(c.Ticket)
	case core.Leave:
		step.Leave, step.Join = member(c.Ticket), member(c.Joins)
	}
	call := k.redis.Step(k.step, n, step)
	if !c.Carries {
		return call
	}
	keys, args := call.Split()
	counts := []string{strconv.Itoa(len(keys)), strconv.Itoa(len(args))}
	return wire.Call{Script: k.release, Keys: slices.Concat(write.Keys, keys), Args: slices.Concat(write.Args, args, counts)}
}
