package worker

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"
)

// A share is what some hands of a worker do: the locks that they want, and when.
type share struct {
	names   []string
	name    func(*hand) string // chooses one
	parts   int                // of the largest multi-locks
	seldom  int                // of so many multi-locks one remains: those that wait for each other wait long
	section time.Duration      // the usual bound of a hold
	wave    time.Duration      // visits begin in the first part of each; 0: each as soon as the last one is over
	first   time.Duration      // that part
}

// The usual multi-lock has few parts: owners that take three of five in any order wait for each
// other.
const few = 3

// crowded returns the share of a few goroutines that contend for a few names.
func (j Job) crowded() *share {
	return &share{names: j.Names, name: oneOfTheFirst, parts: few, seldom: 1, section: cmp.Or(j.Section, 3*time.Millisecond)}
}

// wide returns the share of a client with very many names, with about a goroutine for each. All
// acquires are due at once, more than a client sends at a time, and releases come in between; then
// it rests, so that a history of minutes can be judged.
func (j Job) wide() *share {
	s := &share{name: anyOne, parts: 50, seldom: 8, section: 100 * time.Millisecond, wave: 2 * time.Second, first: 300 * time.Millisecond}
	for i := range j.Wide {
		s.names = append(s.names, fmt.Sprintf("torture:wide:%d", i))
	}
	return s
}

// oneOfTheFirst makes the first names the most contended.
func oneOfTheFirst(h *hand) string {
	n := len(h.share.names)
	return h.share.names[min(h.random.IntN(n), h.random.IntN(n))]
}

func anyOne(h *hand) string { return h.share.names[h.random.IntN(len(h.share.names))] }

// await waits until a visit may begin, and reports whether it may before the gate closes.
func (s *share) await(closing <-chan struct{}) bool {
	now := time.Now()
	wave := now.Truncate(s.wave) // that of now
	if now.Sub(wave) <= s.first {
		return true
	}
	timer := time.NewTimer(wave.Add(s.wave).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-closing:
		return false
	}
}

// A gauge counts things that come and go, and remembers the highest count.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) enter() {
	n := g.now.Add(1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
}

func (g *gauge) leave() { g.now.Add(-1) }
