package wire_test

import (
	"time"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/explore/server"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A modelKind is a kind of lock in a comparison: the model of it, and its scripts, which a test may replace.
type modelKind struct {
	name                          string
	model                         server.Kind
	kind                          *wire.Kind
	acquire, resume, step, mirror *wire.Script
	guard                         *wire.Script
	release                       *wire.Script // of a release that carries a guarded write
	fenced                        bool
	uncounted                     bool // in a Cluster with plain pub/sub no node knows all subscribers

	redis *wire.Redis // writes the calls
	keys  wire.Keys
	exact bool // times are exact
}

var (
	modelPlain  = newModelKind("plain", server.Plain, wire.Plain, "return 'it'")
	modelFenced = newModelKind("fenced", server.Plain, wire.Fenced, "return 'it'")
	modelRW     = newModelKind("read-write", server.ReadWrite, wire.ReadWrite, "return 1")
	modelPermit = newModelKind("permits", server.Semaphore, wire.Semaphore, "return 1")

	modelPlainUncounted = modelPlain.inACluster()
	modelRWUncounted    = modelRW.inACluster()

	modelKinds = []modelKind{modelPlain, modelFenced, modelRW, modelPermit, modelPlainUncounted, modelRWUncounted}
)

// newModelKind returns a kind, of whose releases some carry a guarded write of that source.
func newModelKind(name string, model server.Kind, kind *wire.Kind, source string) modelKind {
	k := modelKind{name: name, model: model, kind: kind, fenced: kind == wire.Fenced}
	k.acquire, k.resume, k.step, k.mirror = kind.Scripts()
	k.guard, k.release = kind.Guard().Script("return 1"), kind.Guard().Release(source, k.step)
	return k
}

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

// call returns the call that a client sends for the command. No ticket asks for the clock, which the model has not.
func (k *modelKind) call(c core.Command) wire.Call {
	x := &wire.Exchange{Cmd: c, Kind: k.kind, Keys: &k.keys, Write: wire.NewWrite("", nil, nil)}
	x.Cmd.Lease *= core.Span(time.Millisecond)
	x.Text, x.Passed = ownerText(c.ID, c.Owner)+permitsText(c.More), ownerText(c.Passed, 0)+permitsText(c.More)
	if c.Joins != (core.Ticket{}) {
		x.Joins = ownerText(c.Joins.ID, c.Joins.Owner) + permitsText(c.Joins.More)
	}
	call := k.redis.CallOf(x)
	//exhaustive:ignore
	switch c.Op {
	case core.Acquire:
		call.Script = k.acquire
	case core.Resume:
		call.Script = k.resume
	case core.Mirror:
		call.Script = k.mirror
	case core.Write:
		call.Script = k.guard
	default:
		if call.Script = k.step; c.Carries {
			call.Script = k.release
		}
	}
	return call
}
