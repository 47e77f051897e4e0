package queue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/stretchr/testify/assert"
)

// What a contended lock costs by its protocol alone. In virtual time the processor costs
// nothing and the network always takes as long, so that the figures are those of the
// protocol, on any machine. With -long there are all settings:
//
//	go test -v -timeout 30m -run InVirtualTime ./rlock/tests/queue -long

// A contention is processes whose goroutines want one lock again and again.
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

// rest is the pause of a goroutine after a turn. The pauses of each are spread evenly up to
// eight sections, or 8 ms, and not random.
func (c contention) rest(goroutine, turn int) time.Duration {
	if !c.pauses {
		return 0
	}
	_, part := math.Modf(float64(goroutine)*math.Sqrt2 + float64(turn)*math.Phi)
	return time.Duration(part * 8 * float64(max(c.section, time.Millisecond)))
}

// A tally is what a contention has come to. The lock protects it until all are done.
type tally struct {
	contention
	warm, left int // the sections before those that are counted, and of these
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

// rate is in sections a second: infinite if no time has passed.
func (y *tally) rate() float64 { return float64(y.total()) / y.took.Seconds() }

// share is that of the process that had the fewest sections in those of the one that had
// the most.
func (y *tally) share() float64 {
	return float64(slices.Min(y.sections)) / float64(slices.Max(y.sections))
}

func (y *tally) scriptsEach() float64 { return float64(y.sent) / float64(y.total()) }

// rounds is a wait in rounds: as many mean sections as there are waiters.
func (y *tally) rounds(wait time.Duration) float64 {
	return wait.Seconds() * y.rate() / float64(y.waiters())
}

// percentile sorts all.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)*percent/100]
}

// row is the tally as a row of a table.
func (y *tally) row() string {
	trips := func(percent int) string {
		if y.roundTrip == 0 || len(y.handovers) == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", percentile(y.handovers, percent).Seconds()/y.roundTrip.Seconds())
	}
	wait := percentile(y.waits, 99)
	return fmt.Sprintf("%v\t%.0f\t%.2f\t%v\t%.2f\t%.2f\t%s\t%s", y, y.rate(), y.share(), wait.Round(time.Microsecond), y.rounds(wait),
		y.scriptsEach(), trips(50), trips(99))
}

// hold runs the contention until each goroutine has had a lock of that kind so often, on
// average, and long enough for one section more or less to make no difference. The first
// sections are not counted: in them connections are opened and channels subscribed to.
func (c contention) hold(t *testing.T, k testbed.Kind, rounds int) *tally {
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
				lock, me := k.Lock([]*rlock.Client{p.Client}, testbed.Key), w.Caller()
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

// settings returns the contentions for a kind of lock.
func settings(k testbed.Kind) (all []contention) {
	const us, ms = time.Microsecond, time.Millisecond
	if !*testbed.Long {
		all = []contention{
			{2, 1, 0, 500 * us, false},
			{8, 1, ms, 500 * us, false},
			{8, 1, ms, 500 * us, true},
			{16, 1, 45 * ms, 500 * us, false}, // a wait is longer than a third of a claim
		}
		if k.Name == "plain" {
			all = append(all, contention{32, 1, ms, 500 * us, false})
		}
		if !k.Strict {
			all = append(all, contention{4, 32, 50 * us, 500 * us, false})
		}
		return all
	}
	for _, processes := range []int{2, 8, 32, 64} {
		for _, section := range []time.Duration{0, ms, 10 * ms} {
			for _, roundTrip := range []time.Duration{0, 500 * us, 2 * ms} {
				all = append(all, contention{processes, 1, section, roundTrip, false}, contention{processes, 1, section, roundTrip, true})
			}
		}
	}
	for _, section := range []time.Duration{50 * us, ms} {
		all = append(all, contention{4, 32, section, 500 * us, false}, contention{8, 16, section, 500 * us, false})
	}
	return all
}

// holdsItsTargets asserts what the protocol is to reach in a contention for a lock of that
// kind. Where nothing takes time the order is that of the scheduler, and nothing is asserted.
func (y *tally) holdsItsTargets(t *testing.T, k testbed.Kind) {
	t.Helper()
	if y.section+y.roundTrip == 0 {
		return
	}
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
	if y.processes == 4 && y.section == 50*time.Microsecond && !k.Strict {
		assert.GreaterOrEqual(t, y.rate(), 10_500.0, "%v: sections a second", y)
		assert.LessOrEqual(t, percentile(y.waits, 99), 30*time.Millisecond, "%v: p99 wait", y)
	}
}

func TestInVirtualTimeAContendedLockHoldsItsTargets(t *testing.T) {
	testbed.ManyCommands(t)
	for _, name := range []string{"plain", "fair", "fenced", "write", "semaphore of one"} {
		k := testbed.Kinds[slices.IndexFunc(testbed.Kinds, func(k testbed.Kind) bool { return k.Name == name })]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
			fmt.Fprintln(table, "\tsections/s\tshare\tp99 wait\tin rounds\tscripts\thand-over p50\tp99")
			for _, c := range settings(k) {
				rounds := testbed.Thorough(10, 5)
				if c.goroutines > 1 && !k.Strict {
					rounds *= 4 // a turn is many sections
				}
				y := c.hold(t, k, rounds)
				y.holdsItsTargets(t, k)
				fmt.Fprintln(table, y.row())
			}
			_ = table.Flush() // a Builder takes everything
			t.Log("\n" + text.String())
		})
	}
}
