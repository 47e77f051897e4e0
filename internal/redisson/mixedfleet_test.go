package redisson_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// Turns in a fleet of Java and Go processes that contend for one plain lock without pauses.
// These tests measure shares and waits, which need a quiet machine:
//
//	go test -v -run TestMixedFleet ./internal/redisson -long

const mixedSection, mixedTime = 5 * time.Millisecond, 10 * time.Second

// A fleet is so many goroutines in each of so many Go clients, beside so many threads of
// each of so many Java processes.
type fleet struct {
	processes           int // 0: one
	threads             int
	clients, goroutines int
	kind                redisson.Kind
	fair                bool          // the Go clients have fair locks
	late                bool          // Java comes a second after Go
	pause               time.Duration // of a Java thread after each section, at most
	trying              bool          // the Java threads call tryLock until they have the lock, with a millisecond between two calls
	counted             bool          // Redis knows that the threads wait: they have their part
}

// A share is what a process had of a lock. Its fields are exported so that a log has the units.
type share struct {
	Sections int
	Longest  time.Duration // the longest wait of any of its threads or goroutines
}

// A rival is a thread of a fleet.
type rival struct {
	*thread
	fleet
}

func (r rival) do(kind redisson.Kind, lock, verb string, args []string) (string, error) {
	for verb == "lock" && r.trying {
		if got, err := r.thread.do(kind, lock, "tryLock", nil); err != nil || got == "true" {
			return "", err
		}
		time.Sleep(time.Millisecond)
	}
	got, err := r.thread.do(kind, lock, verb, args)
	if verb == "unlock" {
		time.Sleep(rand.N(r.pause + 1))
	}
	return got, err
}

// contends returns what the Java processes had and what each Go client had.
func (f fleet) contends(s *scene) (java share, golang []share) {
	lock, end := s.fresh(), time.Now().Add(mixedTime)
	var all sync.WaitGroup
	var mu sync.Mutex
	join := func(to *share, a actor, kind redisson.Kind) {
		all.Go(func() {
			n, longest := s.again(a, kind, lock, end, func(string) error { time.Sleep(mixedSection); return nil })
			mu.Lock()
			defer mu.Unlock()
			to.Sections, to.Longest = to.Sections+n, max(to.Longest, longest)
		})
	}
	kind := redisson.Plain
	if f.fair {
		kind = redisson.Fair
	}
	golang = make([]share, f.clients)
	for i := range golang {
		client := s.startGo()
		for range f.goroutines {
			join(&golang[i], &owner{client: client, ctx: rlock.WithOwner(s.ctx, rlock.NewOwner())}, kind)
		}
	}
	if f.late {
		time.Sleep(time.Second)
	}
	for process := range max(f.processes, 1) {
		jvm := s.java
		if process > 0 {
			jvm = s.startJava()
		}
		for i := range f.threads {
			join(&java, rival{&thread{Thread: jvm.Thread(fmt.Sprint("fleet ", i))}, f}, f.kind)
		}
	}
	all.Wait()
	s.t.Logf("in %v: Java %v (%.2f of its fair part), Go %v", mixedTime, java, f.part(java, golang), golang)
	return java, golang
}

// part returns how much of their fair part the Java processes had.
func (f fleet) part(java share, golang []share) float64 {
	sections, processes := java.Sections, max(f.processes, 1)
	for _, share := range golang {
		sections += share.Sections
	}
	return float64(java.Sections) / float64(sections) * float64(processes+f.clients) / float64(processes)
}

// Each process has its part, and no thread waits for long. Redis cannot count clients of Redisson
// at a replica, nor pollers: these have turns. Eight threads of a spin lock pause between their
// sections: without pauses Redisson alone keeps the unluckiest of eight threads waiting for four to
// five seconds of ten.
func TestMixedFleetsTakeTurns(t *testing.T) {
	onlyLong(t)
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) {
			s := stage(t, redistest.Standalone(t), setting{version: version})
			for title, f := range map[string]fleet{
				"8 threads beside 1 x 8":        {threads: 8, clients: 1, goroutines: 8, counted: true},
				"8 threads beside 2 x 8":        {threads: 8, clients: 2, goroutines: 8, counted: true},
				"8 threads beside 3 x 4":        {threads: 8, clients: 3, goroutines: 4, counted: true},
				"8 threads beside 8 x 1":        {threads: 8, clients: 8, goroutines: 1, counted: true},
				"4 x 4 threads beside 1 x 8":    {processes: 4, threads: 4, clients: 1, goroutines: 8, counted: true},
				"1 thread beside 1 x 32":        {threads: 1, clients: 1, goroutines: 32, counted: true},
				"4 fair threads beside 1 x 4":   {threads: 4, clients: 1, goroutines: 4, kind: redisson.Fair, counted: true},
				"4 fair threads beside 4, fair": {threads: 4, clients: 1, goroutines: 4, kind: redisson.Fair, fair: true, counted: true},

				"spin lock":                {threads: 2, clients: 1, goroutines: 3, kind: redisson.Spin},
				"spin lock, one goroutine": {threads: 2, clients: 1, goroutines: 1, kind: redisson.Spin},
				"spin lock, Go first":      {threads: 2, clients: 1, goroutines: 3, kind: redisson.Spin, late: true},
				"tryLock loop, Go first":   {threads: 2, clients: 1, goroutines: 3, trying: true, late: true},
				"spin lock, eight, pauses": {threads: 8, clients: 1, goroutines: 8, kind: redisson.Spin, pause: 500 * time.Millisecond},
				"tryLock loop":             {threads: 2, clients: 1, goroutines: 3, trying: true},
				"tryLock loop, eight":      {threads: 8, clients: 1, goroutines: 8, trying: true},
			} {
				s.run(title, f.takesTurns)
			}
			s = stage(t, redistest.Sentinel(t), setting{version: version, listensAtReplicas: true})
			s.run("subscriptionMode=SLAVE", fleet{threads: 2, clients: 2, goroutines: 2}.takesTurns)
		})
	}
}

func (f fleet) takesTurns(s *scene) {
	java, golang := f.contends(s)
	if !f.counted {
		assert.Less(s.t, java.Longest, 4*time.Second)
		return
	}
	assert.InDelta(s.t, 1, f.part(java, golang), 0.4, "Java's part of its fair part")
	for _, share := range append(golang, java) {
		assert.Less(s.t, share.Longest, 3*time.Second)
	}
}

// primaryAndReplicas returns the addresses of the server's data nodes.
func (s *scene) primaryAndReplicas() (primary string, replicas []string) {
	for _, node := range s.Nodes() {
		client := node.Client(s.t)
		role, err := client.Do(s.t.Context(), client.B().Role().Build()).ToArray()
		require.NoError(s.t, err)
		if name, _ := role[0].ToString(); name == "master" {
			primary = node.Addr()
		} else {
			replicas = append(replicas, node.Addr())
		}
	}
	return primary, replicas
}
