package proxy_test

import (
	"io"
	"slices"
	"testing"
	"time"
)

// BenchmarkRoundTrip measures what a round trip really takes: p50-late and
// p99-late are how much longer than asked for, in microseconds.
func BenchmarkRoundTrip(b *testing.B) {
	for _, asked := range []time.Duration{0, 500 * time.Microsecond, 2 * time.Millisecond} {
		b.Run(asked.String(), func(b *testing.B) {
			conn := dial(b, start(b, echo(b), asked))
			late := make([]time.Duration, 0, b.N)
			var one [1]byte
			for b.Loop() {
				began := time.Now()
				_, _ = conn.Write(one[:])
				_, _ = io.ReadFull(conn, one[:])
				late = append(late, time.Since(began)-asked)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Nanoseconds())/1e3, "p50-late-us")
			b.ReportMetric(float64(late[len(late)*99/100].Nanoseconds())/1e3, "p99-late-us")
		})
	}
}

// BenchmarkThroughput is how many bytes a second pass at a round trip of 2 ms.
func BenchmarkThroughput(b *testing.B) {
	conn := dial(b, start(b, echo(b), 2*time.Millisecond))
	block := make([]byte, 64<<10)
	b.SetBytes(int64(len(block)))
	go func() {
		for {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	}()
	for b.Loop() {
		_, _ = io.ReadFull(conn, block)
	}
}
