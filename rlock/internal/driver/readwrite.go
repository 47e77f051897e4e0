package driver

import (
	"context"
	"strconv"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A read-write lock is a hash of the mode, the readers and the writer, and a key for each reader that lives as long as
// its lease, as Redisson's RReadWriteLock. Its two locks are one lock of package core, in two modes.

func acquireReadWrite(r *redis, c *exchange) wire.Call {
	n, mode := c.name, "write"
	if c.cmd.Mode == core.Shared {
		mode = "read"
	}
	return wire.ReadWriteAcquire.Call(4, n.Key, n.Queue(), n.Extra(), n.Extra()+":"+c.text+":rwlock_timeout:1", r.milliseconds(c.cmd.Lease), c.text, mode)
}

func resumeReadWrite(r *redis, c *exchange) wire.Call {
	s := wire.Resumption{Lease: r.milliseconds(c.cmd.Lease), From: c.passed, To: c.text, Polls: r.polls(c)}
	if c.cmd.Mode == core.Alone {
		s.From, s.To = s.From+":write", s.To+":write"
	} else {
		s.FromLease, s.ToLease = c.name.Extra()+":"+c.passed+":rwlock_timeout:1", c.name.Extra()+":"+c.text+":rwlock_timeout:1"
	}
	return r.Resume(&c.name.Keys, s)
}

func mirrorReadWrite(r *redis, part []*exchange) wire.Call {
	keys, args := make([]string, 0, 3*len(part)), make([]string, 0, 1+5*len(part))
	args = append(args, r.Family())
	var more []string // keys, of those that ask for others
	for _, c := range part {
		asks := r.asks(c)
		more = append(more, asks.Keys...)
		keys = append(keys, c.name.Key, c.name.Extra(), c.name.Channel())
		args = append(args, r.mirrorLease(&c.cmd), c.text, strconv.Itoa(c.cmd.Writes), wire.Flag(c.cmd.Reads), asks.How)
	}
	return wire.Call{Script: wire.ReadWriteMirror, Keys: append(keys, more...), Args: args}
}

func guardReadWrite(c *exchange) guard {
	mode := "x"
	if c.cmd.Mode == core.Shared {
		mode = "s"
	}
	return guard{wire.ReadWriteGuard, []string{c.name.Extra(), c.name.Key}, []string{mode, c.text}}
}

// knownHere reports whether an owner of this client has the lock in the mode, and whether this client has to be believed:
// it holds the lock, and Redis has not confirmed yet that it shows in which modes. To nest, and to unlock the write lock
// and read on, waits for no command.
func (l *Lock) knownHere() (locked, known bool) {
	if !kinds[l.Name.KindID].readers || l.Name.Err != nil {
		return false, false
	}
	one, now := l.driver.enterIfAny(l.Name, 0)
	if one == nil {
		return false, false
	}
	one.Look(now)
	levels := one.Levels()
	for i := range levels {
		locked = locked || levels[i].Mode == l.mode()
	}
	known = one.IsHeld() && !one.IsShown(now)
	one.shard.exit(one)
	return locked, known
}

// tend sends the step that lets readers elsewhere in after a downgrade, if one is due: the keeper, which has just sent a mirror
// of the tenure, would pause before.
func (l *lock) tend(k *work, now core.Now) {
	if op, _ := l.Peek(k.tenure, now); op != core.Step {
		return
	}
	c := l.shard.client
	w := c.newCall(&core.Call{Until: core.Never})
	l.Tend(k.tenure, &w.Call)
	if !c.wire.Start(func() {
		l.run(context.Background(), w, l.again())
		l.shard.exit(l)
		c.done(w)
	}) {
		l.Leave(&w.Call, core.Closed, now)
		l.Next(&w.Call, false, now)
		c.done(w)
	}
}
