package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// besideDefault are the contenders that are compared in one process unless others are named.
	besideDefault = "rlock,redislock-exp,redsync,rueidislock-1,floor-evalsha"
	// pairs is the number of pairs in a block, of each goroutine.
	pairs = 200
	// patience is the time that a block may take: a waiter may never be woken, as happens to one of
	// 64 of rueidislock on a busy machine.
	patience = time.Minute
)

// A side is one contender in this process, and its figures of each round.
type side struct {
	contender
	mutexes        []mutex
	p10, p50, rate []float64     // the quantiles of the pairs, in µs; pairs a second
	scripts        time.Duration // the time that Redis spent on the commands of all pairs
	bytes          int64         // the bytes that were sent for all pairs
	failed         error         // the error that has ended the measurement of this contender, or nil
}

// beside compares uncontended locks, and writes a table. A round trip on one machine may take 27 µs
// for some seconds and 130 µs for the next, and is longer if the process has slept: figures of
// different processes say more about that than about the locks. So each round has a block of pairs of
// each contender, in a random order, and the ratio to the first contender is taken round by round.
func beside(ctx context.Context, o options, out io.Writer) error {
	a, err := openArena(ctx, o.addr)
	if err != nil {
		return err
	}
	defer a.close()
	if len(o.contenders) == len(contenders()) {
		o.contenders, _ = named("contender", besideDefault, contenders())
	}
	var sides []*side
	for _, c := range o.contenders {
		opened, err := c.open(config{addrs: a.servers})
		if err != nil {
			return err
		}
		defer func() { _ = opened.close() }()
		s := &side{contender: c}
		for i := range o.goroutines {
			s.mutexes = append(s.mutexes, opened.mutex(fmt.Sprintf("beside:%s:%d", c.name, i)))
		}
		if _, err := s.block(ctx); err != nil { // scripts are loaded, and connections are made
			return err
		}
		sides = append(sides, s)
	}
	for range o.rounds {
		for _, i := range rand.Perm(len(sides)) {
			if err := sides[i].measure(ctx, a); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(out, "%d goroutines, %d rounds of %d pairs; medians of the rounds; the ratio is that of the p50\n\n", o.goroutines, o.rounds, pairs)
	fmt.Fprint(out, row("", "p10, µs", "p50, µs", "p50, ratio", "pairs/s", "Redis' time, µs", "bytes sent"), row(slices.Repeat([]string{"---"}, 7)...))
	for _, s := range sides {
		if s.failed != nil {
			fmt.Fprint(out, row(s.name, fmt.Sprintf("failed in round %d: %v", len(s.p50)+1, s.failed), "", "", "", "", ""))
			continue
		}
		var ratios []float64
		for i := range min(len(s.p50), len(sides[0].p50)) {
			ratios = append(ratios, s.p50[i]/sides[0].p50[i])
		}
		n := float64(o.rounds * pairs * o.goroutines)
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.2f | %.0f | %.1f | %.0f |\n", s.name,
			median(s.p10), median(s.p50), median(ratios), median(s.rate), micros(s.scripts)/n, float64(s.bytes)/n)
	}
	return nil
}

// measure adds a block.
func (s *side) measure(ctx context.Context, a *arena) error {
	if s.failed != nil {
		return nil
	}
	before, err := look(ctx, a.redis)
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := s.block(ctx)
	elapsed := time.Since(began)
	if s.failed = err; err != nil {
		return nil
	}
	after, err := look(ctx, a.redis)
	for _, command := range s.sends {
		s.scripts += after.times[command] - before.times[command]
	}
	s.bytes += after.bytes - before.bytes // look sends some 100 bytes itself
	slices.Sort(took)
	s.rate = append(s.rate, float64(len(took))/elapsed.Seconds())
	s.p10, s.p50 = append(s.p10, micros(took[len(took)/10])), append(s.p50, micros(took[len(took)/2]))
	return err
}

// block locks and unlocks each mutex again and again, in a goroutine of its own, and returns how long
// each pair took.
func (s *side) block(ctx context.Context) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex // guards took and err
	for _, m := range s.mutexes {
		all.Go(func() {
			mine := make([]time.Duration, 0, pairs)
			var failed error
			for failed == nil && len(mine) < pairs {
				began := time.Now()
				if failed = m.lock(ctx); failed == nil {
					failed = m.unlock()
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took, err = append(took, mine...), cmp.Or(err, failed)
		})
	}
	all.Wait()
	return took, err
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// row is a row of a table in Markdown.
func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
