package contender_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/bench/contender"
	"github.com/go-rlock/rlock/internal/redistest"
)

// each runs a test for every contender, with a Redis and a name for its locks.
func each(t *testing.T, run func(t *testing.T, c contender.Contender, redis contender.Config, name string)) {
	redis := servers(t)
	for _, c := range inGo() {
		t.Run(c.Name, func(t *testing.T) { run(t, c, redis, "test:"+t.Name()) })
	}
}

// servers returns a config with three servers, of which the one in the middle is
// the first.
func servers(t *testing.T) contender.Config {
	first, second := redistest.Standalone(t).Addr(), redistest.Standalone(t).Addr()
	return contender.Config{Addr: first, Addrs: []string{second, first, redistest.Standalone(t).Addr()}}
}

// inGo returns the contenders without those that have a program of their own, which package
// arena tests.
func inGo() []contender.Contender {
	return slices.DeleteFunc(contender.All(), func(c contender.Contender) bool { return c.Program != nil })
}

func open(t *testing.T, c contender.Contender, config contender.Config) contender.Client {
	client, err := c.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

// within is the context of calls that may hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Hang)
	t.Cleanup(cancel)
	return ctx
}

func TestEachContenderExcludesAcrossClients(t *testing.T) {
	each(t, func(t *testing.T, c contender.Contender, redis contender.Config, name string) {
		if !c.Waits() {
			ctx, holder, other := within(t), open(t, c, redis).Mutex(name), open(t, c, redis).Mutex(name)
			require.NoError(t, holder.Lock(ctx))
			require.Error(t, other.Lock(ctx))
			require.NoError(t, holder.Unlock())
			require.NoError(t, other.Lock(ctx))
			require.NoError(t, other.Unlock())
			return
		}
		var inside, sum int // protected by the lock, under the race detector
		var all sync.WaitGroup
		for range 2 {
			client := open(t, c, redis)
			for range 3 {
				m := client.Mutex(name)
				ctx := within(t)
				all.Go(func() {
					for range 3 {
						if err := lock(ctx, m); !assert.NoError(t, err) {
							return
						}
						inside++
						assert.Equal(t, 1, inside)
						sum++
						inside--
						assert.NoError(t, m.Unlock())
					}
				})
			}
		}
		all.Wait()
		assert.Equal(t, 2*3*3, sum)
	})
}

// lock retries for rueidislock, which may sleep, or begin to sleep, while the lock is free
// (docs/peers.md): a cancelled call may try again.
func lock(ctx context.Context, m contender.Mutex) (err error) {
	for range 10 {
		// The context must outlive the Lock, since rueidislock derives the hold from it.
		try, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(3*time.Second, cancel)
		if err = m.Lock(try); err == nil {
			timer.Stop()
			return nil
		}
	}
	return err
}

func TestTheKeyExistsWhileTheLockIsHeldAndAfterTheLeaseOnlyIfItIsRenewed(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for leases to end: run it without -short")
	}
	config := servers(t)
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{config.Addr}, DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	exists := func(key string) bool {
		n, err := redis.Do(t.Context(), redis.B().Exists().Key(key).Build()).AsInt64()
		return err == nil && n == 1
	}
	for _, c := range inGo() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			name := "test:" + t.Name()
			const lease = 4 * time.Second // on a busy machine a renewal may be a second late
			config := config
			config.Lease = lease
			m := open(t, c, config).Mutex(name)
			require.NoError(t, lock(within(t), m))
			// This server may not be one of the majority whose answer was awaited.
			require.Eventually(t, func() bool { return exists(c.Key(name)) }, time.Minute, time.Millisecond)
			if !c.Renews { // then the lock is free when the lease has ended
				other, ctx := open(t, c, config).Mutex(name), within(t)
				for other.Lock(ctx) != nil {
					require.NoError(t, ctx.Err())
					time.Sleep(lease / 100)
				}
				assert.Error(t, m.Unlock(), "the lock was lost, and Unlock must report it")
				return
			}
			for end := time.Now().Add(lease + lease/2); time.Now().Before(end); time.Sleep(lease / 10) {
				require.True(t, exists(c.Key(name)))
			}
			assert.NoError(t, m.Unlock())
			assert.Eventually(t, func() bool { return !exists(c.Key(name)) }, time.Minute, time.Millisecond)
		})
	}
}

// MONITOR shows every command with its sender; commands of scripts have "lua".
func TestSendsNamesEveryCommandThatCrossesTheNetwork(t *testing.T) {
	each(t, func(t *testing.T, c contender.Contender, redis contender.Config, name string) {
		client := open(t, c, redis)
		ctx := within(t)
		warm := client.Mutex(name + ":warm") // new connections send greetings
		require.NoError(t, lock(ctx, warm))
		require.NoError(t, warm.Unlock())

		conn, err := net.Dial("tcp", redis.Addr)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprint(conn, "MONITOR\r\n")
		require.NoError(t, err)
		lines := bufio.NewScanner(conn)
		require.True(t, lines.Scan()) // +OK

		const sections = 5
		for range sections {
			m := client.Mutex(name)
			require.NoError(t, lock(ctx, m))
			if c.Waits() { // include the commands of waiting
				waited := make(chan error, 1)
				go func() {
					other := client.Mutex(name)
					err := lock(ctx, other)
					if err == nil {
						err = other.Unlock()
					}
					waited <- err
				}()
				time.Sleep(5 * time.Millisecond) // long enough for a wait; without one the test sees less
				require.NoError(t, m.Unlock())
				require.NoError(t, redistest.Await(t, waited))
			} else {
				require.NoError(t, m.Unlock())
			}
		}
		end, err := net.Dial("tcp", redis.Addr)
		require.NoError(t, err)
		defer func() { _ = end.Close() }()
		_, err = fmt.Fprint(end, "ECHO that-is-all\r\n")
		require.NoError(t, err)
		sent, echoed := 0, false
		tracks := make(map[string]bool) // the connections whose next command tracks the key of a hold of 50 ms: see rlock.go
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
		// This server may not be one of the majority whose answer was awaited.
		for !(echoed && sent >= 2*sections) && lines.Scan() {
			// +1700000000.000000 [0 127.0.0.1:1234] "evalsha" "..."
			_, rest, _ := strings.Cut(lines.Text(), "[")
			from, command, _ := strings.Cut(rest, "] ")
			words := strings.Split(strings.ToLower(strings.ReplaceAll(command, `"`, "")), " ")
			if words[0] == "echo" {
				echoed = true
				continue
			}
			tracking := words[0] == "exists" && tracks[from]
			tracks[from] = len(words) > 1 && words[0] == "client" && words[1] == "caching"
			if tracking || strings.HasSuffix(from, " lua") || words[0] == "ping" || words[0] == "hello" || words[0] == "client" {
				continue // of a script, or of the connection
			}
			known := slices.Contains(c.Sends, words[0]) || len(words) > 1 && slices.Contains(c.Sends, words[0]+"|"+words[1])
			assert.True(t, known, "%s sends %q", c.Name, words[0])
			sent++
		}
		assert.GreaterOrEqual(t, sent, 2*sections)
	})
}
