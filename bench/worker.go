package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-rlock/rlock/internal/network"
)

// The benchmark starts itself, once for each process of a measurement, so that processes are real
// and the client CPU is the contender's. Redisson has a worker in Java, which speaks the same
// protocol and counts by the same rules; it does several jobs in turn.
//
//	benchmark                         worker
//	    | -- job, a line of JSON ------> |  opens a client, warms up, takes the locks to hold
//	    | <------------------- "ready" - |
//	    | -- when to begin ------------> |  runs until the time is up
//	    | -- "release" ----------------> |  (a job that holds locks)
//	    | <---- stats, a line of JSON -- |
//
// A section counts if it ended in the time of the job. After it no goroutine begins another wait,
// but running waits may finish, to distinguish a waiter that is never woken from one that waits:
//
//	waiting --> has the lock                                  its wait is recorded
//	   |------> the lock's own rules end the call             a failure
//	   +------> a second later: no process had a section      stuck: a lost wake-up
//	                            others have                   cut: its wait so far is recorded

// A job is the work of one process of a measurement.
type job struct {
	Contender, Kind string
	Addrs           []string      // see config
	Lease           time.Duration // 0: the contender's default
	Prefix          string        // of the names of locks
	Ground          string        // the file to map

	Process, Processes int // its number, from 0, and how many there are
	Goroutines         int // in this process
	Locks              int // names in use, by all processes together
	WarmUp             int // how often a JVM takes a lock before its first job

	Hold     bool          // take Locks locks, and keep them
	Turns    bool          // two processes take turns: each waits for the lock only after the other one has got it
	Section  time.Duration // how long the lock is held
	Pause    time.Duration // the longest pause after a section; each is a random part of it
	Reads    int           // percent of the sections that share the lock with other readers
	Depth    int           // how often a section takes the lock, at least once
	Duration time.Duration
}

// stats are what a worker has seen, and what a measurement sums up.
type stats struct {
	Sections                     int64
	CPU                          time.Duration // user and system
	Wait, Pair, Nested, Handover histogram     // of lock; lock and unlock; the same inside the lock; from another process's unlock to the lock
	Overlaps                     int64         // sections that began while another was under way
	Failures                     int64         // of lock and unlock
	FirstFailure                 string
	Stuck, Cut                   int64

	// Of held locks: the bytes of each, and the number of those whose unlock failed or did not return.
	Bytes      float64
	Lost, Kept int64
}

func (s *stats) add(other *stats) {
	s.Sections += other.Sections
	s.CPU += other.CPU
	s.Wait.add(&other.Wait)
	s.Pair.add(&other.Pair)
	s.Nested.add(&other.Nested)
	s.Handover.add(&other.Handover)
	s.Overlaps += other.Overlaps
	s.Failures += other.Failures
	s.FirstFailure = cmp.Or(s.FirstFailure, other.FirstFailure)
	s.Stuck += other.Stuck
	s.Cut += other.Cut
	s.Bytes += other.Bytes
	s.Lost += other.Lost
	s.Kept += other.Kept
}

// The variable of the environment that tells a process of the benchmark its role.
const (
	role        = "RLOCK_BENCH_ROLE"
	roleWorker  = "worker"
	roleNetwork = "network" // reads "host:port" and a round trip, writes its own address, ends with its input
)

