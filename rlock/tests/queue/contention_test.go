package queue_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// These tests measure what a contended lock costs by its protocol alone. In virtual time the
// processor costs nothing and the delay of the network is constant, so the figures are the
// protocol's, on any machine:
//
//	go test -v -run InVirtualTime ./rlock/tests/queue

// A contention describes processes whose goroutines want one lock again and again.
type contention struct {
	processes, goroutines int
	section, roundTrip    time.Duration
	pauses                bool // between the sections of a goroutine
}

func (c contention) String() string {
	text := fmt.Sprintf("%d x %d, %v sections, %v away", c.processes, c.goroutines, c.section, c.roundTrip)
	if c.pauses {
		text += ", pauses"
	}
	return text
}

func (c contention) waiters() int { return c.processes * c.goroutines }

// rest is the pause of a goroutine after a turn. The pauses of a goroutine are spread evenly up to
// eight sections, or 8 ms, and are not random.
func (c contention) rest(goroutine, turn int) time.Duration {
	if !c.pauses {
		return 0
	}
	_, part := math.Modf(float64(goroutine)*math.Sqrt2 + float64(turn)*math.Phi)
	return time.Duration(part * 8 * float64(max(c.section, time.Millisecond)))
}

// A tally has the results of a contention. The lock protects it until all goroutines are done.
type tally struct {
	contention
	warm, left int // the sections before the counted ones, and the counted ones that are left
	sections   []int
	waits      []time.Duration
	handovers  []time.Duration // from the call of Unlock in one process to the return of Lock in another that waited
	took       time.Duration
	sent       int64 // scripts

	scripts func() int64
	began   time.Time
	before  int64
	last    int       // the process that had the lock last
	freed   time.Time // when it called Unlock
}

// enter notes that a goroutine has got the lock, for which it has waited since then.
func (y *tally) enter(process int, since time.Time) {
	now := time.Now()
	switch {
	case y.warm > 0:
		if y.warm--; y.warm == 0 {
			y.began, y.before = now, y.scripts()
		}
	case y.left > 0:
		y.sections[process]++
		y.waits = append(y.waits, now.Sub(since))
		if process != y.last && !since.After(y.freed) {
			y.handovers = append(y.handovers, now.Sub(y.freed))
		}
		if y.left--; y.left == 0 {
			y.took, y.sent = now.Sub(y.began), y.scripts()-y.before
		}
	}
}

// leave notes that Unlock is about to be called, and reports whether the contention is over.
func (y *tally) leave(process int) (over bool) {
	y.last, y.freed = process, time.Now()
	return y.left == 0
}

func (y *tally) total() int { return len(y.waits) }

// rate returns the sections a second: infinite if no time has passed.
func (y *tally) rate() float64 { return float64(y.total()) / y.took.Seconds() }

// share returns the fewest sections of a process, divided by the most of a process.
func (y *tally) share() float64 {
	return float64(slices.Min(y.sections)) / float64(slices.Max(y.sections))
}

func (y *tally) scriptsEach() float64 { return float64(y.sent) / float64(y.total()) }

// rounds converts a wait to rounds: a round is as many mean sections as there are waiters.
func (y *tally) rounds(wait time.Duration) float64 {
	return wait.Seconds() * y.rate() / float64(y.waiters())
}

// percentile sorts all, and returns one of them.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// hold runs the contention until each goroutine has had the lock rounds times, on average, and long
// enough for one section more or less to make no difference. The first sections are not counted: in
// them connections are opened and channels subscribed to.
func (c contention) hold(t *testing.T, of func(*rlock.Client) *rlock.Lock, rounds int) *tally {
	t.Helper()
	y := &tally{contention: c, warm: max(3*c.waiters(), 20), left: max(rounds*c.waiters(), 40), sections: make([]int, c.processes), last: -1}
	testbed.BubbleAlone(t, func(t *testing.T, w *testbed.World) {
		y.scripts = func() int64 {
			calls := w.Redis.Calls()
			return calls["evalsha"] + calls["eval"]
		}
		var all sync.WaitGroup
		for process := range c.processes {
			p := w.NewClient(func(config *rlock.Config) { config.Logger = testbed.Quiet })
			p.Net.SetRoundTrip(c.roundTrip)
			for i := range c.goroutines {
				lock, me := of(p.Client), w.Caller()
				all.Go(func() {
					for turn := 0; ; turn++ {
						since := time.Now()
						if !assert.NoError(t, lock.Lock(me)) {
							return
						}
						y.enter(process, since)
						time.Sleep(c.section)
						over := y.leave(process)
						if !assert.NoError(t, lock.Unlock(me)) || over {
							return
						}
						time.Sleep(c.rest(process*c.goroutines+i, turn))
					}
				})
			}
		}
		all.Wait()
	})
	return y
}

// holdsItsTargets asserts the targets of the protocol.
func (y *tally) holdsItsTargets(t *testing.T, strict bool) {
	t.Helper()
	assert.LessOrEqual(t, y.scriptsEach(), 2.2, "%v: scripts a section", y)
	assert.LessOrEqual(t, y.rounds(percentile(y.waits, 99)), 1.5, "%v: p99 wait in rounds", y)
	assert.LessOrEqual(t, percentile(y.handovers, 99), y.roundTrip*6/5, "%v: p99 hand-over", y)
	if y.pauses {
		return // else the share is that of the pauses, and so is the rate
	}
	assert.NotEmpty(t, y.handovers, "%v", y)
	assert.GreaterOrEqual(t, y.share(), 0.9, "%v: smallest share of a process", y)
	handedOver := 1 / (y.section + y.roundTrip).Seconds() // each section
	assert.GreaterOrEqual(t, y.rate(), 0.95*handedOver, "%v: sections a second", y)
	if y.processes == 4 && y.section == 50*time.Microsecond && !strict {
		assert.GreaterOrEqual(t, y.rate(), 10_500.0, "%v: sections a second", y)
		assert.LessOrEqual(t, percentile(y.waits, 99), 30*time.Millisecond, "%v: p99 wait", y)
	}
}

func TestInVirtualTimeAContendedLockHoldsItsTargets(t *testing.T) {
	testbed.ManyCommands(t)
	const us, ms = time.Microsecond, time.Millisecond
	for name, of := range testbed.LocksOf("plain", "fair", "fenced", "write", "semaphore") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strict := name == "fair" || name == "semaphore" // granted in the order of all waiters, and never handed off
			for _, c := range []contention{
				{2, 1, 0, 500 * us, false},
				{8, 1, ms, 500 * us, false},
				{8, 1, ms, 500 * us, true},
				{32, 1, ms, 500 * us, false},
				{16, 1, 45 * ms, 500 * us, false}, // a wait is longer than a third of a claim
				{4, 32, 50 * us, 500 * us, false},
			} {
				if c.processes == 32 && name != "plain" {
					continue // as with sixteen
				}
				rounds := 5
				if c.goroutines > 1 && !strict {
					rounds *= 4 // a turn is many sections
				}
				y := c.hold(t, of, rounds)
				y.holdsItsTargets(t, strict)
				t.Logf("%v: %.0f sections a second, smallest share %.2f, p99 wait %v or %.2f rounds, %.2f scripts a section",
					y, y.rate(), y.share(), percentile(y.waits, 99), y.rounds(percentile(y.waits, 99)), y.scriptsEach())
			}
		})
	}
}
