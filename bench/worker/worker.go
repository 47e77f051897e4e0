// Package worker is the processes of a measurement. The benchmark starts itself, once for
// each process of a scenario, so that processes are real and the client CPU is the
// contender's, not the harness's.
//
//	benchmark                         worker
//	    | -- Job, a line of JSON ------> |  open clients, warm up
//	    | <------------------- "ready" - |
//	    | -- when to begin ------------> |  run until the time is up, then drain
//	    | <---- Report, a line of JSON - |
//
// # Counters
//
// A section counts if it ended in the window of Job.Duration. After the window no goroutine
// begins another wait, but running waits may finish (the drain), to distinguish a waiter that
// is never woken from one that waits:
//
//	waiting --> has the lock                            its wait is recorded
//	   |------> Lock failed by its own rules            a failure
//	   |------> Job.Stall without a section
//	   |        of any process                          stuck: a lost wake-up
//	   +------> Job.Drain is over, others do enter      cut: its wait so far is recorded
//
// A contender that is not in Go has a program that speaks the same protocol, counts
// by the same rules, and maps the same memory; it may do several jobs in turn.
//
// Exclusion is checked by a Ground: memory that all processes of a measurement map, with the
// number of running sections for each lock. It takes no part in the work of the contender.
package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/bench/contender"
)

// A worker is one process of a measurement.
type worker struct {
	Job
	client contender.Client
	ground *Ground
	more   *bufio.Reader // the lines of the benchmark after the start
	holds  *holds        // Hold: the locks taken before the start

	// ctx is the context of every Lock; it ends when the drain is over.
	ctx    context.Context
	cancel context.CancelFunc
	over   atomic.Bool // the drain has ended with waiters left
	cut    atomic.Bool // and other goroutines had sections

	running atomic.Int64 // goroutines

	wait, pair, nested, handover, turns *histogram

	mu     sync.Mutex // guards the fields below
	report Report
}

