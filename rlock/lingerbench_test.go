package rlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

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
		l := client.NewLock(key)
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
			l := client.NewLock(fmt.Sprint(key, names.Add(1)))
			for p.Next() {
				_ = l.Lock(ctx)
				_ = l.Unlock(ctx)
			}
		})
	})
}
