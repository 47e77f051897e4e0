// Command beside compares uncontended locks in one process, in turns:
//
//	go run ./beside                                  # a lone goroutine: Lock and Unlock
//	go run ./beside -goroutines 64                   # each with a lock of its own
//	go run ./beside -contenders rlock,floor-evalsha
//
// A round trip on one machine may take 27 µs for some seconds and 130 µs for the next, and is
// longer if the process has slept: figures of different processes say more about that than about
// the locks. So each round has a block of pairs of each contender, in a random order, and the
// ratio to the first contender is taken round by round.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/redistest"
)

var (
	names      = flag.String("contenders", "rlock,redislock-exp,redsync,rueidislock-1,floor-setnx,floor-evalsha", "the contenders, separated by commas; ratios are to the first")
	addr       = flag.String("addr", "", "the address of Redis; \"\" starts a redis-server")
	rounds     = flag.Int("rounds", 50, "the number of rounds")
	pairs      = flag.Int("pairs", 200, "the number of pairs in a block, of each goroutine")
	goroutines = flag.Int("goroutines", 1, "the number of goroutines, each with a lock of its own")
)

func main() {
	flag.Parse()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "beside:", err)
		os.Exit(1)
	}
}

// A side is one contender and its figures.
type side struct {
	contender.Contender
	client  contender.Client
	mutexes []contender.Mutex
	p10     []float64 // the 10th percentile of the pairs in each round, in µs
	p50     []float64
	rate    []float64 // the pairs a second of each round
	failed  error     // the error that has ended the measurement of this contender, or nil
	scripts float64   // the time that Redis spent on the commands of a pair, in µs
	bytes   float64   // the bytes that were sent for a pair
}

// run measures the contenders, and writes a table.
func run(ctx context.Context, out io.Writer) error {
	if *addr == "" {
		started, stop, err := redistest.Redis()
		if err != nil {
			return err
		}
		defer stop()
		*addr = started
	}
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{*addr}, DisableCache: true})
	if err != nil {
		return err
	}
	defer redis.Close()
	var sides []*side
	for name := range strings.SplitSeq(*names, ",") {
		c, err := contender.Find(name)
		if err != nil {
			return err
		}
		client, err := c.Open(contender.Config{Addr: *addr})
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		s := &side{Contender: c, client: client}
		for i := range *goroutines {
			s.mutexes = append(s.mutexes, client.Mutex(fmt.Sprintf("beside:%s:%d", name, i)))
		}
		if _, err := s.block(ctx); err != nil { // scripts are loaded, and connections are made
			return err
		}
		sides = append(sides, s)
	}
	for range *rounds {
		for _, i := range rand.Perm(len(sides)) {
			s := sides[i]
			if s.failed != nil {
				continue
			}
			before, err := usage(ctx, redis)
			if err != nil {
				return err
			}
			began := time.Now()
			took, err := s.block(ctx)
			if s.failed = err; err != nil {
				continue
			}
			n := float64(len(took))
			s.rate = append(s.rate, n/time.Since(began).Seconds())
			slices.Sort(took)
			s.p10, s.p50 = append(s.p10, micros(took[len(took)/10])), append(s.p50, micros(took[len(took)/2]))
			after, err := usage(ctx, redis)
			if err != nil {
				return err
			}
			s.scripts += (after.time - before.time) / n / float64(*rounds)
			s.bytes += (after.bytes - before.bytes) / n / float64(*rounds)
		}
	}
	fmt.Fprintf(out, "%d goroutines, %d rounds of %d pairs; medians of the rounds; the ratio is that of the p50\n\n", *goroutines, *rounds, *pairs)
	fmt.Fprintln(out, "| | p10, µs | p50, µs | p50, ratio | pairs/s | Redis' time, µs | bytes sent |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, s := range sides {
		if s.failed != nil {
			fmt.Fprintf(out, "| %s | failed in round %d: %v ||||||\n", s.Name, len(s.p50)+1, s.failed)
			continue
		}
		var ratios []float64
		for i := range min(len(s.p50), len(sides[0].p50)) {
			ratios = append(ratios, s.p50[i]/sides[0].p50[i])
		}
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.2f | %.0f | %.1f | %.0f |\n", s.Name, median(s.p10), median(s.p50), median(ratios), median(s.rate), s.scripts, s.bytes)
	}
	return nil
}

// patience is the time that a block may take: a waiter may never be woken, as happens to one of 64
// of rueidislock on a busy machine.
const patience = time.Minute

// block locks and unlocks each mutex again and again, in a goroutine of its own, and returns how
// long each pair took.
func (s *side) block(ctx context.Context) (took []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex // guards took and err
	for _, m := range s.mutexes {
		all.Go(func() {
			mine := make([]time.Duration, 0, *pairs)
			for range *pairs {
				began := time.Now()
				failed := m.Lock(ctx)
				if failed == nil {
					failed = m.Unlock()
				}
				if failed != nil {
					mu.Lock()
					err = cmp.Or(err, failed)
					mu.Unlock()
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	all.Wait()
	return took, err
}

// A use is what Redis has spent so far.
type use struct{ time, bytes float64 }

// usage asks for the time of all commands but INFO, in µs, and for the bytes that were received.
// The bytes of the question itself are some 100 a block.
func usage(ctx context.Context, redis rueidis.Client) (u use, err error) {
	info, err := redis.Do(ctx, redis.B().Info().Section("commandstats", "stats").Build()).ToString()
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch command, ok := strings.CutPrefix(name, "cmdstat_"); {
		case name == "total_net_input_bytes":
			u.bytes, _ = strconv.ParseFloat(value, 64)
		case ok && slices.Contains([]string{"evalsha", "eval", "set", "setnx", "fcall"}, command): // those of scripts are counted in them
			_, value, _ = strings.Cut(value, "usec=")
			value, _, _ = strings.Cut(value, ",")
			n, _ := strconv.ParseFloat(value, 64)
			u.time += n
		}
	}
	return u, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(values []float64) float64 {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