func open(job Job) (w *worker, err error) {
	w = &worker{
		Job:  job,
		wait: newHistogram(), pair: newHistogram(), nested: newHistogram(), handover: newHistogram(), turns: newHistogram(),
		report: Report{Process: job.Process, Least: math.MaxInt64},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	c, err := contender.Find(job.Contender)
	if err != nil {
		return w, err
	}
	if w.ground, err = OpenGround(job.Ground, job.Locks); err != nil {
		return w, err
	}
	if w.client, err = c.Open(contender.Config{Addr: job.Addr, Addrs: job.Addrs, Lease: job.Lease}); err != nil {
		return w, fmt.Errorf("worker: %s: %w", c.Name, err)
	}
	if err := w.warmUp(); err != nil {
		return w, err
	}
	if job.Kind == Hold {
		w.holds, err = w.take()
	}
	return w, err
}

func (w *worker) close() {
	w.cancel()
	if w.client != nil {
		_ = w.client.Close()
	}
	if w.ground != nil {
		_ = w.ground.Close()
	}
}

// warmUp opens the connections that a client opens at first use, and loads the scripts, with
// locks that are used nowhere else.
func (w *worker) warmUp() error {
	var all sync.WaitGroup
	var failed error
	for i := range max(1, min(w.Goroutines, 32)) {
		m := w.client.Mutex(fmt.Sprintf("%s:warm:%d:%d", w.Prefix, w.Process, i))
		all.Go(func() {
			if err := warm(w.ctx, m); err != nil {
				w.mu.Lock()
				failed = errors.Join(failed, err)
				w.mu.Unlock()
			}
		})
	}
	all.Wait()
	if failed != nil {
		return fmt.Errorf("worker: %s: warm-up: %w", w.Job.Contender, failed)
	}
	return nil
}

// warm takes a free lock, and releases it. A contender may wait for such a lock
// (docs/peers.md): then it is cancelled and retried.
func warm(ctx context.Context, m contender.Mutex) error {
	for tries := 1; ; tries++ {
		// Some contenders derive the hold from the context, so that it must outlive Lock.
		try, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(5*time.Second, cancel)
		err := m.Lock(try)
		timer.Stop()
		late := try.Err() != nil
		if err == nil {
			err = m.Unlock()
		}
		cancel()
		if err == nil || !late || tries == 12 {
			return err
		}
	}
}

func (w *worker) name(lock int) string { return w.Prefix + ":" + strconv.Itoa(lock) }

// run does the job from begin on.
func (w *worker) run(begin time.Time) (Report, error) {
	end := begin.Add(w.Duration)
	time.Sleep(time.Until(begin))
	before := cpu()
	var done sync.WaitGroup
	w.running.Store(int64(w.Goroutines))
	for i := range w.Goroutines {
		done.Go(func() {
			defer w.running.Add(-1)
			w.goroutine(i, end)
		})
	}
	finished := make(chan struct{})
	go func() {
		done.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		if w.Kind == Hold {
			<-time.After(time.Until(end))
		}
	case <-time.After(time.Until(end)):
	}
	w.report.CPU = cpu() - before
	w.report.Elapsed = min(time.Since(begin), w.Duration)
	hung := w.drain(finished)
	if w.Kind == Hold {
		if err := w.giveBack(); err != nil {
			return Report{}, err
		}
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.report
	r.Stuck += hung
	r.Wait, r.Pair, r.Nested, r.Handover = w.wait.latency(), w.pair.latency(), w.nested.latency(), w.handover.latency()
	r.Turns = w.turns.latency()
	if r.Least == math.MaxInt64 {
		r.Least = 0
	}
	return r, nil
}

// drain lets waiting goroutines finish, and returns how many did not even return from a Lock
// whose context had ended.
func (w *worker) drain(finished <-chan struct{}) (hung int64) {
	began := time.Now()
	entered, progress := w.ground.Entered(), began
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return 0
		case now := <-tick.C:
			if n := w.ground.Entered(); n != entered {
				entered, progress = n, now
			}
			stalled := now.Sub(progress) > w.Stall
			if !stalled && now.Sub(began) < w.Drain {
				continue
			}
			w.cut.Store(!stalled)
			w.over.Store(true)
			w.cancel()
		}
		break
	}
	select {
	case <-finished:
		return 0
	case <-time.After(2 * time.Second):
		return w.running.Load()
	}
}

func (w *worker) goroutine(i int, end time.Time) {
	r := &runner{worker: w, index: i, end: end}
	r.wait, r.pair, r.nested, r.handover = w.wait.recorder(), w.pair.recorder(), w.nested.recorder(), w.handover.recorder()
	r.turns = w.turns.recorder()
	switch w.Kind {
	case Loop:
		r.loop()
	case Nest:
		r.nest()
	case Handover:
		r.takeTurns()
	}
	r.wait.flush()
	r.pair.flush()
	r.nested.flush()
	r.handover.flush()
	r.turns.flush()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Sections += r.sections
	w.report.Least = min(w.report.Least, r.sections)
	w.report.Most = max(w.report.Most, r.sections)
}

