package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-rlock/rlock/internal/redisson"
)

const (
	object      = "turns" // the name of the synchronizer
	threads     = 2       // of each process in Go; Java has one more
	look        = 2 * time.Second
	permitLease = 2 * time.Second // of a permit whose holder dies
	patience    = time.Minute     // for what should end by itself
)

// A run is one kind with one version.
type run struct {
	*fleet
	options
	kind   turnKind
	actors []*actor
	title  string
	random *rand.Rand // of the faults

	gate   sync.RWMutex // a turn has it to read, and a count to write
	closed atomic.Int64 // since when no turn begins, since a count is due, in Unix nanoseconds; 0: turns begin
	ended  atomic.Bool

	turns, turnsOfJava atomic.Int64
	unsure             atomic.Int64 // calls since the last count whose outcome is unknown
	inVain             atomic.Int64 // waits of Redisson that ended by their time

	mu         sync.Mutex // protects following
	inside     int        // holders
	most       int
	slowest    time.Duration // a waiter in Go had no reason to wait, and did so long
	injected   map[string]int
	violations []string
}

// A turnKind has the turns with one kind of synchronizer.
type turnKind interface {
	// begin makes the synchronizer.
	begin(ctx context.Context) error
	// turn is one turn of a thread.
	turn(a *actor)
	// hasten is called again and again while no turn begins, and those under way end.
	hasten(ctx context.Context) error
	// count is called when no turn is under way. It repairs what calls of unknown outcome have left.
	count(ctx context.Context) error
	// end removes the synchronizer.
	end(ctx context.Context) error
}

// An actor is one thread.
type actor struct {
	*party
	index  int
	random *rand.Rand
	doing  atomic.Pointer[string] // what its turn is about
}

// now is the thread, in the process that lives, which is to do that.
func (a *actor) now(what string) redisson.Thread {
	doing := time.Now().Format("05.000 ") + a.String() + " " + what
	a.doing.Store(&doing)
	return a.thread(a.index)
}

func newRun(f *fleet, kind string, o options) *run {
	r := &run{fleet: f, options: o, title: kind + " with Redisson " + string(f.version), random: rand.New(rand.NewPCG(o.seed, 1)), injected: make(map[string]int)}
	switch kind {
	case "semaphore":
		r.kind = &semaphoreTurns{r}
	case "permits":
		r.kind = &permitTurns{r}
	default:
		r.kind = &latchTurns{run: r}
	}
	return r
}

// run takes turns until the end, with a fault and a count again and again.
func (r *run) run() {
	ctx, cancel := context.WithTimeout(context.Background(), r.duration+10*patience)
	defer cancel()
	if err := r.kind.begin(ctx); err != nil {
		r.violated("it cannot begin: %v", err)
		return
	}
	var actors sync.WaitGroup
	for i, p := range r.parties {
		n := threads
		if p.java {
			n++
		}
		for index := range n {
			r.actors = append(r.actors, &actor{party: p, index: index, random: rand.New(rand.NewPCG(r.seed, uint64(10*i+index)))})
		}
	}
	for _, a := range r.actors {
		actors.Go(func() { r.act(a) })
	}
	began := time.Now()
	for n := 0; !r.isOver(n, began) && !r.hasViolations(); n++ {
		r.await(r.turns.Load() + r.options.turns)
		r.inject(n)
		r.await(r.turns.Load() + r.options.turns/10)
		r.settle(ctx)
	}
	r.ended.Store(true)
	r.settle(ctx)
	actors.Wait()
	if err := r.kind.end(ctx); err != nil {
		r.violated("at the end: %v", err)
	}
	if left, err := r.keys(ctx); err != nil || len(left) > 0 {
		r.violated("left at the end: %q %v", left, err)
	}
}

func (r *run) isOver(n int, began time.Time) bool {
	if r.faults > 0 {
		return n >= r.faults
	}
	return time.Since(began) > r.duration
}

func (r *run) act(a *actor) {
	for !r.ended.Load() {
		if r.closed.Load() != 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		r.gate.RLock()
		r.kind.turn(a)
		r.gate.RUnlock()
		r.turns.Add(1)
		if a.java {
			r.turnsOfJava.Add(1)
		}
	}
}

