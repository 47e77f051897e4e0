//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// BenchmarkHeld100k measures the memory of a hundred thousand held locks and the share of a
// core that their renewals take, here and in Redis, without and with Config.Tracking. Every
// lock is renewed once in four seconds, two and a half times as often as with the default
// lease.
//
//	go test -run - -bench Held100k -benchtime 1x ./rlock
func BenchmarkHeld100k(b *testing.B) {
	for name, tracking := range map[string]bool{"plain": false, "tracking": true} {
		b.Run(name, func(b *testing.B) { benchmarkHeld(b, tracking) })
	}
}

func benchmarkHeld(b *testing.B, tracking bool) {
	const locks, lease = 100_000, 12 * time.Second
	option := benchOption(b)
	outside, err := rueidis.NewClient(option)
	require.NoError(b, err)
	defer outside.Close()
	for b.Loop() {
		client, err := rlock.New(rlock.Config{Redis: option, Lease: lease, Tracking: tracking})
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
