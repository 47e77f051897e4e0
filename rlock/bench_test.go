//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/testbed"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// The benchmarks run against the Redis at REDIS_ADDR, or a redis-server of their own. Compare
// figures of one run only, with benchstat over several counts:
//
//	go test -run - -bench . -benchmem -count 10 ./rlock

// benchOption returns the connection options of the benchmarks; raw clients add the settings of
// rlock.
func benchOption(b *testing.B) rueidis.ClientOption {
	if addr := os.Getenv("REDIS_ADDR"); addr != "" {
		return rueidis.ClientOption{InitAddress: []string{addr}}
	}
	return redistest.Standalone(b).Options()
}

func benchClient(b *testing.B, option rueidis.ClientOption) *rlock.Client {
	client, err := rlock.New(rlock.Config{Redis: option})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	return client
}

// rawClient returns a rueidis client with the settings that rlock uses.
func rawClient(b *testing.B, option rueidis.ClientOption) rueidis.Client {
	option.DisableCache = true
	option.PipelineMultiplex = -1
	option.AlwaysPipelining = true
	option.ReadBufferEachConn, option.WriteBufferEachConn = 64<<10, 64<<10
	client, err := rueidis.NewClient(option)
	require.NoError(b, err)
	b.Cleanup(client.Close)
	return client
}

var (
	rawAcquire = rueidis.NewLuaScript(`if redis.call('exists', KEYS[1]) == 0 then
redis.call('hset', KEYS[1], ARGV[2], '1') redis.call('pexpire', KEYS[1], ARGV[1]) return nil end
return redis.call('pttl', KEYS[1])`)
	rawRelease = rueidis.NewLuaScript(`if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('publish', KEYS[2], '0') return 1`)
)

const rawOwner = "7d9f3b0e-54c4-4f0e-9a3b-2f1c6a5d8e90:42"

// rawPair is the lower bound: two EVALSHA in Redisson's format.
func rawPair(b *testing.B, client rueidis.Client, keys []string) {
	ctx := context.Background()
	err := rawAcquire.Exec(ctx, client, keys[:1], []string{"30000", rawOwner}).Error()
	if !rueidis.IsRedisNil(err) {
		b.Errorf("raw acquire: %v", err)
	}
	if err := rawRelease.Exec(ctx, client, keys, []string{rawOwner}).Error(); err != nil {
		b.Errorf("raw release: %v", err)
	}
}

func lockPair(b *testing.B, ctx context.Context, lock testbed.Locker) {
	if err := lock.Lock(ctx); err != nil {
		b.Errorf("Lock: %v", err)
	}
	if err := lock.Unlock(ctx); err != nil {
		b.Errorf("Unlock: %v", err)
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

func lockAndUnlock(b *testing.B, c *rlock.Client, name string, hold time.Duration) {
	l, ctx := c.NewLock(name), rlock.WithOwner(context.Background(), rlock.NewOwner())
	if err := l.Lock(ctx); err != nil {
		b.Errorf("Lock: %v", err)
	}
	time.Sleep(hold)
	if err := l.Unlock(ctx); err != nil {
		b.Errorf("Unlock: %v", err)
	}
}

// in64 calls do with each number below n, from 64 goroutines.
func in64(n int, do func(i int)) {
	done := make(chan struct{})
	for g := range 64 {
		go func() {
			for i := g; i < n; i += 64 {
				do(i)
			}
			done <- struct{}{}
		}()
	}
	for range 64 {
		<-done
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// figure returns a figure of INFO.
func figure(b *testing.B, redis rueidis.Client, section, name string) (n float64) {
	info, err := redis.Do(context.Background(), redis.B().Info().Section(section).Build()).ToString()
	require.NoError(b, err)
	_, rest, found := strings.Cut(info, name+":")
	require.True(b, found, name)
	_, err = fmt.Sscan(rest, &n)
	require.NoError(b, err)
	return n
}

// redisTime returns the processor time that the server has used.
func redisTime(b *testing.B, redis rueidis.Client) time.Duration {
	seconds := figure(b, redis, "cpu", "used_cpu_user") + figure(b, redis, "cpu", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second))
}

// processorTime returns the processor time that the process has used.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