// failed counts an error of Lock or Unlock, and reports whether to go on. It takes a
// millisecond, so that a contender that fails at once does not do so a million times.
func (w *worker) failed(err error) (again bool) {
	time.Sleep(time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over.Load() {
		if w.cut.Load() {
			w.report.Cut++
		} else {
			w.report.Stuck++
		}
		return false
	}
	w.report.Failures++
	if w.report.FirstFailure == "" {
		w.report.FirstFailure = err.Error()
	}
	return true
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// A runner is one goroutine of a worker.
type runner struct {
	*worker
	index    int
	end      time.Time
	sections int64

	wait, pair, nested, handover, turns *recorder
}

// first is the lock with which the goroutine begins: neighbouring goroutines have
// neighbouring locks.
func (r *runner) first() int {
	return (r.Process*r.Goroutines + r.index) % r.Locks
}

// loop takes the lock again and again.
func (r *runner) loop() {
	lock := r.first()
	m, reader := r.client.Mutex(r.name(lock)), contender.Mutex(nil)
	if sharer, ok := r.client.(contender.Sharer); ok {
		reader = sharer.Reader(r.name(lock))
	}
	for {
		next, shared := m, reader != nil && rand.IntN(100) < r.Reads
		if shared {
			next = reader
		}
		if !r.section(next, lock, shared) || !r.rest() {
			return
		}
	}
}

// rest pauses between two sections, and reports whether there is time for another section.
func (r *runner) rest() bool {
	if r.Pause == 0 {
		return true
	}
	end := time.Now().Add(rand.N(r.Pause))
	if end.After(r.end) {
		return false
	}
	time.Sleep(time.Until(end))
	return true
}

// section is one Lock, section and Unlock, shared with other readers or not. It reports
// whether to go on.
func (r *runner) section(m contender.Mutex, lock int, shared bool) bool {
	before := r.ground.EnteredOf(lock)
	began := time.Now()
	err := m.Lock(r.ctx)
	got := time.Now()
	r.wait.record(got.Sub(began))
	if err != nil {
		return r.failed(err) && got.Before(r.end)
	}
	leave := r.ground.Leave
	if shared {
		leave = r.ground.Unshare
		r.overlap(r.ground.Share(lock))
	} else {
		r.enter(lock, began)
		r.turns.record(time.Duration(r.ground.EnteredOf(lock) - before))
	}
	r.spend(got)
	leave(lock)
	left := time.Now()
	err = m.Unlock()
	freed := time.Now()
	r.pair.record(got.Sub(began) + freed.Sub(left))
	if err != nil && !r.failed(err) {
		return false
	}
	if freed.After(r.end) {
		return false
	}
	r.sections++
	return true
}

func (r *runner) enter(lock int, since time.Time) {
	handover, overlaps := r.ground.Enter(lock, r.Process, since)
	if handover > 0 {
		r.handover.record(handover)
	}
	r.overlap(overlaps)
}

func (r *runner) overlap(overlaps bool) {
	if overlaps {
		r.mu.Lock()
		r.report.Overlaps++
		r.mu.Unlock()
	}
}

// longestSpin is the longest section that computes; a longer one waits for
// something else, as a query to a database does.
const longestSpin = 500 * time.Microsecond

// spend is the work of the section.
func (r *runner) spend(got time.Time) {
	switch {
	case r.Section == 0:
	case r.Section > longestSpin:
		time.Sleep(r.Section)
	default:
		for time.Since(got) < r.Section {
		}
	}
}

// nest takes one lock Depth times. Nested is the average of the pairs inside the
// outermost.
func (r *runner) nest() {
	lock := r.first()
	m := r.client.Mutex(r.name(lock))
	inner := r.Depth - 1
	for {
		began := time.Now()
		if err := m.Lock(r.ctx); err != nil {
			r.failed(err)
			return
		}
		got := time.Now()
		r.enter(lock, began)
		for range inner {
			if err := m.Lock(r.ctx); err != nil {
				r.failed(err)
				return
			}
		}
		for range inner {
			if err := m.Unlock(); err != nil {
				r.failed(err)
				return
			}
		}
		nested := time.Now()
		r.ground.Leave(lock)
		if err := m.Unlock(); err != nil && !r.failed(err) {
			return
		}
		freed := time.Now()
		r.wait.record(got.Sub(began))
		r.nested.record(nested.Sub(got) / time.Duration(inner))
		r.pair.record(freed.Sub(began))
		if freed.After(r.end) {
			return
		}
		r.sections++
	}
}

// In takeTurns each process waits for the lock only after another one has got it, so that
// every section is handed over from one process to another that waits, and none overtakes.
// Section must be long enough to begin to wait in.
func (r *runner) takeTurns() {
	const lock = 0
	m := r.client.Mutex(r.name(lock))
	for {
		for r.ground.Last(lock) == r.Process || r.ground.Last(lock) < 0 && r.Process > 0 {
			if time.Now().After(r.end) {
				return
			}
			time.Sleep(100 * time.Microsecond)
		}
		if !r.section(m, lock, false) {
			return
		}
	}
}
