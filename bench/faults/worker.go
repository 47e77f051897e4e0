package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/internal/torture/stage"
)

const (
	// role is set in the environment of a worker.
	role = "RLOCK_FAULTS_WORKER=1"
	// name is that of the lock.
	name = "lock:guarded-set"
	// think is the time between the read and the write.
	think = 40 * time.Millisecond
)

// resource is a hash. Each script is what a resource does at one moment.
var resource = []string{"value"}

const (
	// read notes who reads and is about to write, and returns the value; nil if the token is an old
	// one.
	// KEYS the resource. ARGV the worker, its token (0 for none).
	read = `
if tonumber(redis.call('hget', KEYS[1], 'token') or '0') > tonumber(ARGV[2]) then
	return nil
end
redis.call('hset', KEYS[1], 'token', ARGV[2], 'holder', ARGV[1], 'open', 1)
return redis.call('hget', KEYS[1], 'value') or '0'`
	// write sets the value to one more than was read, and counts the writes of all and of the
	// worker, and the longest time between two in milliseconds; not if the token is an old one.
	// KEYS the resource. ARGV the value that was read, the token, the worker.
	write = `
if tonumber(redis.call('hget', KEYS[1], 'token') or '0') > tonumber(ARGV[2]) then
	return nil
end
redis.call('hset', KEYS[1], 'value', tonumber(ARGV[1]) + 1, 'open', 0)
redis.call('hincrby', KEYS[1], 'writes', 1)
redis.call('hincrby', KEYS[1], 'writes of ' .. ARGV[3], 1)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local pause = now - (redis.call('hget', KEYS[1], 'last') or now)
if pause > tonumber(redis.call('hget', KEYS[1], 'pause') or '0') then
	redis.call('hset', KEYS[1], 'pause', pause)
end
redis.call('hset', KEYS[1], 'last', string.format('%.0f', now))
return '1'`
)

// A job is what a worker is told, as JSON, in the first line of its input; rlock.guardedset.Main in
// Java has the same. A worker increments the value under the lock until its input ends.
type job struct {
	Library, Form       string
	Worker              string
	Name                string // of the lock
	Locks, Data         stage.Address
	Lease, Think, Pause time.Duration // Pause is the longest time between two sections
	Resource            []string
	Read, Write         string
}

// asWorker does the job of a worker, if this process is one, and does not return.
func asWorker() {
	if os.Getenv("RLOCK_FAULTS_WORKER") == "" {
		return
	}
	fmt.Fprintln(os.Stderr, work())
	os.Exit(1)
}

// work does not end but with its input, or by an error.
func work() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan()
	var j job
	if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
		return fmt.Errorf("faults: worker: %w", err)
	}
	go func() { // even if the library waits for ever
		lines.Scan()
		os.Exit(0)
	}()
	data, err := rueidis.NewClient(option(j.Data))
	if err != nil {
		return err
	}
	take, err := takers[j.Library](j.Locks, j.Lease, j.Form)
	if err != nil {
		return err
	}
	at := func(ctx context.Context, source string, args ...string) (rueidis.RedisMessage, error) {
		return data.Do(ctx, data.B().Eval().Script(source).Numkeys(int64(len(resource))).Key(resource...).Arg(args...).Build()).ToMessage()
	}
	for {
		ctx, cancel := context.WithCancel(context.Background())
		if h, err := take(ctx); err != nil {
			time.Sleep(j.Think)
		} else {
			if h.exec == nil {
				h.exec = at
			}
			increment(h, j)
			h.release()
		}
		cancel()
		time.Sleep(rand.N(j.Pause + 1))
	}
}

// increment reads, thinks and writes, as long as the lock is said to be held.
func increment(h *held, j job) {
	token := strconv.FormatInt(h.token, 10)
	was, err := h.exec(h.ctx, j.Read, j.Worker, token)
	if err != nil {
		return
	}
	value, err := was.ToString()
	if err != nil {
		return
	}
	select {
	case <-time.After(j.Think):
	case <-h.ctx.Done():
		return
	}
	if h.valid() {
		_, _ = h.exec(h.ctx, j.Write, value, token, j.Worker) // the resource counts
	}
}
