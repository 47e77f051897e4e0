package waitqueue_test

import (
	"testing"

	"github.com/go-rlock/rlock/waitqueue"
)

// BenchmarkJoinAndLeave measures the queue with a hundred waiters in line.
func BenchmarkJoinAndLeave(b *testing.B) {
	var q waitqueue.Queue[int]
	for range 100 {
		q.Join(&waitqueue.Waiter[int]{})
	}
	b.ReportAllocs()
	for b.Loop() {
		w := q.Head()
		q.Leave(w)
		q.Join(w)
	}
}
