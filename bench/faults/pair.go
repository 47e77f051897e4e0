package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/network"
)

// A library is a contender and how its clients are used.
type library struct {
	contender.Contender
	keeps bool // its clients serve one case after the other: a JVM takes seconds to start
}

// libraries are those that are named, separated by commas, all by default, that can be run on this machine. absent says why others cannot, "" if
// all can.
func libraries(named string) (there []library, absent string) {
	for _, l := range []library{
		{Contender: contender.RLock()},
		{Contender: contender.Redsync()},
		{Contender: contender.RedislockExponential()},
		{Contender: contender.RueidislockOne()},
		{Contender: inJava(), keeps: true},
	} {
		if !among(named, l.Name) {
			continue
		}
		if why := l.Absent(); why != "" {
			absent = fmt.Sprintf("%s (%s)", l.Name, why)
			continue
		}
		there = append(there, l)
	}
	return there, absent
}

// A pair is a client behind a network of its own, and one beside it.
type pair struct {
	net          *network.Network
	behind, with contender.Client
}

// pairs are those that no case uses. They may be used concurrently.
type pairs struct {
	config contender.Config

	mu   sync.Mutex // protects following
	idle map[string][]*pair
}

// take returns a pair of the library.
func (p *pairs) take(l library) (*pair, error) {
	p.mu.Lock()
	if idle := p.idle[l.Name]; len(idle) > 0 {
		p.idle[l.Name] = idle[1:]
		p.mu.Unlock()
		return idle[0], nil
	}
	p.mu.Unlock()
	net, err := network.Listen(p.config.Addr)
	if err != nil {
		return nil, err
	}
	one, behind := &pair{net: net}, p.config
	behind.Addr = net.Addr()
	var failed [2]error
	one.behind, failed[0] = l.Open(behind)
	one.with, failed[1] = l.Open(p.config)
	return one, errors.Join(failed[:]...)
}

// put gives a pair back after its case. One that is in a call for ever serves no other.
func (p *pairs) put(l library, one *pair, forever bool) {
	one.net.Heal()
	if !l.keeps || forever {
		go one.close() // a library that waits for ever may do so here too, until the program ends
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idle == nil {
		p.idle = make(map[string][]*pair)
	}
	p.idle[l.Name] = append(p.idle[l.Name], one)
}

func (p *pairs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, idle := range p.idle {
		for _, one := range idle {
			one.close()
		}
	}
}

func (p *pair) close() {
	_, _ = p.behind.Close(), p.with.Close()
	p.net.Close()
}