// await returns when there have been so many turns.
func (r *run) await(turns int64) {
	for began := time.Now(); r.turns.Load() < turns; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			r.violated("too few turns in %v: since the second %s", patience, r.doing())
			return
		}
	}
}

// doing is what all actors are at.
func (r *run) doing() string {
	var all []string
	for _, a := range r.actors {
		if doing := a.doing.Load(); doing != nil {
			all = append(all, *doing)
		}
	}
	return strings.Join(all, ", ")
}

// faults are injected one after the other.
var faults = []string{"kill Go", "deafen", "cut Go", "kill Java", "cut Java"}

func (r *run) inject(n int) {
	name := faults[n%len(faults)]
	goParty, javaParty := r.parties[r.random.IntN(len(r.parties)-1)], r.parties[len(r.parties)-1]
	var err error
	switch name {
	case "kill Go":
		err = r.kill(goParty)
	case "kill Java":
		err = r.kill(javaParty)
	case "cut Go":
		err = r.cut(goParty)
	case "cut Java":
		if _, counts := r.kind.(*semaphoreTurns); counts && strings.HasPrefix(string(r.version), "3.") {
			return // see the comment of the package
		}
		err = r.cut(javaParty)
	default:
		err = r.deafen()
	}
	if err != nil {
		r.violated("%s: %v", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.injected[name]++
}

// settle waits until no turn is under way, and counts.
func (r *run) settle(ctx context.Context) {
	began := time.Now()
	r.closed.Store(began.UnixNano())
	defer r.closed.Store(0)
	for ; !r.gate.TryLock(); time.Sleep(time.Millisecond) {
		if err := r.kind.hasten(ctx); err != nil {
			r.violated("%v", err)
		}
		if time.Since(began) > patience {
			r.violated("a turn has not ended after %v: since the second %s", patience, r.doing())
			return
		}
	}
	defer r.gate.Unlock()
	if err := r.kind.count(ctx); err != nil {
		r.violated("%v", err)
	}
	r.unsure.Store(0)
}

// failed notes a call that has failed, whose outcome is unknown.
func (r *run) failed(err error) {
	r.unsure.Add(1)
	if errors.Is(err, redisson.ErrEnded) {
		time.Sleep(10 * time.Millisecond) // until there is another process
	}
}

// waited records how long a waiter in Go slept needlessly: from the beginning of the count, or from its call if that came
// later. No call begins during a count, so there is a permit for each waiter.
func (r *run) waited(a *actor, asked time.Time) {
	closed := r.closed.Load()
	if a.java || closed == 0 {
		return
	}
	r.slept(time.Since(latest(asked, time.Unix(0, closed))))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// slept notes for how long a waiter in Go has slept for nothing.
func (r *run) slept(d time.Duration) {
	r.mu.Lock()
	r.slowest = max(r.slowest, d)
	r.mu.Unlock()
	if d > look+r.slack {
		r.violated("a waiter in Go slept for %v for nothing", d)
	}
}

// enter notes one more holder of the permits.
func (r *run) enter(permits int) {
	r.mu.Lock()
	r.inside++
	inside := r.inside
	r.most = max(r.most, inside)
	r.mu.Unlock()
	if inside > permits {
		r.violated("%d holders of %d permits", inside, permits)
	}
}

func (r *run) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
}

func (r *run) violated(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) < 20 {
		r.violations = append(r.violations, fmt.Sprintf(format, args...))
	}
}

func (r *run) hasViolations() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.violations) > 0
}

// String is the report.
func (r *run) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var injected []string
	for name, n := range r.injected {
		injected = append(injected, fmt.Sprintf("%d x %s", n, name))
	}
	slices.Sort(injected)
	text := fmt.Sprintf("%s: %d turns (%d of Java), at most %d holders, a waiter in Go slept %v for nothing at most, %d waits of Java in vain; %s: %d violations",
		r.title, r.turns.Load(), r.turnsOfJava.Load(), r.most, r.slowest.Round(time.Millisecond), r.inVain.Load(), strings.Join(injected, ", "), len(r.violations))
	for _, v := range r.violations {
		text += "\n  VIOLATION: " + v
	}
	return text
}
