package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Survey sends commands that change nothing about a lock, in one pipeline to the node that
// serves its slot, and returns their replies. An error that is a server's answer stands in the
// replies; faults that pass are tried again, for as long as a caller of Unlock would wait.
//
// Its commands are arbitrary ones, since rueidis repeats those that it knows to be harmless
// until their context ends, each time with a slot in the ring.
func (r *Redis) Survey(ctx context.Context, slot uint16, commands ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	if r.ctx.Err() != nil {
		return nil, ErrClosed
	}
	for i := range commands {
		commands[i] = commands[i].Pin() // they may be sent several times
	}
	caller := ctx
	ctx, cancel := r.Within(caller)
	defer cancel()
	var last error // of the attempts so far
	for retry := FirstRetry; ; retry = min(2*retry, LastRetry) {
		replies, err := r.surveyOnce(ctx, slot, commands)
		if err == nil {
			err = passing(replies)
		}
		switch {
		case err == nil:
			return replies, nil
		case caller.Err() != nil:
			return nil, TimeUp(caller, last) // the caller's own, which must not be taken for that of ctx
		case ctx.Err() != nil && last != nil:
			return nil, last
		case ctx.Err() != nil:
			return nil, ErrNoAnswer
		case r.ctx.Err() != nil:
			return nil, ErrClosed
		}
		last = Explain(err)
		select {
		case <-time.After(Jitter(retry)):
		case <-ctx.Done():
		}
	}
}

// passing returns the first error among the replies that may pass by itself.
func passing(replies []rueidis.RedisResult) error {
	for _, reply := range replies {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			if f, err := Diagnose(err); f != Never {
				return err
			}
		}
	}
	return nil
}

// surveyOnce is one attempt of Survey. It returns when ctx ends, but the pipeline keeps
// its slot until it has ended: rueidis keeps it in its ring for as long.
func (r *Redis) surveyOnce(ctx context.Context, slot uint16, commands []rueidis.Completed) ([]rueidis.RedisResult, error) {
	limit, err := r.Limits(slot).Asks.Enter(ctx, r.ctx.Done())
	if err != nil {
		return nil, err
	}
	return inBackground(ctx, r, limit, func() []rueidis.RedisResult {
		r.sent.n.Add(int64(len(commands)))
		replies := r.Client.DoMulti(r.deadline.context(time.Now()), commands...)
		if Answered(replies[0].Error()) {
			limit.Heard()
		}
		return replies
	})
}

// A background is the goroutines that work for a client in the background. Close waits for
// them. The zero value is ready for use.
type background struct {
	mu      sync.Mutex // protects following
	closed  bool
	running sync.WaitGroup // only Add needs the mutex
}

// start calls work in a goroutine of its own, and reports whether it did: one that
// is closed starts nothing.
func (b *background) start(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Go(work)
	}
	return !b.closed
}

// close returns when all goroutines have ended. None is started after it was called.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

// inBackground returns the result of work, or an error once ctx ends: the work goes on then,
// and keeps its slot until it has ended.
func inBackground[T any](ctx context.Context, r *Redis, limit *Limit, work func() T) (result T, err error) {
	landed := make(chan T, 1)
	started := r.background.start(func() {
		defer limit.Leave()
		landed <- work()
	})
	if !started {
		limit.Leave()
		return result, ErrClosed
	}
	select {
	case result = <-landed:
		return result, nil
	case <-ctx.Done():
		return result, fmt.Errorf("no answer: %w", ctx.Err())
	}
}
