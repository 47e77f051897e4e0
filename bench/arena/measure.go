package arena

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/bench/scenario"
	"github.com/go-rlock/rlock/bench/worker"
	"github.com/go-rlock/rlock/internal/redistest"
)

const (
	// headStart is the time between the start command and the begin of the work.
	headStart = 20 * time.Millisecond
	// setUp is the longest that a worker may take to be ready: to take 100 000 locks at a
	// round trip of 2 ms takes some time.
	setUp = 2 * time.Minute
	// overtime is how late the report of a worker may be.
	overtime = time.Minute
)

// NewResult returns a result without any round.
func NewResult(cell scenario.Cell, c contender.Contender) *Result {
	return &Result{Scenario: cell.Scenario, Setting: cell.Setting, Network: cell.Network.Name, Contender: c.Name, Job: cell.Job}
}

// Measure adds a round of the contender in the cell to the result. An error is
// also noted in it.
func (a *Arena) Measure(ctx context.Context, cell scenario.Cell, c contender.Contender, r *Result) (err error) {
	began := time.Now()
	defer func() {
		r.Took += time.Since(began)
		if err != nil {
			r.Error, _, _ = strings.Cut(err.Error(), "\n")
		}
	}()
	way, err := a.network(ctx, 0, cell.Network)
	if err != nil {
		return err
	}
	r.RoundTrip = way.roundTrip
	job := cell.Job
	if cell.Pause > 0 {
		if r.RoundTrip, err = ping(ctx, way.addr, cell.Pause); err != nil {
			return err
		}
	}
	job.Contender, job.Lock, job.Addr = c.Name, string(c.Kind), way.addr
	job.Addrs = []string{way.addr}
	for i, n := range cell.Others {
		other, err := a.network(ctx, i+1, n)
		if err != nil {
			return err
		}
		job.Addrs = append(job.Addrs, other.addr)
	}
	job.Prefix = fmt.Sprintf("%s:%d", a.run, a.measured.Add(1))
	if job.Ground, err = worker.CreateGround(job.Locks); err != nil {
		return err
	}
	defer func() { _ = os.Remove(job.Ground) }()

	workers, program, err := a.ready(c, job)
	defer func() {
		if err == nil && c.Program != nil {
			a.idle[program] = append(a.idle[program], workers...)
			return
		}
		for _, w := range workers {
			w.End(5 * time.Second)
		}
	}()
	if err != nil {
		return err
	}
	before, err := look(ctx, a.redis)
	if err != nil {
		return err
	}
	begin := time.Now().Add(headStart)
	for _, w := range workers {
		if err := w.Tell(strconv.FormatInt(begin.UnixNano(), 10)); err != nil {
			return err
		}
	}
	if job.Kind == worker.Hold {
		a.watch(ctx, job, c, begin, r)
	}
	time.Sleep(time.Until(begin.Add(job.Duration)))
	after, err := look(ctx, a.redis)
	if err != nil {
		return err
	}
	if job.Kind == worker.Hold {
		if r.Gone, err = a.gone(ctx, job, c); err != nil {
			return err
		}
		for _, w := range workers {
			if err := w.Tell("release"); err != nil {
				return err
			}
		}
	}
	var reports []worker.Report
	for _, w := range workers {
		one, err := report(w, time.Until(begin)+job.Duration+job.Drain+overtime)
		if err != nil {
			return err
		}
		reports = append(reports, one)
	}
	return r.add(reports, after.since(before), c.Sends)
}

// ready starts the workers of a job, all at once, and returns when all are ready. program is
// the same for contenders' programs whose processes can do each other's jobs.
func (a *Arena) ready(c contender.Contender, job worker.Job) (workers []*redistest.Talk, program string, err error) {
	for job.Process = range job.Processes {
		w, command, failed := a.worker(c)
		if failed != nil {
			return workers, program, failed
		}
		workers, program = append(workers, w), command
		line, failed := json.Marshal(job)
		if failed == nil {
			failed = w.Tell(string(line))
		}
		if failed != nil {
			return workers, program, failed
		}
	}
	for _, w := range workers {
		if _, failed := w.Hear(setUp); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return workers, program, err
}

// worker returns a process that awaits a job. A program of a contender is started once for
// each process needed at a time, and does many jobs.
func (a *Arena) worker(c contender.Contender) (w *redistest.Talk, program string, err error) {
	start := c.Program
	if start == nil {
		start = func() (*exec.Cmd, error) { return redistest.Self(worker.Role + "=" + worker.RoleWorker) }
	}
	command, err := start()
	if err != nil {
		return nil, "", err
	}
	program = strings.Join(command.Args, " ")
	if idle := a.idle[program]; len(idle) > 0 {
		a.idle[program] = idle[1:]
		return idle[0], program, nil
	}
	w, err = redistest.Converse(command)
	return w, program, err
}

// report returns a worker's report.
func report(w *redistest.Talk, limit time.Duration) (r worker.Report, err error) {
	line, err := w.Hear(limit)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("arena: report: %w", err)
	}
	return r, nil
}

