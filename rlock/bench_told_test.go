//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// BenchmarkTold measures how soon the context of a hold ends after its key was deleted, or
// after another client has called ForceUnlock. The key is deleted by a plain Redis client;
// the time begins before the command is sent.
//
//	go test -run - -bench Told -benchtime 500x ./rlock
func BenchmarkTold(b *testing.B) {
	option := benchOption(b)
	outside, err := rueidis.NewClient(option)
	require.NoError(b, err)
	defer outside.Close()
	other, err := rlock.New(rlock.Config{Redis: option})
	require.NoError(b, err)
	defer other.Close()
	ctx := context.Background()
	for _, c := range []struct {
		name   string
		config rlock.Config
		lose   func(name string) error
	}{
		{"DEL", rlock.Config{Redis: option}, func(name string) error {
			return outside.Do(ctx, outside.B().Del().Key(name).Build()).Error()
		}},
		{"ForceUnlock", rlock.Config{Redis: option}, func(name string) error {
			_, err := other.NewLock(name).ForceUnlock(ctx)
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, err := rlock.New(c.config)
			require.NoError(b, err)
			defer client.Close()
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprint("told:", i)
				hold, err := client.NewLock(name).Acquire(ctx)
				require.NoError(b, err)
				time.Sleep(80 * time.Millisecond) // until Redis tracks the key
				begin := time.Now()
				require.NoError(b, c.lose(name))
				<-hold.Context().Done()
				took = append(took, time.Since(begin))
				require.ErrorIs(b, hold.Release(ctx), rlock.ErrLost)
			}
			slices.Sort(took)
			at := func(percent int) float64 { return float64(took[len(took)*percent/100].Nanoseconds()) / 1000 }
			b.ReportMetric(at(50), "p50-us")
			b.ReportMetric(at(99), "p99-us")
		})
	}
}
