package driver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/engine"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// The figures of a busy machine say little: so the two engines take turns, block by block, and the least of each is
// reported.
//
//	taskset -c 1 go test -run - -bench . -benchtime 400x ./rlock/internal/driver

// beside has two locks of one client in turn: of package engine, and of this one.
func beside(b *testing.B, config engine.Config, block func(l engine.Form)) {
	locks := benchLocks(b, config)
	var took [2][]float64
	for b.Loop() {
		for i, l := range locks {
			began := time.Now()
			block(l)
			took[i] = append(took[i], float64(time.Since(began).Nanoseconds()))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range [...]string{"engine", "driver"} {
		slices.Sort(took[i])
		b.ReportMetric(took[i][0]/blockSize, name+"-ns")
		b.ReportMetric(took[i][len(took[i])/4]/blockSize, name+"-p25-ns")
	}
	b.ReportMetric(took[1][0]/took[0][0], "x-least")
	b.ReportMetric(took[1][len(took[1])/4]/took[0][len(took[0])/4], "x-p25")
}

// blockSize is how many pairs a block has.
const blockSize = 1000

func benchClient(b testing.TB, config engine.Config) *Client {
	was := checks
	checks = nil
	b.Cleanup(func() { checks = was })
	config.Lease, config.HandoffLimit, config.HandoffTime = 30*time.Second, 100, 10*time.Millisecond
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	option := redistest.Standalone(b).Options()
	option.ForceSingleClient, option.DisableCache = true, true
	option.PipelineMultiplex, option.AlwaysPipelining = -1, true // as package rlock
	option.ConnWriteTimeout, option.Dialer.KeepAlive = 2*time.Second, time.Second
	id := wire.NewID()
	r, err := wire.Open(wire.Options{Redis: option}, id.Prefix)
	require.NoError(b, err)
	e := engine.New(config, r, id)
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	return New(e)
}

func benchLocks(b testing.TB, config engine.Config) [2]engine.Form {
	c := benchClient(b, config)
	old, own := engine.NewLock(c.engine, engine.PlainKind, "engine"), NewLock(c, engine.PlainKind, "driver")
	return [2]engine.Form{&old, &own}
}

func pair(b testing.TB, l engine.Form) { pairWith(context.Background(), b, l) }

func pairWith(ctx context.Context, b testing.TB, l engine.Form) {
	o := engine.Owner{ID: engine.GoroutineID()}
	if err := l.Take(ctx, engine.Request{Owner: o, Wait: engine.Forever}); err != nil {
		b.Error(err)
	}
	o = engine.Owner{ID: engine.GoroutineID()}
	if err := l.Unlock(ctx, o); err != nil {
		b.Error(err)
	}
}

func pairs(b testing.TB, l engine.Form) {
	for range blockSize {
		pair(b, l)
	}
}

// BenchmarkNested is a pair by the goroutine that holds the lock.
func BenchmarkNested(b *testing.B) {
	beside(b, engine.Config{}, func(l engine.Form) {
		o := engine.Owner{ID: engine.GoroutineID()}
		if l.Depth(o) == 0 {
			require.NoError(b, l.Take(context.Background(), request(o)))
			b.Cleanup(func() { _ = l.Unlock(context.Background(), o) })
		}
		pairs(b, l)
	})
}

// BenchmarkLingering is a pair of a lock that lingers.
func BenchmarkLingering(b *testing.B) {
	beside(b, engine.Config{Linger: time.Minute}, func(l engine.Form) { pairs(b, l) })
}

// BenchmarkUncontended is a pair of a free lock. The embedded server runs in the process.
func BenchmarkUncontended(b *testing.B) {
	beside(b, engine.Config{}, func(l engine.Form) { pairs(b, l) })
}

// BenchmarkHandOff passes a lock among 100 goroutines.
func BenchmarkHandOff(b *testing.B) {
	beside(b, engine.Config{}, func(l engine.Form) { crowd(b, l, 100, blockSize) })
}

func crowd(b testing.TB, l engine.Form, goroutines, sections int) {
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
	c := benchClient(b, engine.Config{})
	var took [2][]float64
	for b.Loop() {
		for i := range took {
			var all sync.WaitGroup
			began := time.Now()
			for j := range 64 {
				name := fmt.Sprint(i, ":", j)
				old, own := engine.NewLock(c.engine, engine.PlainKind, name), NewLock(c, engine.PlainKind, name)
				l := [...]engine.Form{&old, &own}[i]
				all.Go(func() {
					for range 50 {
						pair(b, l)
					}
				})
			}
			all.Wait()
			took[i] = append(took[i], float64(time.Since(began).Nanoseconds())/(64*50))
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range [...]string{"engine", "driver"} {
		slices.Sort(took[i])
		b.ReportMetric(took[i][0], name+"-ns")
		b.ReportMetric(took[i][len(took[i])/4], name+"-p25-ns")
	}
}

// BenchmarkCrowd serves so many callers, once each, that wait while one holds the lock.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{100, 10_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := benchClient(b, engine.Config{})
			old, own := engine.NewLock(c.engine, engine.PlainKind, "engine"), NewLock(c, engine.PlainKind, "driver")
			least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
			for b.Loop() {
				for i, l := range [...]engine.Form{&old, &own} {
					least[i] = min(least[i], serve(b, c, l, n))
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, name := range [...]string{"engine", "driver"} {
				b.ReportMetric(float64(least[i].Nanoseconds())/float64(n), name+"-ns")
			}
		})
	}
}

func serve(b *testing.B, c *Client, l engine.Form, n int) time.Duration {
	holder := engine.NewOwner()
	require.NoError(b, l.Take(context.Background(), request(holder)))
	var all sync.WaitGroup
	for range n {
		all.Go(func() { pair(b, l) })
	}
	for c.engine.Counts().Waiting < int64(n) {
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
	for i, name := range [...]string{"engine", "driver"} {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, engine.Config{})
			o := engine.NewOwner()
			used := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			locks := make([]engine.Form, n)
			for b.Loop() {
				before := used()
				var all sync.WaitGroup
				for j := range 64 {
					all.Go(func() {
						for k := j; k < n; k += 64 {
							name := fmt.Sprint("lock:", k)
							if i == 0 {
								l := engine.NewLock(c.engine, engine.PlainKind, name)
								locks[k] = &l
							} else {
								l := NewLock(c, engine.PlainKind, name)
								locks[k] = &l
							}
							assert.NoError(b, locks[k].Take(context.Background(), request(o)))
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
		})
	}
}

// BenchmarkAllocations is a pair of each sort of one engine alone.
func BenchmarkAllocations(b *testing.B) {
	for i, name := range [...]string{"engine", "driver"} {
		for _, linger := range []time.Duration{0, time.Minute} {
			b.Run(fmt.Sprint(name, "/", linger), func(b *testing.B) {
				l := benchLocks(b, engine.Config{Linger: linger})[i]
				b.ReportAllocs()
				for b.Loop() {
					pair(b, l)
				}
			})
		}
		b.Run(name+"/cancellable", func(b *testing.B) {
			l := benchLocks(b, engine.Config{})[i]
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				pairWith(ctx, b, l)
			}
		})
		b.Run(name+"/nested", func(b *testing.B) {
			l := benchLocks(b, engine.Config{})[i]
			o := engine.Owner{ID: engine.GoroutineID()}
			require.NoError(b, l.Take(context.Background(), request(o)))
			b.ReportAllocs()
			for b.Loop() {
				pair(b, l)
			}
			require.NoError(b, l.Unlock(context.Background(), o))
		})
	}
}
