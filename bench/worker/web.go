package worker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// An app is shared by the requests of the web test: its own connection to Redis, as an
// application would have, and a sequence number there. No contender uses its commands, HGET
// and HSET, so that they can be distinguished.
type app struct {
	redis rueidis.Client
	taken atomic.Int64 // requests of this process
}

const sequence = "next"

// SequenceKey is the hash with the sequence number of the web test: at the end it must count
// every request that succeeded.
func SequenceKey(prefix string) string { return prefix + ":sequence" }

func openApp(job Job) (*app, error) {
	redis, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{job.Addr},
		ForceSingleClient: true,
		DisableCache:      true,
	})
	if err != nil {
		return nil, fmt.Errorf("worker: app: %w", err)
	}
	return &app{redis: redis}, nil
}

func (a *app) close() { a.redis.Close() }

// next reads the sequence number and writes the next one, in two commands: only
// the lock keeps two requests from getting the same number.
func (a *app) next(key string) error {
	ctx := context.Background()
	n, err := a.redis.Do(ctx, a.redis.B().Hget().Key(key).Field(sequence).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return a.redis.Do(ctx, a.redis.B().Hset().Key(key).FieldValue().FieldValue(sequence, fmt.Sprint(n+1)).Build()).Error()
}

// serve answers requests until the process has had its share of them. A section
// is a request; Pair is its whole time.
func (r *runner) serve() {
	const lock = 0
	m := r.client.Mutex(r.name(lock))
	key := SequenceKey(r.Prefix)
	for r.app.taken.Add(1) <= int64(r.Requests/r.Processes) && time.Now().Before(r.end) {
		began := time.Now()
		err := m.Lock(r.ctx)
		r.wait.record(time.Since(began))
		if err != nil {
			if !r.failed(err) {
				return
			}
			continue
		}
		r.enter(lock, began)
		err = r.app.next(key)
		r.ground.Leave(lock)
		if err == nil {
			r.sections++
		}
		if err = errors.Join(err, m.Unlock()); err != nil && !r.failed(err) {
			return
		}
		r.pair.record(time.Since(began))
	}
}
