//go:build unix

package lease_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/lease"
)

const many = 100_000

// A kept is a minimal renewable.
type kept struct {
	entry lease.Entry
}

func (r *kept) Entry() *lease.Entry { return &r.entry }
func (r *kept) Group() uint32       { return 0 }
func (r *kept) Due(time.Time) bool  { return true }

// keepMany returns a keeper with a hundred thousand leases, due over ten seconds, an hour from now.
func keepMany(b *testing.B) *lease.Keeper {
	k := lease.NewKeeper(lease.Config{Send: none})
	b.Cleanup(k.Close)
	now := time.Now().Add(time.Hour)
	all := make([]kept, many)
	for i := range all {
		k.Schedule(&all[i], now.Add(time.Duration(i)*100*time.Microsecond))
	}
	return k
}

// BenchmarkStartStopWith100kPending measures the share of the watchdog in an uncontended lock and
// unlock.
func BenchmarkStartStopWith100kPending(b *testing.B) {
	k := keepMany(b)
	r := new(kept)
	at := time.Now().Add(10 * time.Second)
	b.ReportAllocs()
	for b.Loop() {
		k.Schedule(r, at)
		k.Stop(r)
	}
}

// BenchmarkMoveWith100kPending measures the work of the wheel for one renewal.
func BenchmarkMoveWith100kPending(b *testing.B) {
	k := keepMany(b)
	r := new(kept)
	at := time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(10 * time.Millisecond)
		k.Schedule(r, at)
	}
}

// BenchmarkBytesPerLease measures the memory of a lease in the wheel, including its entry, and the
// goroutines for a hundred thousand of them.
func BenchmarkBytesPerLease(b *testing.B) {
	for b.Loop() {
		var before, after runtime.MemStats
		goroutines := runtime.NumGoroutine()
		runtime.GC()
		runtime.ReadMemStats(&before)
		k := lease.NewKeeper(lease.Config{Send: none})
		at := time.Now().Add(time.Hour)
		all := make([]*kept, many)
		for i := range all {
			all[i] = new(kept)
			k.Schedule(all[i], at.Add(time.Duration(i)*100*time.Microsecond))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc-8*many)/many, "B/lease") // all belongs to the benchmark
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		runtime.KeepAlive(all)
		k.Close()
	}
}

// BenchmarkNudgeAlreadyNudged measures the nudge of a hand-off, of which there are millions a
// second; only one in a millisecond is sent.
func BenchmarkNudgeAlreadyNudged(b *testing.B) {
	block := make(chan struct{})
	k := lease.NewKeeper(lease.Config{Send: func(context.Context, uint32, []lease.Renewable) bool {
		<-block
		return true
	}})
	b.Cleanup(k.Close)
	b.Cleanup(func() { close(block) })
	r := new(kept)
	b.ReportAllocs()
	for b.Loop() {
		k.Nudge(r)
	}
}

// cpu returns the processor time that the process has used.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRenew100kHeld keeps a hundred thousand leases and renews each once a second, with a
// sender that only schedules the next renewal: the processor time of a renewal without its command.
// With a lease of 30 s ten thousand are due a second, which gives their share of a core.
func BenchmarkRenew100kHeld(b *testing.B) {
	const every = time.Second
	for b.Loop() {
		var n atomic.Int64
		var k *lease.Keeper
		done := make(chan struct{})
		k = lease.NewKeeper(lease.Config{Tick: 3 * time.Millisecond, Send: func(_ context.Context, _ uint32, batch []lease.Renewable) bool {
			next := time.Now().Add(every)
			for _, r := range batch {
				k.Schedule(r, next)
			}
			if sent := n.Add(int64(len(batch))); sent >= 2*many && sent-int64(len(batch)) < 2*many {
				close(done)
			}
			return true
		}})
		all := make([]kept, many)
		now := time.Now()
		for i := range all {
			k.Schedule(&all[i], now.Add(every+time.Duration(i)*every/many))
		}
		begin := cpu()
		<-done
		used := cpu() - begin
		k.Close()
		each := float64(used) / float64(n.Load())
		b.ReportMetric(each, "cpu-ns/renewal")
		b.ReportMetric(each*many/10/1e9*100, "%core@30s")
	}
}
