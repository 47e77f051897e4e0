//go:build unix

package rlock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
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

// BenchmarkHeld100k measures the memory of a hundred thousand held locks and the share of a core
// that their renewals take, here and in Redis. Every lock is renewed once in four seconds, two and
// a half times as often as with the default lease.
//
//	go test -run - -bench Held100k -benchtime 1x ./rlock
func BenchmarkHeld100k(b *testing.B) {
	const locks, lease = 100_000, 12 * time.Second
	option := benchOption(b)
	outside := rawClient(b, option)
	for b.Loop() {
		client, err := rlock.New(rlock.Config{Redis: option, Lease: lease})
		require.NoError(b, err)
		ctx := rlock.WithOwner(context.Background(), rlock.NewOwner())
		before, redisBefore := heap(), figure(b, outside, "memory", "used_memory")
		held := make([]*rlock.Lock, locks)
		in64(locks, func(i int) {
			held[i] = client.NewLock(fmt.Sprint("held:", i))
			if err := held[i].Lock(ctx); err != nil {
				b.Errorf("Lock: %v", err)
			}
		})
		b.ReportMetric(float64(heap()-before-8*locks)/locks, "B/lock") // held belongs to the benchmark
		b.ReportMetric((figure(b, outside, "memory", "used_memory")-redisBefore)/locks, "redis-B/lock")
		used, redisUsed, began := processorTime(), redisTime(b, outside), time.Now()
		time.Sleep(lease * 2 / 3)
		used, redisUsed = processorTime()-used, redisTime(b, outside)-redisUsed
		renewal := float64(lease/3) / float64(time.Since(began)) / locks
		b.ReportMetric(float64(used)*renewal, "cpu-ns/renewal")
		b.ReportMetric(float64(redisUsed)*renewal, "redis-ns/renewal")
		in64(locks, func(i int) {
			if err := held[i].Unlock(ctx); err != nil {
				b.Errorf("Unlock: %v", err)
			}
		})
		require.NoError(b, client.Close())
	}
}

// BenchmarkTracking measures what it costs that Redis tells of changed keys: blocks without
// Config.Advanced.TrackedKeys and with its default take turns, and each figure is given for both,
// by the medians of the blocks. Renewals are those of 1, 1 000 and 10 000 held locks, of which a
// thousand are tracked:
//
//	go test -run - -bench 'BenchmarkTracking$' -benchtime 5x ./rlock
func BenchmarkTracking(b *testing.B) {
	b.Run("short holds", func(b *testing.B) {
		tracking(b, 0, func(c *rlock.Client) int {
			for range 5000 {
				lockAndUnlock(b, c, testbed.Key, 0)
			}
			return 5000
		})
	})
	b.Run("holds of 60 ms", func(b *testing.B) {
		tracking(b, 0, func(c *rlock.Client) int {
			in64(640, func(i int) { lockAndUnlock(b, c, fmt.Sprint(testbed.Key, i), 60*time.Millisecond) })
			return 640
		})
	})
	for _, held := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint("renewals of ", held), func(b *testing.B) {
			tracking(b, held, func(c *rlock.Client) int {
				before := inspect.Of(c).Stats().Renewals
				time.Sleep(2 * time.Second)
				return int(inspect.Of(c).Stats().Renewals - before)
			})
		})
	}
}

// tracking calls block in turn with a client that does not track and one that does, each with so
// many held locks. A block returns how many of its operations it has made.
func tracking(b *testing.B, held int, block func(c *rlock.Client) (operations int)) {
	option := benchOption(b)
	outside := rawClient(b, option)
	var client, redis, memory [2][]float64 // without, and with
	for b.Loop() {
		for i, keys := range []int{-1, 0} {
			config := rlock.Config{Redis: option, Advanced: rlock.Advanced{TrackedKeys: keys}, Lease: 300 * time.Millisecond}
			if held > 1000 {
				config.Lease = time.Duration(held) * 300 * time.Microsecond
			}
			c, err := rlock.New(config)
			require.NoError(b, err)
			lockAndUnlock(b, c, testbed.Key, 0)
			ctx := rlock.WithOwner(context.Background(), rlock.NewOwner())
			size := figure(b, outside, "memory", "used_memory")
			in64(held, func(i int) {
				if err := c.NewLock(fmt.Sprint("held:", i)).Lock(ctx); err != nil {
					b.Errorf("Lock: %v", err)
				}
			})
			if held > 0 {
				time.Sleep(config.Lease)
				memory[i] = append(memory[i], (figure(b, outside, "memory", "used_memory")-size)/float64(held))
			}
			used, redisUsed := processorTime(), redisTime(b, outside)
			n := float64(block(c))
			client[i] = append(client[i], float64(processorTime()-used)/n)
			redis[i] = append(redis[i], float64(redisTime(b, outside)-redisUsed)/n)
			require.NoError(b, c.Close())
		}
	}
	for _, f := range []struct {
		what  string
		times [2][]float64
	}{{"client-ns", client}, {"redis-ns", redis}, {"redis-B", memory}} {
		if len(f.times[0]) > 0 {
			without, with := median(f.times[0]), median(f.times[1])
			b.ReportMetric(without, f.what)
			b.ReportMetric(with/without, "x-"+f.what)
		}
	}
}

