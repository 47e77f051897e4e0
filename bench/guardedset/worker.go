package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// The resource is a hash in a Redis of its own, which no fault meets; if the writes are guarded, in that of the lock. Each
// script is what a resource does at one moment.
const (
	resource = "value"
	think    = 40 * time.Millisecond // between the read and the write
)

var (
	// read notes who reads, and returns the value; nil if the token is an old one.
	// KEYS the resource. ARGV the worker, its token (0 for none).
	read = `
if tonumber(ARGV[2]) > 0 then
	if tonumber(redis.call('hget', KEYS[1], 'token') or '0') > tonumber(ARGV[2]) then
		redis.call('hincrby', KEYS[1], 'rejected', 1)
		return nil
	end
	redis.call('hset', KEYS[1], 'token', ARGV[2])
end
redis.call('hset', KEYS[1], 'holder', ARGV[1])
return redis.call('hget', KEYS[1], 'v') or '0'`
	// write sets the value to one more than was read, and counts what it sees.
	// KEYS the resource. ARGV the value that was read, the token (0 for none).
	write = `
if tonumber(ARGV[2]) > 0 and tonumber(redis.call('hget', KEYS[1], 'token') or '0') > tonumber(ARGV[2]) then
	redis.call('hincrby', KEYS[1], 'rejected', 1)
	return 0
end
if (redis.call('hget', KEYS[1], 'v') or '0') ~= ARGV[1] then
	redis.call('hincrby', KEYS[1], 'stale', 1)
end
redis.call('hset', KEYS[1], 'v', tonumber(ARGV[1]) + 1)
redis.call('hincrby', KEYS[1], 'writes', 1)
return 1`
)

// role is the variable that makes this program a worker: library|form|worker|lock's address|resource's address|lease.
const role = "RLOCK_GUARDEDSET_WORKER"

// work increments the value under the lock until its standard input ends.
func work(job string) error {
	words := strings.Split(job, "|")
	if len(words) != 6 {
		return fmt.Errorf("guardedset: worker: %q", job)
	}
	lease, err := time.ParseDuration(words[5])
	if err != nil {
		return err
	}
	f, err := find(words[0], words[1])
	if err != nil {
		return err
	}
	data, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{words[4]}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	take, err := f.open(words[3], lease)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
		time.Sleep(time.Second)
		os.Exit(0) // a library that waits for ever must not keep the run
	}()
	for ctx.Err() == nil {
		h, err := take(ctx)
		if err != nil {
			time.Sleep(think)
			continue
		}
		if h.exec == nil {
			h.exec = at(data)
		}
		increment(h, words[2])
		h.release()
	}
	return nil
}

// at executes scripts at a resource that has a server of its own.
func at(data rueidis.Client) script {
	return func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error) {
		return data.Do(ctx, data.B().Eval().Script(source).Numkeys(1).Key(resource).Arg(args...).Build()).ToMessage()
	}
}

// increment reads, thinks and writes.
func increment(h *held, worker string) {
	token := strconv.FormatInt(h.token, 10)
	was, err := h.exec(h.ctx, read, worker, token)
	if err != nil {
		return
	}
	value, err := was.ToString()
	if err != nil {
		return
	}
	select {
	case <-time.After(think):
	case <-h.ctx.Done():
		return
	}
	if h.valid() {
		_, _ = h.exec(h.ctx, write, value, token)
	}
}
