//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// BenchmarkHandover passes a lock among 100 goroutines of one process. The time is that of
// one section.
func BenchmarkHandover(b *testing.B) {
	option := benchOption(b)
	b.Run("100 goroutines", func(b *testing.B) {
		lock := benchClient(b, option).NewLock(b.Name())
		inside := 0 // protected by the lock
		in(b, 100, func(int) func() {
			return func() {
				if err := lock.Lock(context.Background()); err != nil {
					b.Errorf("Lock: %v", err)
				}
				inside++
				if err := lock.Unlock(context.Background()); err != nil {
					b.Errorf("Unlock: %v", err)
				}
			}
		})
		b.StopTimer()
		require.Equal(b, b.N, inside)
	})
}

// BenchmarkFairHandOver has 8 clients with 16 goroutines each contend for a fair lock,
// half a millisecond away. It reports how many round trips pass from an Unlock to the
// next holder at the median, how many commands a section takes, and the smallest share
// of a client beside the largest.
func BenchmarkFairHandOver(b *testing.B) {
	const clients, each, roundTrip = 8, 16, 500 * time.Microsecond
	near := benchOption(b)
	far, err := network.Listen(near.InitAddress[0])
	require.NoError(b, err)
	b.Cleanup(far.Close)
	far.SetRoundTrip(roundTrip)
	option := rueidis.ClientOption{InitAddress: []string{far.Addr()}}
	observer := rawClient(b, near)
	var locks [clients]*rlock.Lock
	for i := range locks {
		client, err := rlock.New(rlock.Config{Redis: option, HandoffLimit: -1})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		locks[i] = client.NewFairLock(b.Name())
	}
	// Protected by the lock.
	var shares [clients]int
	var freed time.Time
	var latencies []time.Duration
	sections := 0
	run := func(limit int) {
		var workers sync.WaitGroup
		for i, lock := range locks {
			for range each {
				workers.Go(func() {
					for {
						if err := lock.Lock(context.Background()); err != nil {
							b.Error(err)
							return
						}
						if !freed.IsZero() {
							latencies = append(latencies, time.Since(freed))
						}
						shares[i]++
						sections++
						done := sections >= limit
						for begin := time.Now(); time.Since(begin) < 50*time.Microsecond; {
						}
						freed = time.Now()
						if err := lock.Unlock(context.Background()); err != nil {
							b.Error(err)
						}
						if done {
							return
						}
					}
				})
			}
		}
		workers.Wait()
	}
	run(2000) // all have queued once
	clear(shares[:])
	latencies, sections = latencies[:0], 0
	before := commands(b, observer)
	b.ResetTimer()
	run(b.N)
	b.StopTimer()
	slices.Sort(latencies)
	b.ReportMetric(float64(latencies[len(latencies)/2])/float64(roundTrip), "round-trips/hand-over")
	b.ReportMetric(float64(commands(b, observer)-before-1)/float64(sections), "commands/section")
	b.ReportMetric(float64(slices.Min(shares[:]))/float64(slices.Max(shares[:])), "min/max-share")
}

// BenchmarkReaders shares a read lock among 64 goroutines of one process, with empty sections
// and with sections of a millisecond. The time is that of one section divided by the number
// of concurrent sections; commands are all scripts that Redis executes.
func BenchmarkReaders(b *testing.B) {
	for name, section := range map[string]time.Duration{"empty": 0, "1 ms": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Standalone(b)
			lock := benchClient(b, server.Options()).NewReadWriteLock("readers").Read()
			calls := server.CountCalls(b, func() {
				in(b, 64, func(int) func() {
					return func() {
						if err := lock.Lock(context.Background()); err != nil {
							b.Errorf("Lock: %v", err)
						}
						time.Sleep(section)
						if err := lock.Unlock(context.Background()); err != nil {
							b.Errorf("Unlock: %v", err)
						}
					}
				})
				b.StopTimer()
			})
			b.ReportMetric(float64(calls["evalsha"]+calls["eval"])/float64(b.N), "commands/section")
		})
	}
}

// BenchmarkTold measures how soon the context of a hold ends after its key was deleted, or
// after another client has called ForceUnlock. The key is deleted by a plain Redis client;
// the time begins before the command is sent.
//
//	go test -run - -bench Told -benchtime 500x ./rlock
func BenchmarkTold(b *testing.B) {
	option := benchOption(b)
	outside, err := rueidis.NewClient(option)
	require.NoError(b, err)
	defer outside.Close()
	other, err := rlock.New(rlock.Config{Redis: option})
	require.NoError(b, err)
	defer other.Close()
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		config rlock.Config
		lose   func(name string) error
	}{
		{"DEL", rlock.Config{Redis: option}, func(name string) error {
			return outside.Do(ctx, outside.B().Del().Key(name).Build()).Error()
		}},
		{"ForceUnlock", rlock.Config{Redis: option}, func(name string) error {
			_, err := other.NewLock(name).ForceUnlock(ctx)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, err := rlock.New(c.config)
			require.NoError(b, err)
			defer client.Close()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprint("told:", i)
				hold, err := client.NewLock(name).Acquire(ctx)
				require.NoError(b, err)
				time.Sleep(80 * time.Millisecond) // until Redis tracks the key
				begin := time.Now()
				require.NoError(b, c.lose(name))
				<-hold.Context().Done()
				took = append(took, time.Since(begin))
				require.ErrorIs(b, hold.Release(ctx), rlock.ErrLost)
			}
			slices.Sort(took)
			at := func(percent int) float64 { return float64(took[len(took)*percent/100].Nanoseconds()) / 1000 }
			b.ReportMetric(at(50), "p50-us")
			b.ReportMetric(at(99), "p99-us")
		})
	}
}

// BenchmarkLinger is Lock and Unlock of a lock that lingers.
func BenchmarkLinger(b *testing.B) {
	server := redistest.Standalone(b)
	client, err := rlock.New(rlock.Config{Redis: server.Options(), Linger: time.Minute})
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	ctx := context.Background()
	lingering := func(b *testing.B, l *rlock.Lock) {
		for client.Stats().AcquiredByLinger == 0 {
			require.NoError(b, l.Lock(ctx))
			require.NoError(b, l.Unlock(ctx))
		}
	}
	b.Run("one name", func(b *testing.B) {
		l := client.NewLock(testbed.Key)
		lingering(b, l)
		before := client.Stats().Commands
		b.ReportAllocs()
		for b.Loop() {
			_ = l.Lock(ctx)
			_ = l.Unlock(ctx)
		}
		b.ReportMetric(float64(client.Stats().Commands-before)/float64(b.N), "commands/op")
	})
	b.Run("a name each", func(b *testing.B) {
		var names atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			l := client.NewLock(fmt.Sprint(testbed.Key, names.Add(1)))
			for p.Next() {
				_ = l.Lock(ctx)
				_ = l.Unlock(ctx)
			}
		})
	})
}
