//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// BenchmarkMultiLock acquires a multi-lock of free names, Redis a millisecond away: the median of an acquire in
// milliseconds, and its commands.
//
//	go test -run - -bench MultiLock -benchtime 20x ./rlock
func BenchmarkMultiLock(b *testing.B) {
	for _, names := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprintf("names=%d", names), func(b *testing.B) {
			link, err := network.Listen(redistest.Standalone(b).Addr())
			require.NoError(b, err)
			b.Cleanup(link.Close)
			client := benchClient(b, rueidis.ClientOption{InitAddress: []string{link.Addr()}, ForceSingleClient: true})
			var locks []*rlock.Lock
			for i := range names {
				locks = append(locks, client.NewLock(fmt.Sprintf("many:%d:%d", names, i)))
			}
			all, ctx := rlock.NewMultiLock(locks...), context.Background()
			require.NoError(b, all.Lock(ctx)) // the scripts are known
			require.NoError(b, all.Unlock(ctx))
			link.SetRoundTrip(time.Millisecond)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				require.NoError(b, all.Lock(ctx))
				took = append(took, time.Since(began))
				require.NoError(b, all.Unlock(ctx))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/acquire")
		})
	}
}