// BenchmarkGuardedWrite compares a guarded SET with the same SET in a script that looks at no lock,
// by a client of rueidis with its defaults, and by one with the settings of rlock. Blocks take
// turns, as in BenchmarkBesideRaw.
//
//	go test -run - -bench GuardedWrite -benchtime 400x ./rlock
func BenchmarkGuardedWrite(b *testing.B) {
	option, ctx := benchOption(b), context.Background()
	hold, err := benchClient(b, option).NewLock("guarded").Acquire(ctx)
	require.NoError(b, err)
	defer func() { _ = hold.Release(ctx) }()
	defaults := option
	defaults.DisableCache = true
	direct, err := rueidis.NewClient(defaults)
	require.NoError(b, err)
	b.Cleanup(direct.Close)
	set := rueidis.NewLuaScript("return redis.call('SET', KEYS[1], ARGV[1])")
	for name, raw := range map[string]rueidis.Client{"direct": direct, "pipelined": rawClient(b, option)} {
		b.Run(name, func(b *testing.B) {
			var bare, guarded []time.Duration
			one := func(f func() error) time.Duration {
				began := time.Now()
				if err := f(); err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			for b.Loop() {
				for range 50 {
					bare = append(bare, one(func() error { return set.Exec(ctx, raw, []string{"bare"}, []string{"7"}).Error() }))
				}
				for range 50 {
					guarded = append(guarded, one(func() error {
						_, err := hold.Write(ctx, []string{"stock"}, []string{"SET", "stock", "7"})
						return err
					}))
				}
			}
			slices.Sort(bare)
			slices.Sort(guarded)
			b.ReportMetric(float64(bare[len(bare)/2])/1e3, "bare-us-p50")
			b.ReportMetric(float64(guarded[len(guarded)/2])/1e3, "guarded-us-p50")
			b.ReportMetric(float64(guarded[len(guarded)/2])/float64(bare[len(bare)/2]), "x-bare-p50")
		})
	}
}

// BenchmarkTold measures how soon the context of a hold ends after its key was deleted, or after
// another client has called ForceUnlock. The key is deleted by a plain Redis client; the time
// begins before the command is sent.
//
//	go test -run - -bench Told -benchtime 500x ./rlock
func BenchmarkTold(b *testing.B) {
	option := benchOption(b)
	outside := rawClient(b, option)
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

// BenchmarkWideLosses measures how late the holders of a wide client learn of the ends of their
// leases: 1500 goroutines, each with a name of its own, and a server that ends all connections each
// 10 ms. A hold is over at its ValidUntil.
//
//	go test -run - -bench WideLosses -benchtime 1x ./rlock
func BenchmarkWideLosses(b *testing.B) {
	const names, lasts = 1500, 10 * time.Second
	option := benchOption(b)
	outside := rawClient(b, option)
	for b.Loop() {
		client, err := rlock.New(rlock.Config{Redis: option, Logger: testbed.Quiet})
		require.NoError(b, err)
		var background, holders sync.WaitGroup
		end := time.Now().Add(lasts)
		background.Go(func() {
			for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				outside.Do(b.Context(), outside.B().Arbitrary("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Build())
			}
		})
		var mu sync.Mutex
		var late []time.Duration
		for i := range names {
			holders.Go(func() {
				for time.Now().Before(end) {
					lease := 200*time.Millisecond + rand.N(2*time.Second)
					hold, err := client.NewLock(fmt.Sprint("wide:", i)).Acquire(b.Context(), rlock.WithLease(lease))
					if err != nil {
						continue
					}
					var until time.Time // a renewal may move it
					for next := hold.ValidUntil(); !next.IsZero() && hold.Context().Err() == nil; next = hold.ValidUntil() {
						until = next
						select {
						case <-hold.Context().Done():
						case <-time.After(max(time.Until(until)-20*time.Millisecond, 5*time.Millisecond)):
						}
					}
					<-hold.Context().Done()
					if !until.IsZero() {
						mu.Lock()
						late = append(late, time.Since(until))
						mu.Unlock()
					}
					_ = hold.Release(b.Context())
				}
			})
		}
		holders.Wait()
		background.Wait()
		slices.Sort(late)
		b.ReportMetric(float64(len(late)), "losses")
		b.ReportMetric(float64(late[len(late)-1].Microseconds())/1000, "latest-ms")
		_ = client.Close() // which does not wait for releases without an answer
	}
}
