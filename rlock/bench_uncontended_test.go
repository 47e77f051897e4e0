//go:build unix

package rlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// BenchmarkUncontended is Lock and Unlock of a free lock: raw is the floor; background and
// cancellable differ in the context, since a cancellable Lock must be able to leave its
// command behind.
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
// rueidis, which serves a lone caller in the caller's goroutine. x-raw is the ratio of the
// medians, and of the tenth percentiles, over the blocks; it takes some 400 blocks to be
// meaningful:
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

// BenchmarkFencedBesidePlain measures the cost of tokens: blocks with a Lock and with a
// FencedLock take turns, as in BenchmarkBesideRaw. alone is Lock and Unlock of a free lock,
// crowd a lock that 100 goroutines pass around.
//
//	go test -run - -bench FencedBesidePlain -benchtime 400x ./rlock
func BenchmarkFencedBesidePlain(b *testing.B) {
	client := benchClient(b, benchOption(b))
	plain, fenced := client.NewLock("plain"), client.NewFencedLock("fenced")
	beside := func(b *testing.B, block func(b *testing.B, lock testbed.Locker)) {
		seconds := func(lock testbed.Locker) float64 {
			began := time.Now()
			block(b, lock)
			return time.Since(began).Seconds()
		}
		var without, with []float64
		for b.Loop() {
			without = append(without, seconds(plain))
			with = append(with, seconds(fenced))
		}
		slices.Sort(without)
		slices.Sort(with)
		n := len(with)
		b.ReportMetric(with[n/2]/without[n/2], "x-plain-p50")
		b.ReportMetric(with[n/10]/without[n/10], "x-plain-p10")
	}
	b.Run("alone", func(b *testing.B) {
		beside(b, func(b *testing.B, lock testbed.Locker) {
			for range 100 {
				lockPair(b, context.Background(), lock)
			}
		})
	})
	b.Run("crowd", func(b *testing.B) {
		beside(b, func(b *testing.B, lock testbed.Locker) {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					for range 1000 {
						lockPair(b, context.Background(), lock)
					}
				})
			}
			all.Wait()
		})
	})
}