// asRole runs the process in its role and exits. Without a role it returns at once.
func asRole() {
	var err error
	switch os.Getenv(role) {
	case "":
		return
	case roleNetwork:
		err = farAway(os.Stdin, os.Stdout)
	default:
		err = work(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func farAway(in io.Reader, out io.Writer) error {
	var target string
	var roundTrip time.Duration
	if _, err := fmt.Fscanln(in, &target, (*int64)(&roundTrip)); err != nil {
		return fmt.Errorf("bench: network: %w", err)
	}
	n, err := network.Listen(target)
	if err != nil {
		return err
	}
	defer n.Close()
	n.SetRoundTrip(roundTrip)
	fmt.Fprintln(out, n.Addr())
	_, _ = io.Copy(io.Discard, in)
	return nil
}

// work does one job.
func work(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Scan()
	w := &worker{}
	if err := json.Unmarshal(lines.Bytes(), &w.job); err != nil {
		return fmt.Errorf("bench: job: %w", err)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	defer w.cancel()
	c, err := find(w.Contender)
	if err == nil {
		w.ground, err = openGround(w.Ground, w.Locks)
	}
	if err == nil {
		w.client, err = c.open(config{w.Addrs, w.Lease})
	}
	if err == nil {
		err = w.warmUp()
	}
	var held *holds
	if err == nil && w.Hold {
		held, err = w.take()
	}
	if err != nil {
		return fmt.Errorf("bench: %s: %w", w.Contender, err)
	}
	fmt.Fprintln(out, "ready")
	var begin int64
	lines.Scan()
	if _, err := fmt.Sscan(lines.Text(), &begin); err != nil {
		return fmt.Errorf("bench: no time to begin: %w", err)
	}
	w.run(time.Unix(0, begin))
	if w.Hold {
		lines.Scan() // the benchmark has looked at them
		w.giveBack(held)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return json.NewEncoder(out).Encode(&w.stats)
}

// A worker is one process of a measurement.
type worker struct {
	job
	client *client
	ground *ground

	// ctx is the context of every lock; it ends when waiters have had their time.
	ctx    context.Context
	cancel context.CancelFunc
	over   atomic.Bool // waiters were left
	moving atomic.Bool // others had sections meanwhile

	mu    sync.Mutex // guards the field below: goroutines add their own when they end
	stats stats
}

func (w *worker) name(lock int) string { return fmt.Sprint(w.Prefix, ":", lock) }

// warmUp opens the connections that a client opens at first use, and loads the scripts. Its locks have
// names of their own. A contender may wait for such a lock all the same (docs/peers.md): then the call is
// cancelled and made again.
func (w *worker) warmUp() (failed error) {
	var all sync.WaitGroup
	for i := range max(1, min(w.Goroutines, 32)) {
		m := w.client.mutex(fmt.Sprintf("%s:warm:%d:%d", w.Prefix, w.Process, i))
		all.Go(func() {
			err := context.DeadlineExceeded
			for tries := 0; errors.Is(err, context.DeadlineExceeded) && tries < 12; tries++ {
				ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second) // some derive the hold from it
				if err = m.lock(ctx); err == nil {
					err = m.unlock()
				}
				cancel()
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	return failed
}

// run does the job from begin on, and lets running waits finish.
func (w *worker) run(begin time.Time) {
	end, each := begin.Add(w.Duration), make([]stats, w.Goroutines)
	time.Sleep(time.Until(begin))
	before := cpu()
	var done sync.WaitGroup
	var running atomic.Int64
	for i := range w.Goroutines {
		running.Add(1)
		done.Go(func() {
			defer running.Add(-1)
			w.loop(&each[i], (w.Process*w.Goroutines+i)%w.Locks, end)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stats.add(&each[i])
		})
	}
	finished := make(chan struct{})
	go func() {
		done.Wait()
		close(finished)
	}()
	time.Sleep(time.Until(end))
	w.mu.Lock()
	w.stats.CPU = cpu() - before
	w.mu.Unlock()
	within := func(d time.Duration) bool {
		select {
		case <-finished:
			return true
		case <-time.After(d):
			return false
		}
	}
	if within(100 * time.Millisecond) {
		return
	}
	entered := w.ground.entered()
	if within(time.Second) { // the longest sleep between two tries is 512 ms
		return
	}
	w.moving.Store(w.ground.entered() != entered)
	w.over.Store(true)
	w.cancel()
	if !within(2 * time.Second) { // some do not even return when their context ends
		w.mu.Lock()
		w.stats.Stuck += running.Load()
		w.mu.Unlock()
	}
}

// loop takes the lock again and again.
func (w *worker) loop(s *stats, lock int, end time.Time) {
	place, writer, reader := &w.ground.places[lock], w.client.mutex(w.name(lock)), mutex{}
	if w.client.reader != nil {
		reader = w.client.reader(w.name(lock))
	}
	for {
		for w.Turns && !place.turnOf(w.Process) {
			time.Sleep(100 * time.Microsecond)
			if time.Now().After(end) {
				return
			}
		}
		m, shared := writer, reader.lock != nil && rand.IntN(100) < w.Reads
		if shared {
			m = reader
		}
		if !w.section(s, m, place, shared, end) {
			return
		}
		if w.Pause > 0 {
			time.Sleep(min(rand.N(w.Pause), time.Until(end)))
			if !time.Now().Before(end) {
				return
			}
		}
	}
}

// section is one lock, section and unlock, shared with other readers or not. It reports whether to
// go on.
func (w *worker) section(s *stats, m mutex, p *place, shared bool, end time.Time) bool {
	began := time.Now()
	err := m.lock(w.ctx)
	got := time.Now()
	s.Wait.record(got.Sub(began))
	if err != nil {
		return w.failed(s, err) && got.Before(end)
	}
	if p.enter(shared) {
		s.Overlaps++
	}
	if !shared {
		if handover := p.takeOver(w.Process, began); handover > 0 {
			s.Handover.record(handover)
		}
	}
	if w.Depth > 1 && !w.nest(s, m) {
		return false
	}
	w.spend(got)
	p.leave(shared)
	left := time.Now()
	err = m.unlock()
	freed := time.Now()
	s.Pair.record(got.Sub(began) + freed.Sub(left))
	if err != nil && !w.failed(s, err) || freed.After(end) {
		return false
	}
	s.Sections++
	return true
}

// nest takes a lock that is held to the depth of the job, and notes the average of these pairs.
func (w *worker) nest(s *stats, m mutex) bool {
	began := time.Now()
	for range w.Depth - 1 {
		if err := m.lock(w.ctx); err != nil {
			return w.failed(s, err)
		}
	}
	for range w.Depth - 1 {
		if err := m.unlock(); err != nil {
			return w.failed(s, err)
		}
	}
	s.Nested.record(time.Since(began) / time.Duration(w.Depth-1))
	return true
}

// longestSpin is the longest section that computes; a longer one waits for something else, as a
// query to a database does.
const longestSpin = 500 * time.Microsecond

func (w *worker) spend(since time.Time) {
	if w.Section > longestSpin {
		time.Sleep(w.Section)
		return
	}
	for w.Section > 0 && time.Since(since) < w.Section {
	}
}

// failed counts an error of lock or unlock, and reports whether to go on. It takes a millisecond, which
// bounds the number of failures of a contender that fails at once.
func (w *worker) failed(s *stats, err error) (again bool) {
	time.Sleep(time.Millisecond)
	switch {
	case !w.over.Load():
		s.Failures++
		s.FirstFailure = cmp.Or(s.FirstFailure, err.Error())
	case w.moving.Load():
		s.Cut++
	default:
		s.Stuck++
	}
	return !w.over.Load()
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

const (
	holders       = 64               // goroutines that take the locks: for some contenders they must also release them
	takePatience  = 20 * time.Second // how long it may take to take all locks
	giveBackLimit = 5 * time.Second  // and to release them
)

// holds are the locks that a worker keeps.
type holds struct {
	release      chan struct{} // closed when they are to be released
	taken, given atomic.Int64
	done         sync.WaitGroup // of the holders
}

// take takes all locks and weighs them.
func (w *worker) take() (*holds, error) {
	h := &holds{release: make(chan struct{})}
	before := weigh()
	taken := make(chan error, holders)
	for i := range holders {
		h.done.Go(func() {
			var held []mutex
			var err error
			for lock := i; lock < w.Locks && err == nil; lock += holders {
				m := w.client.mutex(w.name(lock))
				if err = m.lock(w.ctx); err == nil {
					held = append(held, m)
					h.taken.Add(1)
				}
			}
			taken <- err
			<-h.release
			for _, m := range held {
				err := m.unlock()
				h.given.Add(1)
				if err != nil {
					w.mu.Lock()
					w.stats.Lost++
					w.stats.FirstFailure = err.Error()
					w.mu.Unlock()
				}
			}
		})
	}
	late := time.After(takePatience)
	for range holders {
		var err error
		select {
		case err = <-taken:
		case <-late:
			err = fmt.Errorf("a lock has not returned within %v", takePatience)
		}
		if err != nil {
			return nil, fmt.Errorf("took %d of %d free locks: %w", h.taken.Load(), w.Locks, err)
		}
	}
	w.stats.Bytes = float64(weigh()-before) / float64(w.Locks)
	return h, nil
}

// weigh returns the bytes of heap and stacks in use.
func weigh() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// giveBack releases as many locks as possible within its time.
func (w *worker) giveBack(h *holds) {
	close(h.release)
	given := make(chan struct{})
	go func() {
		h.done.Wait()
		close(given)
	}()
	select {
	case <-given:
	case <-time.After(giveBackLimit):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Kept = h.taken.Load() - h.given.Load()
}
