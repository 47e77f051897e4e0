//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// BenchmarkUncontended is Lock and Unlock of a free lock: raw is the floor; background and
// cancellable differ in the context, since a cancellable Lock must be able to leave its command
// behind.
func BenchmarkUncontended(b *testing.B) {
	option := benchOption(b)
	b.Run("raw", func(b *testing.B) {
		client := rawClient(b, option)
		keys := []string{b.Name(), "redisson_lock__channel:{" + b.Name() + "}"}
		b.ReportAllocs()
		for b.Loop() {
			rawPair(b, client, keys)
		}
	})
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

// BenchmarkBesideRaw compares rlock with two floors: blocks of raw pairs and of Lock and Unlock
// take turns, since a round trip on one machine may take 30 us in one second and 130 us in the
// next. pipelined is a client with the settings of rlock, direct is one with the defaults of
// rueidis, which serves a lone caller in the caller's goroutine. x-raw is the ratio of the medians,
// and of the tenth percentiles, over the blocks; it takes some 400 blocks to be meaningful:
//
//	go test -run - -bench BesideRaw -benchtime 400x ./rlock
func BenchmarkBesideRaw(b *testing.B) {
	option := benchOption(b)
	b.Run("pipelined", func(b *testing.B) { besideRaw(b, option, rawClient(b, option)) })
	b.Run("direct", func(b *testing.B) {
		defaults := option
		defaults.DisableCache = true
		client, err := rueidis.NewClient(defaults)
		require.NoError(b, err)
		b.Cleanup(client.Close)
		besideRaw(b, option, client)
	})
}

func besideRaw(b *testing.B, option rueidis.ClientOption, raw rueidis.Client) {
	lock := benchClient(b, option).NewLock("ours")
	keys := []string{"raw", "redisson_lock__channel:{raw}"}
	block := func(pair func()) float64 {
		began := time.Now()
		for range 100 {
			pair()
		}
		return time.Since(began).Seconds()
	}
	var floor, ours []float64
	for b.Loop() {
		floor = append(floor, block(func() { rawPair(b, raw, keys) }))
		ours = append(ours, block(func() { lockPair(b, context.Background(), lock) }))
	}
	slices.Sort(floor)
	slices.Sort(ours)
	n := len(ours)
	b.ReportMetric(ours[n/2]/floor[n/2], "x-raw-p50")
	b.ReportMetric(ours[n/10]/floor[n/10], "x-raw-p10")
}

// BenchmarkMultiLock acquires a multi-lock of free names, Redis a millisecond away: the median of
// an acquire in milliseconds, and its commands.
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
