package rlock_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
)

// A virtualKind is a world in which one kind of lock is tested, in virtual time.
type virtualKind struct {
	*world
	kind   kind
	worlds []*world // one for each server; the world is the first
}

// eachVirtualKind runs a test in virtual time over all kinds.
func eachVirtualKind(t *testing.T, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	inVirtualKinds(t, kinds, run)
}

// eachExclusiveVirtualKind is eachVirtualKind for the kinds that are their own rivals, for
// tests where the lock is passed on inside a process.
func eachExclusiveVirtualKind(t *testing.T, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	inVirtualKinds(t, ownRivals(), run)
}

func inVirtualKinds(t *testing.T, kinds []kind, run func(t *testing.T, w *virtualKind)) {
	t.Helper()
	for _, k := range kinds {
		if (testing.Short() || fewer()) && k.besideAnother() {
			continue // the tests without the race detector run it
		}
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				r := &virtualKind{world: w, kind: k, worlds: []*world{w}}
				for len(r.worlds) < k.servers {
					r.worlds = append(r.worlds, newWorld(t, w.ctx))
				}
				run(t, r)
			})
		})
	}
}

// settle returns when every server has answered: a compound lock may wait only for most of
// them, and a second ticket of an owner leaves the queue in the background.
func (w *virtualKind) settle() { synctest.Wait() }

// drain is settle for releases too that the keeper sends, one batch in a millisecond.
func (w *virtualKind) drain() {
	time.Sleep(2 * time.Millisecond)
	synctest.Wait()
}

// times returns how often a test repeats something that it does n times with a plain lock:
// less often with the other kinds, since there are many.
func (w *virtualKind) times(n int) int {
	if w.kind.name == "plain" {
		return n
	}
	return n / 5
}

// ttl returns the remaining time of the lock in Redis: the shortest of its keys, 0 if one of
// them is absent.
func (w *virtualKind) ttl() time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, world := range w.worlds {
		for _, k := range w.kind.keysOf(key) {
			left = min(left, world.ttl(k))
		}
	}
	return left
}

// keys returns those of all servers, but for counters.
func (w *virtualKind) keys() (names []string) {
	for _, world := range w.worlds {
		names = append(names, slices.DeleteFunc(world.Keys(), isCounter)...)
	}
	return names
}

// forget deletes the lock of that name on every server.
func (w *virtualKind) forget(name string) {
	for _, world := range w.worlds {
		for _, k := range w.kind.keysOf(name) {
			world.Del(k)
		}
	}
}

// A peer is a process with a network of its own to each server.
type peer struct {
	process
	testClients []*testClient
}

// process returns a new one. The changes are made to the config of its clients.
func (w *virtualKind) process(changes ...func(*rlock.Config)) *peer {
	w.t.Helper()
	p := &peer{process: process{kind: w.kind}}
	for _, world := range w.worlds {
		client := world.client(changes...)
		p.testClients = append(p.testClients, client)
		p.clients = append(p.clients, client.Client)
	}
	return p
}

// networks calls do for each network of the process.
func (p *peer) networks(do func(*network.Network)) {
	for _, client := range p.testClients {
		do(client.net)
	}
}

func (p *peer) refuse() { p.networks((*network.Network).Refuse) }

func (p *peer) silence() { p.networks(func(n *network.Network) { n.Rule(network.Silence) }) }

func (p *peer) heal() { p.networks((*network.Network).Heal) }

// Close closes the clients.
func (p *peer) Close() (err error) {
	for _, client := range p.clients {
		err = errors.Join(err, client.Close())
	}
	return err
}

// scripts returns how many scripts have reached the servers.
func (p *peer) scripts() (n int) {
	p.networks(func(net *network.Network) { n += len(net.Sent("EVALSHA")) + len(net.Sent("EVAL")) })
	return n
}

// logged returns how many lines of all logs contain the text.
func (p *peer) logged(text string) (n int) {
	for _, client := range p.testClients {
		n += client.logged(text)
	}
	return n
}
