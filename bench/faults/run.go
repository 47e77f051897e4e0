package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/redistest"
)

// A run is one form under the faults of a scenario.
type run struct {
	form     form
	scenario scenario
	lease    time.Duration
	calm     time.Duration // before the faults
	time     time.Duration // of the faults
	random   *rand.Rand

	setting setting
	dataAt  place          // the resource
	data    rueidis.Client // there
	workers []*process
	said    *ledger
	ends    sync.WaitGroup // of faults
	faults  map[string]int
}

// A result is what the resource and the workers have noted.
type result struct {
	Scenario, Library, Form string
	Seconds                 float64
	Writes                  int // acknowledged
	Gone                    int // of them: not at the resource, since a primary took them with it
	Kept, Value             int // at the resource: writes, and the value
	LostUpdates             int // the difference: another holder has overwritten them
	Stale, Rejected         int
	Calm, PerSecond         float64 // acknowledged writes a second, before the faults and under them
	LongestGap              float64 // in seconds, under the faults
	Faults                  map[string]int
}

const workers = 6

// measure plays the run with servers of its own.
func (r *run) measure(ctx context.Context) (result, error) {
	r.faults, r.said, r.setting = make(map[string]int), newLedger(), r.scenario.make()
	defer r.setting.close()
	locks, err := r.setting.open()
	if err != nil {
		return result{}, err
	}
	r.dataAt = locks
	if r.form.Form != guarded {
		addr, stop, err := redistest.Redis()
		if err != nil {
			return result{}, err
		}
		defer stop()
		r.dataAt = place{Addrs: []string{addr}}
	}
	if r.data, err = r.dataAt.open(); err != nil {
		return result{}, err
	}
	defer r.data.Close()
	defer r.end()
	for i := range workers {
		way, err := r.setting.way(i)
		if err != nil {
			return result{}, err
		}
		p := &process{number: i, locks: way, said: r.said}
		if err := p.start(r); err != nil {
			return result{}, err
		}
		r.workers = append(r.workers, p)
	}
	if err := r.await(ctx); err != nil {
		return result{}, err
	}
	began, before := time.Now(), r.said.count()
	wait(ctx, r.calm)
	calm := float64(r.said.count()-before) / time.Since(began).Seconds()

	began = time.Now()
	before = r.said.begin(began)
	for n := 1; time.Since(began) < r.time && ctx.Err() == nil; {
		if what := r.setting.fault(ctx, r, n); what != "" {
			r.faults[what]++
			n++
		}
	}
	r.ends.Wait()
	got := result{Calm: calm, Seconds: time.Since(began).Seconds(), LongestGap: r.said.longest(time.Now()).Seconds()}
	got.PerSecond = float64(r.said.count()-before) / got.Seconds
	r.end()
	if err := r.judge(ctx, &got); err != nil {
		return result{}, err
	}
	return got, ctx.Err()
}

// await waits until each worker has written: a JVM starts slowly. One that does not get the lock is no error.
func (r *run) await(ctx context.Context) error {
	for until := time.Now().Add(30 * time.Second); r.said.heard() < workers && time.Now().Before(until); wait(ctx, 20*time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if r.said.count() == 0 {
		return fmt.Errorf("faults: %s, %s: no write in 30 s", r.form.Library, r.form.Form)
	}
	return nil
}

// holder returns the number of the worker that was the last to read.
func (r *run) holder(ctx context.Context) int {
	text, _ := r.data.Do(ctx, r.data.B().Hget().Key(resource[0]).Field("holder").Build()).ToString()
	number, _ := strconv.Atoi(text)
	return number % workers
}

// later ends a fault after one to two leases.
func (r *run) later(p *process, end func()) {
	long := r.lease + time.Duration(r.random.Int64N(int64(r.lease)))
	r.ends.Go(func() {
		time.Sleep(long)
		end()
		p.done()
	})
}

// check tells a failure that leaves the run as it is.
func (r *run) check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s, %s, %s: %v\n", r.scenario.name, r.form.Library, r.form.Form, err)
	}
}

// end ends all workers.
func (r *run) end() {
	var all sync.WaitGroup
	for _, p := range r.workers {
		all.Go(func() { p.End(3 * time.Second) })
	}
	all.Wait()
	r.workers = nil
}

// judge compares the acknowledged writes, those that the resource has executed, and the value.
func (r *run) judge(ctx context.Context, got *result) error {
	fields, err := r.data.Do(ctx, r.data.B().Hgetall().Key(resource[0]).Build()).AsStrMap()
	if err != nil {
		return err
	}
	kept, err := r.data.Do(ctx, r.data.B().Lrange().Key(resource[1]).Start(0).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return err
	}
	number := func(field string) int {
		n, _ := strconv.Atoi(fields[field])
		return n
	}
	got.Scenario, got.Library, got.Form, got.Faults = r.scenario.name, r.form.Library, r.form.Form, r.faults
	got.Writes, got.Gone, got.Kept, got.Value = r.said.count(), r.said.missing(kept), len(kept), number("v")
	got.LostUpdates, got.Stale, got.Rejected = got.Kept-got.Value, number("stale"), number("rejected")
	return nil
}
