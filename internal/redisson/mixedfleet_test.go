package redisson_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redisson"
	"github.com/go-rlock/rlock/internal/redistest"
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
	pause               time.Duration // of a Java thread before each section, at most
	trying              bool          // the Java threads call tryLock until they have the lock
	counted             bool          // Redis knows that the threads wait: they have their part
}

// contends returns what the Java process had and what each Go client had. The longest wait
// is that of any of its threads or goroutines.
func (f fleet) contends(s *scene) (java redisson.Share, golang []redisson.Share) {
	name := s.fresh()
	var all sync.WaitGroup
	var mu sync.Mutex
	javas := []*redisson.Process{s.java}
	for len(javas) < f.processes {
		javas = append(javas, s.startJava())
	}
	add := func(to *redisson.Share, part redisson.Share) {
		mu.Lock()
		defer mu.Unlock()
		to.Sections += part.Sections
		to.Longest = max(to.Longest, part.Longest)
	}
	golang = make([]redisson.Share, f.clients)
	end := time.Now().Add(mixedTime)
	for i := range f.clients {
		lock := s.startGo().NewLock(name)
		if f.fair {
			lock = s.startGo().NewFairLock(name)
		}
		for range f.goroutines {
			all.Go(func() {
				var share redisson.Share
				for ; time.Now().Before(end); share.Sections++ {
					asked := time.Now()
					if !assert.NoError(s.t, lock.Lock(s.ctx)) {
						return
					}
					share.Longest = max(share.Longest, time.Since(asked))
					time.Sleep(mixedSection)
					if !assert.NoError(s.t, lock.Unlock(s.ctx)) {
						return
					}
				}
				add(&golang[i], share)
			})
		}
	}
	left := mixedTime
	if f.late {
		time.Sleep(time.Second)
		left -= time.Second
	}
	for _, process := range javas {
		for i := range f.threads {
			all.Go(func() {
				share, err := process.Thread(fmt.Sprint("fleet ", i)).With(f.kind).Contend(name, mixedSection, f.pause, left, f.trying)
				assert.NoError(s.t, err)
				add(&java, share)
			})
		}
	}
	all.Wait()
	sections := java.Sections
	for _, share := range golang {
		sections += share.Sections
	}
	s.t.Logf("%d sections in %v: Java %d (%.2f of its fair part, longest wait %v), Go %v",
		sections, mixedTime, java.Sections, f.part(java, golang), java.Longest, golang)
	return java, golang
}

// part returns how much of their fair part the Java processes had.
func (f fleet) part(java redisson.Share, golang []redisson.Share) float64 {
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
