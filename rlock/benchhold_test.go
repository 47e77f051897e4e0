//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock"
)

// BenchmarkHeld100k is what a hundred thousand held locks weigh, and what part of a
// core it takes to keep them: once round, all are renewed every two seconds, five
// times as often as with the default lease.
//
//	go test -run - -bench Held100k -benchtime 1x ./rlock
func BenchmarkHeld100k(b *testing.B) {
	const locks, lease = 100_000, 6 * time.Second
	option := benchOption(b)
	for b.Loop() {
		client, err := rlock.New(rlock.Config{Redis: option, Lease: lease})
		require.NoError(b, err)
		ctx := rlock.WithOwner(context.Background(), rlock.NewOwner())
		before := heap()
		held := make([]*rlock.Lock, locks)
		in64(locks, func(i int) {
			held[i] = client.NewLock(fmt.Sprint("held:", i))
			if err := held[i].Lock(ctx); err != nil {
				b.Errorf("Lock: %v", err)
			}
		})
		b.ReportMetric(float64(heap()-before-8*locks)/locks, "B/lock") // held is ours
		used, began := processorTime(), time.Now()
		time.Sleep(lease * 2 / 3)
		used = processorTime() - used
		b.ReportMetric(float64(used)/float64(time.Since(began))*float64(lease/3)/locks, "cpu-ns/renewal")
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

// processorTime returns what the process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
