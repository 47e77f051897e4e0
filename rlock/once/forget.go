package once

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

//go:embed forget.lua
var forgetEnd string

var forgetScript = wire.ScriptOf(valueSource + forgetEnd)

// longRun is the time that a function may still take after a Forget of its value, so that the value
// is not kept.
const longRun = time.Hour

// Forget is for a writer, as in singleflight: calls after Forget has returned, in any process, get
// the value of a function that begins after it. A kept value is no longer kept. The value of a
// function that runs now is only for callers that asked before, unless the function runs for
// another hour, or for Keep if that is longer. After several Forgets without a run between them, it
// may be only for callers that asked before the function began. Forget waits for no function.
//
// It sends one command, and repeats it until Redis has answered or ctx ends. If ctx ends, it
// returns the error of ctx with the last error of Redis, and the value may be forgotten later. It
// returns other errors at once ([rlock.ErrNoPermission], [rlock.ErrClosed], [ErrClosed]).
func (g *Group) Forget(ctx context.Context, key string) error {
	if err := wire.CheckLength(key); err != nil {
		return fmt.Errorf("once: forget: %w", err)
	}
	if err := wire.Over(ctx); err != nil {
		return fmt.Errorf("once: forget %q: %w", key, err)
	}
	ms := max(g.o.Keep, g.o.KeepErrors, longRun).Milliseconds()
	call := wire.Call{Script: forgetScript, Keys: []string{g.locks.NewLock(key).Key("once")}, Args: []string{strconv.FormatInt(ms, 10)}}
	for pause := firstPause; g.ctx.Err() == nil; pause = min(2*pause, patience) {
		_, err := g.send(ctx, call)
		diagnosis, explained := wire.Diagnose(err)
		switch {
		case err == nil:
			return nil
		case g.ctx.Err() != nil:
			return ErrClosed
		case ctx.Err() == nil && (diagnosis == wire.Never || errors.Is(err, rlock.ErrClosed)):
			return fmt.Errorf("once: forget %q: %w", key, explained)
		}
		select {
		case <-time.After(pause):
		case <-g.ctx.Done():
		case <-ctx.Done():
			return fmt.Errorf("once: forget %q: %w", key, wire.TimeUp(ctx, explained))
		}
	}
	return ErrClosed
}

// send sends a command once, without the lock.
func (g *Group) send(ctx context.Context, call wire.Call) (rueidis.RedisMessage, error) {
	redis := g.shared.Redis
	if redis.Stopped() {
		return rueidis.RedisMessage{}, rlock.ErrClosed
	}
	if err := redis.Ready(ctx, nil); err != nil {
		return rueidis.RedisMessage{}, err
	}
	return wire.Promptly(ctx, redis, redis.SlotOf(call.Keys[0]), func(ctx context.Context) (rueidis.RedisMessage, error) {
		return redis.Do(ctx, call).ToMessage()
	})
}
