package queue_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// What Config.Linger gains and costs by its protocol alone, in virtual time as in
// contention_test.go:
//
//	go test -v -run 'InVirtualTime.*Linger' ./rlock/tests/queue -long

const (
	lingerTrip    = 500 * time.Microsecond // a round trip
	lingerSection = 10 * time.Microsecond
)

// A homeLoad is processes that each have names of their own, and lock one of these for most
// of their sections, else one of another process.
type homeLoad struct {
	processes, names int
	own              int // of a hundred sections
	warm, counted    time.Duration
}

// A homeTally is what a homeLoad has come to.
type homeTally struct {
	sections int
	away     []time.Duration // the waits for a name of another process
}

// In run all processes lock and unlock for that long.
func (l homeLoad) run(t *testing.T, linger time.Duration) (y homeTally) {
	t.Helper()
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		var all sync.WaitGroup
		var mu sync.Mutex // protects y
		begin := time.Now().Add(l.warm)
		for process := range l.processes {
			p := w.NewClient(func(c *rlock.Config) { c.Linger = linger })
			p.Net.SetRoundTrip(lingerTrip)
			random := rand.New(rand.NewPCG(1, uint64(process)))
			locks, me := make([]*rlock.Lock, l.names), w.Caller()
			for name := range locks {
				locks[name] = p.NewLock(fmt.Sprint("name ", name))
			}
			all.Go(func() {
				for since := time.Now(); since.Before(begin.Add(l.counted)); since = time.Now() {
					name := random.IntN(l.names/l.processes)*l.processes + process
					away := random.IntN(100) >= l.own
					if away {
						name = random.IntN(l.names)
					}
					if !assert.NoError(t, locks[name].Lock(me)) {
						return
					}
					wait := time.Since(since)
					time.Sleep(lingerSection)
					if !assert.NoError(t, locks[name].Unlock(me)) {
						return
					}
					if since.Before(begin) {
						continue
					}
					mu.Lock()
					y.sections++
					if away {
						y.away = append(y.away, wait)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	})
	return y
}

func TestInVirtualTimeNamesWithAProcessOfTheirOwnAreFiveTimesAsFastWithLinger(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	l := homeLoad{processes: 10, names: 200, own: 95, warm: 40 * time.Millisecond, counted: 60 * time.Millisecond}
	most := 90 // of a hundred waits: a process that has names of its own wants each of the few again soon
	if *testbed.Long {
		l = homeLoad{processes: 20, names: 1000, own: 95, warm: 100 * time.Millisecond, counted: 500 * time.Millisecond}
		most = 99
	}
	without, with := l.run(t, 0), l.run(t, time.Minute)
	t.Logf("%d sections, %d with Linger; waits for the name of another: p50 %v, p%d %v; with Linger %v, %v",
		without.sections, with.sections, percentile(without.away, 50), most, percentile(without.away, most), percentile(with.away, 50), percentile(with.away, most))
	assert.GreaterOrEqual(t, with.sections, 5*without.sections)
	assert.LessOrEqual(t, percentile(with.away, most), percentile(without.away, most)+2*lingerTrip)
}

// In takeTurns two processes lock one name in turn, which is the worst case. Either both always
// want it, or each wants it when the other has unlocked it. It returns the time of a turn.
func takeTurns(t *testing.T, linger time.Duration, both bool) (turn time.Duration) {
	t.Helper()
	const turns = 200
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		use := [2]func(){}
		for i := range use {
			p, me := w.NewClient(func(c *rlock.Config) { c.Linger = linger }), w.Caller()
			p.Net.SetRoundTrip(lingerTrip)
			lock := p.NewLock(testbed.Key)
			use[i] = func() {
				assert.NoError(t, lock.Lock(me))
				time.Sleep(lingerSection)
				assert.NoError(t, lock.Unlock(me))
			}
		}
		began := time.Now()
		if both {
			var all sync.WaitGroup
			for _, use := range use {
				all.Go(func() {
					for range turns / 2 {
						use()
					}
				})
			}
			all.Wait()
		} else {
			for turn := range turns {
				use[turn%2]()
			}
		}
		turn = time.Since(began) / turns
	})
	return turn
}

func TestInVirtualTimeTwoProcessesInTurnLoseLittleWithLinger(t *testing.T) {
	redistest.Slow(t)
	testbed.ManyCommands(t)
	for _, both := range []bool{false, true} {
		without, with := takeTurns(t, 0, both), takeTurns(t, time.Minute, both)
		t.Logf("both want it: %v; a turn takes %v, %v with Linger", both, without, with)
		assert.LessOrEqual(t, with, without*13/10)
	}
}
