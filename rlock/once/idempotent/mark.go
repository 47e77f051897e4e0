package idempotent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/go-rlock/rlock/rlock/once"
)

// A mark says in Redis that the handler of a request has begun. Its value names the run, so that
// each command about the mark may be sent again, and does not change the mark of another run.
type mark struct {
	g     *Guard
	at    string // the key of the mark
	value string // "<print> <run>"
	hold  *rlock.Hold
}

// setMark sets the mark unless there is a mark of another run.
//
//	KEYS[1]  the mark
//	ARGV[1]  its value
//	ARGV[2]  the time after which it expires, in ms
//
//	1        it is set
//	0        there is the mark of another run
const setMark = `local is = redis.call('get', KEYS[1])
if is and is ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

// clearMark deletes the mark if the run has set it. It needs no lock.
//
//	KEYS[1]  the mark
//	ARGV[1]  its value
var clearMark = wire.ScriptOf(`if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return 1`)

// isLocked returns 1 if the lock is taken, else 0.
//
//	KEYS[1]  the lock
var isLocked = wire.ScriptOf(`return redis.call('exists', KEYS[1])`)

// firstPause is the pause after an attempt without an answer; it doubles up to lastPause.
const firstPause, lastPause = 20 * time.Millisecond, time.Second

// unmarkTime is the longest time for which a request waits until its mark is cleared. After it the
// attempts go on without the request.
const unmarkTime = 2 * time.Second

// newMark marks that the handler of a request is about to run, under the lock whose hold is in ctx.
// With Options.Again there are no marks, and newMark returns nil.
func (g *Guard) newMark(ctx context.Context, t *turn, q *request) (*mark, error) {
	switch {
	case t.gone.Err() != nil:
		return nil, errLeft
	case g.o.Again:
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.gone, cancel)()
	m := &mark{g: g, at: g.markOf(q.key), value: q.print + " " + rand.Text()[:16], hold: once.HoldOf(ctx)}
	return m, m.set(ctx)
}

// unmark clears the mark of a run without an outcome, if there is one.
func (g *Guard) unmark(m *mark) {
	if m != nil {
		m.clear()
	}
}

// markOf returns the key of the mark.
func (g *Guard) markOf(key string) string { return g.locks.NewLock(key).Key("began") }

// set sets the mark. Attempts without an answer are repeated until ctx ends or the lock is lost. If
// another run has a mark, the error is errUnknown. After an error this run has no mark, or the mark
// is about to be cleared.
func (m *mark) set(ctx context.Context) (err error) {
	keep := strconv.FormatInt(m.g.o.Keep.Milliseconds(), 10)
	doubted := false // an answer was lost: the mark may be set
	defer func() {
		if err != nil && doubted {
			m.clear()
		}
	}()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		reply, err := m.hold.Exec(ctx, setMark, []string{m.at}, []string{m.value, keep})
		diagnosis, explained := wire.Diagnose(err)
		switch {
		case err == nil:
			if n, err := reply.AsInt64(); err != nil || n == 1 {
				return err
			}
			return errUnknown
		case errors.Is(err, rlock.ErrUnconfirmed):
			doubted = true
		case diagnosis != wire.NotNow:
			return explained
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w; last error: %w", ctx.Err(), explained)
		}
	}
}

// clear clears the mark. If Redis does not answer for unmarkTime, clear returns, and the attempts
// go on.
func (m *mark) clear() {
	ctx, cancel := context.WithTimeout(m.g.ctx, unmarkTime)
	defer cancel()
	if m.g.again(ctx, m.cleared) {
		return
	}
	m.g.wg.Add(1)
	go func() {
		defer m.g.wg.Done()
		ctx, cancel := context.WithTimeout(m.g.ctx, m.g.o.Keep) // after Keep the mark has expired
		defer cancel()
		m.g.again(ctx, m.cleared)
	}()
}

// cleared makes one attempt to clear the mark. It reports whether no other attempt is needed: Redis
// has answered, or refuses for ever, which is logged.
func (m *mark) cleared(ctx context.Context) bool {
	_, err := m.g.ask(ctx, clearMark, m.at, m.value)
	if err == nil {
		return true
	}
	diagnosis, explained := wire.Diagnose(err)
	m.g.warn(notNoted, fmt.Errorf("DEL of %q: %w", m.at, explained))
	return diagnosis == wire.Never
}

// again calls attempt until it returns true, or ctx ends. It reports whether attempt returned true.
func (g *Guard) again(ctx context.Context, attempt func(context.Context) bool) (done bool) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if attempt(ctx) {
			return true
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return false
		}
	}
}

// ask executes a script without the lock, and returns its number.
func (g *Guard) ask(ctx context.Context, script *wire.Script, key string, args ...string) (int64, error) {
	redis := g.shared.Redis
	if err := redis.Ready(ctx, nil); err != nil {
		return 0, err
	}
	return wire.Promptly(ctx, redis, redis.SlotOf(key), func(ctx context.Context) (int64, error) {
		return redis.Do(ctx, wire.Call{Script: script, Keys: []string{key}, Args: args}).AsInt64()
	})
}
