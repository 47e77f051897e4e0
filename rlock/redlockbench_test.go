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

// BenchmarkRedLockBesideRaw compares Lock and Unlock over five servers with the lower bound:
// an EVALSHA at all five, twice, each until the third answer. Blocks of both take turns;
// x-raw is the ratio of the medians:
//
//	go test -run - -bench RedLockBesideRaw -benchtime 50x ./rlock
func BenchmarkRedLockBesideRaw(b *testing.B) {
	for _, away := range [][5]float64{{1, 2, 3, 4, 5}, {0.5, 0.5, 0.5, 0.5, 0.5}} {
		b.Run(fmt.Sprint(away, "ms"), func(b *testing.B) {
			var raw []rueidis.Client
			var clients []*rlock.Client
			for _, ms := range away {
				link, err := network.Listen(redistest.Standalone(b).Addr())
				require.NoError(b, err)
				b.Cleanup(link.Close)
				option := rueidis.ClientOption{InitAddress: []string{link.Addr()}, ForceSingleClient: true}
				raw = append(raw, rawClient(b, option))
				clients = append(clients, benchClient(b, option))
				link.SetRoundTrip(time.Duration(ms * float64(time.Millisecond)))
			}
			ctx, lock, pairs := context.Background(), rlock.NewRedLock(clients, "ours"), 0
			majority := func(script *rueidis.Lua, keys, args []string) {
				answers := make(chan error, len(raw))
				for _, client := range raw {
					go func() { answers <- script.Exec(ctx, client, keys, args).Error() }()
				}
				for range len(raw)/2 + 1 {
					if err := <-answers; err != nil && !rueidis.IsRedisNil(err) {
						b.Error(err)
					}
				}
			}
			block := func(pair func()) float64 {
				began := time.Now()
				for range 20 {
					pair()
				}
				return time.Since(began).Seconds()
			}
			var floor, ours []float64
			for b.Loop() {
				floor = append(floor, block(func() {
					pairs++ // each pair has a name of its own, since slow servers are not waited for
					name := fmt.Sprint("raw", pairs)
					keys := []string{name, "redisson_lock__channel:{" + name + "}"}
					majority(rawAcquire, keys[:1], []string{"30000", rawOwner})
					majority(rawRelease, keys, []string{rawOwner})
				}))
				ours = append(ours, block(func() {
					if err := lock.Lock(ctx); err != nil {
						b.Error("Lock:", err)
					}
					if err := lock.Unlock(ctx); err != nil {
						b.Error("Unlock:", err)
					}
				}))
			}
			slices.Sort(floor)
			slices.Sort(ours)
			n := len(ours)
			b.ReportMetric(ours[n/2]/floor[n/2], "x-raw-p50")
			b.ReportMetric(ours[n/2]/20*1000, "ms/pair")
		})
	}
}
