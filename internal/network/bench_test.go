package network_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkRoundTrip measures the real round trip: p50-late and p99-late are the delays
// beyond the configured one, in microseconds.
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

// BenchmarkThroughput measures the bytes per second at a round trip of 2 ms.
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

// BenchmarkPipeline measures a batch of a Keeper, 128 scripts, there and back: the cost of
// parsing messages.
func BenchmarkPipeline(b *testing.B) {
	conn := dial(b, start(b, echo(b), 0))
	const command = "*9\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789012345678901234567890123456789\r\n$1\r\n2\r\n$9\r\norders:42\r\n" +
		"$34\r\nredisson_lock__channel:{orders:42}\r\n$5\r\n30000\r\n$38\r\n4ea0a2a4-6f6f-8f7c-9d5c-2d8a3f9f1b11:7\r\n$1\r\n1\r\n$0\r\n\r\n"
	batch := []byte(strings.Repeat(command, 128))
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		_, _ = conn.Write(batch)
		_, _ = io.ReadFull(conn, batch)
	}
}
