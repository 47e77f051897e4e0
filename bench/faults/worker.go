package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// think is the time between the read and the write.
const think = 40 * time.Millisecond

// resource is a hash and the list of its writes in a Redis of its own, which no fault meets; if the writes are guarded,
// in that of the lock. Each script is what a resource does at one moment.
var resource = []string{"value", "value:writes"}

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
	// write sets the value to one more than was read, and notes what it sees.
	// KEYS the resource. ARGV the value that was read, the token (0 for none), the name of the write.
	write = `
if tonumber(ARGV[2]) > 0 and tonumber(redis.call('hget', KEYS[1], 'token') or '0') > tonumber(ARGV[2]) then
	redis.call('hincrby', KEYS[1], 'rejected', 1)
	return '0'
end
if (redis.call('hget', KEYS[1], 'v') or '0') ~= ARGV[1] then
	redis.call('hincrby', KEYS[1], 'stale', 1)
end
redis.call('hset', KEYS[1], 'v', tonumber(ARGV[1]) + 1)
redis.call('rpush', KEYS[2], ARGV[3])
return '1'`
)

// role is the variable that makes this program a worker, with its job as JSON. rlock.guardedset.Main in Java has the same.
const role = "RLOCK_GUARDEDSET_WORKER"

// A job is what a worker is told.
type job struct {
	Library, Form string
	Worker        string
	Name          string // of the lock
	Locks, Data   place
	Lease, Think  time.Duration
	Resource      []string
	Read, Write   string
}

// work increments the value under the lock until its standard input ends. It prints the name of each acknowledged write.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return fmt.Errorf("faults: worker: %w", err)
	}
	f, err := find(j.Library, j.Form)
	if err != nil {
		return err
	}
	data, err := j.Data.open()
	if err != nil {
		return err
	}
	take, err := f.open(j.Locks, j.Lease)
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
	for writes := 0; ctx.Err() == nil; {
		h, err := take(ctx)
		if err != nil {
			time.Sleep(j.Think)
			continue
		}
		if h.exec == nil {
			h.exec = at(data)
		}
		id := fmt.Sprintf("%s.%d.%d", j.Worker, os.Getpid(), writes)
		if increment(h, j, id) {
			writes++
			fmt.Println(id)
		}
		h.release()
	}
	return nil
}

// at executes scripts at a resource that has a server of its own.
func at(data rueidis.Client) script {
	return func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error) {
		return data.Do(ctx, data.B().Eval().Script(source).Numkeys(int64(len(resource))).Key(resource...).Arg(args...).Build()).ToMessage()
	}
}

// increment reads, thinks and writes, and reports whether the write was acknowledged.
func increment(h *held, j job, id string) bool {
	token := strconv.FormatInt(h.token, 10)
	was, err := h.exec(h.ctx, j.Read, j.Worker, token)
	if err != nil {
		return false
	}
	value, err := was.ToString()
	if err != nil {
		return false
	}
	select {
	case <-time.After(j.Think):
	case <-h.ctx.Done():
		return false
	}
	if !h.valid() {
		return false
	}
	done, err := h.exec(h.ctx, j.Write, value, token, id)
	if err != nil {
		return false
	}
	said, err := done.ToString()
	return err == nil && said == "1"
}
