//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// The benchmarks run against the Redis at REDIS_ADDR, or a redis-server of their own. Compare
// figures of one run only, with benchstat over several counts:
//
//	go test -run - -bench . -benchmem -count 10 ./rlock

// benchOption returns the connection options of the benchmarks.
func benchOption(b *testing.B) rueidis.ClientOption {
	if addr := os.Getenv("REDIS_ADDR"); addr != "" {
		return rueidis.ClientOption{InitAddress: []string{addr}}
	}
	return redistest.Standalone(b).Options()
}

func benchClient(b *testing.B, option rueidis.ClientOption) *rlock.Client {
	client, err := rlock.New(rlock.Config{Redis: option})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	return client
}

// outsider returns a client for other commands than those of locks.
func outsider(b *testing.B, option rueidis.ClientOption) rueidis.Client {
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	require.NoError(b, err)
	b.Cleanup(client.Close)
	return client
}

func lockPair(b *testing.B, ctx context.Context, lock *rlock.Lock) {
	if err := lock.Lock(ctx); err != nil {
		b.Errorf("Lock: %v", err)
	}
	if err := lock.Unlock(ctx); err != nil {
		b.Errorf("Unlock: %v", err)
	}
}

// in64 calls do with each number below n, from 64 goroutines.
func in64(n int, do func(i int)) {
	done := make(chan struct{})
	for g := range 64 {
		go func() {
			for i := g; i < n; i += 64 {
				do(i)
			}
			done <- struct{}{}
		}()
	}
	for range 64 {
		<-done
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// figure returns a figure of INFO.
func figure(b *testing.B, redis rueidis.Client, section, name string) (n float64) {
	info, err := redis.Do(context.Background(), redis.B().Info().Section(section).Build()).ToString()
	require.NoError(b, err)
	_, rest, found := strings.Cut(info, name+":")
	require.True(b, found, name)
	_, err = fmt.Sscan(rest, &n)
	require.NoError(b, err)
	return n
}

// redisTime returns the processor time that the server has used.
func redisTime(b *testing.B, redis rueidis.Client) time.Duration {
	seconds := figure(b, redis, "cpu", "used_cpu_user") + figure(b, redis, "cpu", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second))
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkUncontended is Lock and Unlock of a free lock: background and cancellable differ in the
// context, since a cancellable Lock must be able to leave its command behind. The module bench
// compares pairs with raw commands.
func BenchmarkUncontended(b *testing.B) {
	option := benchOption(b)
	b.Run("background", func(b *testing.B) {
		lock := benchClient(b, option).NewLock(b.Name())
		b.ReportAllocs()
		for b.Loop() {
			lockPair(b, context.Background(), lock)
		}
	})
	b.Run("cancellable", func(b *testing.B) {
		lock := benchClient(b, option).NewLock(b.Name())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.ReportAllocs()
		for b.Loop() {
			lockPair(b, ctx, lock)
		}
	})
}

// BenchmarkHeld100k measures the memory of a hundred thousand held locks and the share of a core
// that their renewals take, here and in Redis. Every lock is renewed once in four seconds, two and
// a half times as often as with the default lease.
//
//	go test -run - -bench Held100k -benchtime 1x ./rlock
func BenchmarkHeld100k(b *testing.B) {
	const locks, lease = 100_000, 12 * time.Second
	option := benchOption(b)
	outside := outsider(b, option)
	for b.Loop() {
		client, err := rlock.New(rlock.Config{Redis: option, Lease: lease})
		require.NoError(b, err)
		ctx := rlock.WithOwner(context.Background(), rlock.NewOwner())
		before, redisBefore := heap(), figure(b, outside, "memory", "used_memory")
		held := make([]*rlock.Lock, locks)
		in64(locks, func(i int) {
			held[i] = client.NewLock(fmt.Sprint("held:", i))
			if err := held[i].Lock(ctx); err != nil {
				b.Errorf("Lock: %v", err)
			}
		})
		b.ReportMetric(float64(heap()-before-8*locks)/locks, "B/lock") // held belongs to the benchmark
		b.ReportMetric((figure(b, outside, "memory", "used_memory")-redisBefore)/locks, "redis-B/lock")
		used, redisUsed, began := processorTime(), redisTime(b, outside), time.Now()
		time.Sleep(lease * 2 / 3)
		used, redisUsed = processorTime()-used, redisTime(b, outside)-redisUsed
		renewal := float64(lease/3) / float64(time.Since(began)) / locks
		b.ReportMetric(float64(used)*renewal, "cpu-ns/renewal")
		b.ReportMetric(float64(redisUsed)*renewal, "redis-ns/renewal")
		in64(locks, func(i int) {
			if err := held[i].Unlock(ctx); err != nil {
				b.Errorf("Unlock: %v", err)
			}
		})
		require.NoError(b, client.Close())
	}
}

// BenchmarkTold measures how soon the context of a hold ends after its key was deleted, or after
// another client has called ForceUnlock. The key is deleted by a plain Redis client; the time
// begins before the command is sent.
//
//	go test -run - -bench Told -benchtime 500x ./rlock
func BenchmarkTold(b *testing.B) {
	option := benchOption(b)
	outside := outsider(b, option)
	other := benchClient(b, option)
	ctx := context.Background()
	client := benchClient(b, option)
	for name, lose := range map[string]func(name string) error{
		"DEL":         func(name string) error { return outside.Do(ctx, outside.B().Del().Key(name).Build()).Error() },
		"ForceUnlock": func(name string) error { return testbed.ErrorOf(other.NewLock(name).ForceUnlock(ctx)) },
	} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprint("told:", i)
				hold, err := client.NewLock(name).Acquire(ctx)
				require.NoError(b, err)
				time.Sleep(80 * time.Millisecond) // until Redis tracks the key
				begin := time.Now()
				require.NoError(b, lose(name))
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