const (
	// watchEach and watched limit the looks to a thousand commands a second.
	watchEach = 500 * time.Millisecond
	watched   = 500
)

// watch looks at the leases of held locks, some at a time, until the window is
// nearly over, and notes the oldest.
func (a *Arena) watch(ctx context.Context, job worker.Job, c contender.Contender, begin time.Time, r *Result) {
	end := begin.Add(job.Duration - watchEach/2)
	time.Sleep(time.Until(begin))
	for next := 0; time.Now().Before(end); {
		var asks []rueidis.Completed
		for range min(watched, job.Locks) {
			asks = append(asks, a.redis.B().Pttl().Key(c.Key(job.Prefix+":"+strconv.Itoa(next))).Build())
			next = (next + 1) % job.Locks
		}
		for _, answer := range a.redis.DoMulti(ctx, asks...) {
			if ms, err := answer.AsInt64(); err == nil && ms >= 0 {
				age := job.Lease - time.Duration(ms)*time.Millisecond
				r.Latest = max(r.Latest, age.Seconds()/job.Lease.Seconds())
			}
		}
		time.Sleep(min(watchEach, max(0, time.Until(end))))
	}
}

// gone returns how many of the held locks have no key in Redis.
func (a *Arena) gone(ctx context.Context, job worker.Job, c contender.Contender) (n int64, err error) {
	for first := 0; first < job.Locks; first += 1000 {
		var asks []rueidis.Completed
		for lock := first; lock < min(first+1000, job.Locks); lock++ {
			asks = append(asks, a.redis.B().Exists().Key(c.Key(job.Prefix+":"+strconv.Itoa(lock))).Build())
		}
		for _, answer := range a.redis.DoMulti(ctx, asks...) {
			exists, err := answer.AsInt64()
			if err != nil {
				return n, fmt.Errorf("arena: held locks: %w", err)
			}
			n += 1 - exists
		}
	}
	return n, nil
}

// A snapshot is the work of Redis so far.
type snapshot struct {
	calls map[string]int64         // of each command
	times map[string]time.Duration // their time; a script's includes its commands'
	cpu   time.Duration
}

func look(ctx context.Context, redis rueidis.Client) (snapshot, error) {
	s := snapshot{calls: make(map[string]int64), times: make(map[string]time.Duration)}
	for _, section := range []string{"commandstats", "cpu"} {
		info, err := redis.Do(ctx, redis.B().Info().Section(section).Build()).ToString()
		if err != nil {
			return s, fmt.Errorf("arena: INFO %s: %w", section, err)
		}
		for line := range strings.Lines(info) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if command, ok := strings.CutPrefix(key, "cmdstat_"); ok {
				var micros int64
				s.calls[command], micros, err = parseStat(value)
				s.times[command] = time.Duration(micros) * time.Microsecond
			}
			if key == "used_cpu_sys" || key == "used_cpu_user" {
				var seconds float64
				seconds, err = strconv.ParseFloat(value, 64)
				s.cpu += time.Duration(seconds * float64(time.Second))
			}
			if err != nil {
				return s, fmt.Errorf("arena: INFO %s: %q: %w", section, line, err)
			}
		}
	}
	return s, nil
}

// parseStat reads the beginning of a line of INFO commandstats: "calls=1,usec=2,...".
func parseStat(value string) (calls, micros int64, err error) {
	_, err = fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &micros)
	return calls, micros, err
}

// since returns the work between before and s.
func (s snapshot) since(before snapshot) snapshot {
	d := snapshot{calls: make(map[string]int64), times: make(map[string]time.Duration), cpu: s.cpu - before.cpu}
	for command, calls := range s.calls {
		if n := calls - before.calls[command]; n > 0 {
			d.calls[command] = n
			d.times[command] = s.times[command] - before.times[command]
		}
	}
	return d
}
