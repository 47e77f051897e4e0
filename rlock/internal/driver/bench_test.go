package driver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/terms"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The figures of a busy machine say little: so work is done in blocks, and the least and the first quartile of their
// times are reported. To compare two commits, build the test in both and run it in turn.
//
//	taskset -c 1 go test -run - -bench . -benchtime 400x ./rlock/internal/driver

// blocks measures a block with a lock of a new client.
func blocks(b *testing.B, config Config, block func(l *Lock)) {
	l := benchLock(b, config)
	var took []float64
	for b.Loop() {
		began := time.Now()
		block(l)
		took = append(took, float64(time.Since(began).Nanoseconds()))
	}
	report(b, took, blockSize)
}

// report reports blocks of n pairs.
func report(b *testing.B, took []float64, n float64) {
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[0]/n, "least-ns")
	b.ReportMetric(took[len(took)/4]/n, "p25-ns")
}

// blockSize is how many pairs a block has.
const blockSize = 1000

func benchClient(b testing.TB, config Config) *Client {
	was := CheckRules(false)
	b.Cleanup(func() { CheckRules(was) })
	config.Lease, config.HandoffLimit, config.HandoffTime = 30*time.Second, 100, 10*time.Millisecond
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	option := redistest.Standalone(b).Options()
	option.ForceSingleClient, option.DisableCache = true, true
	option.PipelineMultiplex, option.AlwaysPipelining = -1, true // as package rlock
	option.ConnWriteTimeout, option.Dialer.KeepAlive = 2*time.Second, time.Second
	id := wire.NewID()
	r, err := wire.Open(wire.Options{Redis: option}, id.Prefix)
	require.NoError(b, err)
	c := New(config, r, id)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

func benchLock(b testing.TB, config Config) *Lock {
	l := NewLock(benchClient(b, config), PlainKind, "driver")
	return &l
}

func pair(b testing.TB, l *Lock) { pairWith(context.Background(), b, l) }

func pairWith(ctx context.Context, b testing.TB, l *Lock) {
	o := terms.Owner{ID: terms.GoroutineID()}
	if err := l.Take(ctx, Request{Owner: o, Wait: terms.Forever}); err != nil {
		b.Error(err)
	}
	o = terms.Owner{ID: terms.GoroutineID()}
	if err := l.Unlock(ctx, o); err != nil {
		b.Error(err)
	}
}

func pairs(b testing.TB, l *Lock) {
	for range blockSize {
		pair(b, l)
	}
}

// BenchmarkNested is a pair by the goroutine that holds the lock.
func BenchmarkNested(b *testing.B) {
	blocks(b, Config{}, func(l *Lock) {
		o := terms.Owner{ID: terms.GoroutineID()}
		if l.Depth(o) == 0 {
			require.NoError(b, l.Take(context.Background(), request(o)))
			b.Cleanup(func() { _ = l.Unlock(context.Background(), o) })
		}
		pairs(b, l)
	})
}

// BenchmarkUncontended is a pair of a free lock. The embedded server runs in the process.
func BenchmarkUncontended(b *testing.B) {
	blocks(b, Config{}, func(l *Lock) { pairs(b, l) })
}

// BenchmarkHandOff passes a lock among 100 goroutines.
func BenchmarkHandOff(b *testing.B) {
	blocks(b, Config{}, func(l *Lock) { crowd(b, l, 100, blockSize) })
}

func crowd(b testing.TB, l *Lock, goroutines, sections int) {
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(sections))
	for range goroutines {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				pair(b, l)
			}
		})
	}
	all.Wait()
}

// BenchmarkUncontended64 is a pair by each of 64 goroutines, with a free lock of its own.
func BenchmarkUncontended64(b *testing.B) {
	c := benchClient(b, Config{})
	var took []float64
	for b.Loop() {
		var all sync.WaitGroup
		began := time.Now()
		for j := range 64 {
			l := NewLock(c, PlainKind, fmt.Sprint(j))
			all.Go(func() {
				for range 50 {
					pair(b, &l)
				}
			})
		}
		all.Wait()
		took = append(took, float64(time.Since(began).Nanoseconds()))
	}
	report(b, took, 64*50)
}

// BenchmarkCrowd serves so many callers, once each, that wait while one holds the lock.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{100, 10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := benchLock(b, Config{})
			var took []float64
			for b.Loop() {
				took = append(took, float64(serve(b, l, n).Nanoseconds()))
			}
			report(b, took, float64(n))
		})
	}
}

func serve(b *testing.B, l *Lock, n int) time.Duration {
	holder := terms.NewOwner()
	require.NoError(b, l.Take(context.Background(), request(holder)))
	var all sync.WaitGroup
	for range n {
		all.Go(func() { pair(b, l) })
	}
	for counts := l.driver.Counts(); counts.Waiting < int64(n); counts = l.driver.Counts() {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	require.NoError(b, l.Unlock(context.Background(), holder))
	all.Wait()
	return time.Since(began)
}

// BenchmarkMemory is what a lock takes that is held.
func BenchmarkMemory(b *testing.B) {
	const n = 100_000
	c := benchClient(b, Config{})
	o := terms.NewOwner()
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	locks := make([]*Lock, n)
	for b.Loop() {
		before := used()
		var all sync.WaitGroup
		for j := range 64 {
			all.Go(func() {
				for k := j; k < n; k += 64 {
					l := NewLock(c, PlainKind, fmt.Sprint("lock:", k))
					locks[k] = &l
					assert.NoError(b, l.Take(context.Background(), request(o)))
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(used()-before)/n, "B/lock")
		for _, l := range locks {
			require.NoError(b, l.Unlock(context.Background(), o))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAllocations is a pair of each sort.
func BenchmarkAllocations(b *testing.B) {
	lock := func(b *testing.B, config Config) *Lock {
		b.ReportAllocs()
		return benchLock(b, config)
	}
	b.Run("uncontended", func(b *testing.B) {
		l := lock(b, Config{})
		for b.Loop() {
			pair(b, l)
		}
	})
	b.Run("cancellable", func(b *testing.B) {
		l := lock(b, Config{})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for b.Loop() {
			pairWith(ctx, b, l)
		}
	})
	b.Run("nested", func(b *testing.B) {
		l := lock(b, Config{})
		o := terms.Owner{ID: terms.GoroutineID()}
		require.NoError(b, l.Take(context.Background(), request(o)))
		for b.Loop() {
			pair(b, l)
		}
		require.NoError(b, l.Unlock(context.Background(), o))
	})
}
