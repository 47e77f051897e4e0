package waitqueue_test

import (
	"context"
	"testing"

	"github.com/go-rlock/rlock/waitqueue"
)

// BenchmarkJoinAndPass measures the queue alone, with a hundred waiters in line.
func BenchmarkJoinAndPass(b *testing.B) {
	var q waitqueue.Queue[int]
	for range 100 {
		q.Join(waitqueue.NewWaiter[int]())
	}
	b.ReportAllocs()
	for b.Loop() {
		w := q.Pass()
		w.Drain()
		q.Join(w)
	}
}

// BenchmarkHandOver passes a baton among a hundred goroutines: the upper bound for a lock
// that is built on the queue.
func BenchmarkHandOver(b *testing.B) {
	var baton baton
	b.SetParallelism(50)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = baton.take(context.Background())
			baton.give()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sections/s")
}
