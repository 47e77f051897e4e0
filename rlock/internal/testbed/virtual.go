package testbed

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A VirtualKind is a world in which one kind of lock is tested, in virtual time.
type VirtualKind struct {
	*World
	Kind   Kind
	Worlds []*World // one for each server; the world is the first
}

// EachVirtualKind runs a test in virtual time over all kinds.
func EachVirtualKind(t *testing.T, run func(t *testing.T, w *VirtualKind)) {
	t.Helper()
	for _, k := range Kinds {
		if (testing.Short() || Fewer()) && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.Name, func(t *testing.T) {
			Bubble(t, func(t *testing.T, w *World) {
				r := &VirtualKind{World: w, Kind: k, Worlds: []*World{w}}
				for len(r.Worlds) < k.Servers {
					r.Worlds = append(r.Worlds, NewWorld(t, w.Ctx))
				}
				run(t, r)
			})
		})
	}
}

// Settle returns when every server has answered: a compound lock may wait only for most of
// them, and a second ticket of an owner leaves the queue in the background.
func (w *VirtualKind) Settle() { synctest.Wait() }

// Drain is settle for releases too that the keeper sends, one batch in a millisecond.
func (w *VirtualKind) Drain() {
	time.Sleep(2 * time.Millisecond)
	synctest.Wait()
}

// Times returns how often a test repeats something that it does n times with a plain lock:
// less often with the other kinds, since there are many.
func (w *VirtualKind) Times(n int) int {
	if w.Kind.Name == "plain" {
		return n
	}
	return n / 5
}

// Remaining returns the remaining time of the lock in Redis: the shortest of its keys, 0 if one of
// them is absent.
func (w *VirtualKind) Remaining() time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, world := range w.Worlds {
		for _, k := range w.Kind.KeysOf(Key) {
			left = min(left, world.Remaining(k))
		}
	}
	return left
}

// KeysLeft returns those of all servers, but for counters.
func (w *VirtualKind) KeysLeft() (names []string) {
	for _, world := range w.Worlds {
		names = append(names, slices.DeleteFunc(world.Keys(), IsCounter)...)
	}
	return names
}

// Forget deletes the lock of that name on every server.
func (w *VirtualKind) Forget(name string) {
	for _, world := range w.Worlds {
		for _, k := range w.Kind.KeysOf(name) {
			world.Del(k)
		}
	}
}

// A Peer is a process with a network of its own to each server.
type Peer struct {
	Process
	TestClients []*Client
}

// NewProcess returns a new one. The changes are made to the config of its clients.
func (w *VirtualKind) NewProcess(changes ...func(*rlock.Config)) *Peer {
	w.T.Helper()
	p := &Peer{Process: Process{kind: w.Kind}}
	for _, world := range w.Worlds {
		client := world.NewClient(changes...)
		p.TestClients = append(p.TestClients, client)
		p.Clients = append(p.Clients, client.Client)
	}
	return p
}

// Networks calls do for each network of the process.
func (p *Peer) Networks(do func(*network.Network)) {
	for _, client := range p.TestClients {
		do(client.Net)
	}
}

func (p *Peer) Refuse() { p.Networks((*network.Network).Refuse) }

func (p *Peer) Silence() { p.Networks(func(n *network.Network) { n.Rule(network.Silence) }) }

func (p *Peer) Heal() { p.Networks((*network.Network).Heal) }

// Close closes the clients.
func (p *Peer) Close() (err error) {
	for _, client := range p.Clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// Scripts returns how many scripts have reached the servers.
func (p *Peer) Scripts() (n int) {
	p.Networks(func(net *network.Network) { n += len(net.Sent("EVALSHA")) + len(net.Sent("EVAL")) })
	return n
}

// Logged returns how many lines of all logs contain the text.
func (p *Peer) Logged(text string) (n int) {
	for _, client := range p.TestClients {
		n += client.Logged(text)
	}
	return n
}
