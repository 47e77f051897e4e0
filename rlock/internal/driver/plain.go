package driver

import (
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A plain lock is a hash of one owner and its count, as Redisson's RLock. A fair lock is one as well, and a fenced lock
// has a counter beside it.

func acquirePlain(r *redis, c *exchange) wire.Call {
	return acquireScript(c).Call(2, c.name.Key, c.name.Queue(), r.milliseconds(c.cmd.Lease), c.text)
}

func acquireScript(c *exchange) *wire.Script {
	if c.cmd.Takes {
		return wire.AskAcquire
	}
	return wire.Acquire
}

func acquireFenced(r *redis, c *exchange) wire.Call {
	return acquireScript(c).Call(3, c.name.Key, c.name.Queue(), c.name.Extra(), r.milliseconds(c.cmd.Lease), c.text, number(&c.cmd))
}

func resumePlain(r *redis, c *exchange) wire.Call {
	return r.Resume(&c.name.Keys, wire.Resumption{Lease: r.milliseconds(c.cmd.Lease), From: c.passed, To: c.text, Polls: r.polls(c)})
}

func mirrorPlain(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.Family())
	var more []string // keys, of those that ask for others
	for _, c := range part {
		asks := r.asks(c)
		more = append(more, asks.Keys...)
		keys = append(keys, c.name.Key)
		args = append(args, r.mirrorLease(&c.cmd), c.text, strconv.Itoa(c.cmd.Writes), asks.How, asks.Channel)
	}
	return wire.Call{Script: wire.Mirror, Keys: append(keys, more...), Args: args}
}

func guardPlain(c *exchange) guard {
	return guard{wire.PlainGuard, []string{c.name.Key}, []string{c.text}}
}
