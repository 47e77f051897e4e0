package testbed

import (
	"context"
	"crypto/sha1"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-rlock/rlock/internal/network"
	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
	"github.com/go-rlock/rlock/rlock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Calls that fail the test if they return an error.

// Take acquires the lock, with a handle.
func Take(t *testing.T, ctx context.Context, lock Locker, options ...rlock.AcquireOption) *rlock.Hold {
	t.Helper()
	hold, err := lock.Acquire(ctx, options...)
	require.NoError(t, err)
	return hold
}

// Permits takes n permits, each with a handle.
func Permits(t *testing.T, ctx context.Context, lock *rlock.Lock, n int) (holds []*rlock.Hold) {
	t.Helper()
	for range n {
		holds = append(holds, Take(t, ctx, lock, rlock.WithWait(0)))
	}
	return holds
}

// OneSection takes the lock for a moment and returns the token of its hold.
func OneSection(ctx context.Context, t *testing.T, lock *rlock.Lock) uint64 {
	t.Helper()
	hold := Take(t, ctx, lock)
	require.NoError(t, hold.Release(ctx))
	return TokenOf(t, hold)
}

// TokenOf returns the token of a hold that must have one.
func TokenOf(t *testing.T, hold *rlock.Hold) uint64 {
	t.Helper()
	token, err := hold.Token()
	require.NoError(t, err)
	assert.NotZero(t, token)
	return token
}

// Tries reports whether TryLock takes the lock.
func Tries(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	ok, err := Repeat(ctx, lock, lock.TryLock)
	require.NoError(t, err)
	return ok
}

// TriesFor reports whether TryLockFor takes the lock within the wait.
func TriesFor(t *testing.T, ctx context.Context, lock Locker, wait time.Duration) bool {
	t.Helper()
	ok, err := lock.TryLockFor(ctx, wait, 0)
	require.NoError(t, err)
	return ok
}

// IsLocked reports whether Redis shows the lock as held.
func IsLocked(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	locked, err := lock.IsLocked(ctx)
	require.NoError(t, err)
	return locked
}

// Frees reports whether ForceUnlock has freed the lock.
func Frees(t *testing.T, ctx context.Context, lock Locker) bool {
	t.Helper()
	freed, err := lock.ForceUnlock(ctx)
	require.NoError(t, err)
	return freed
}

// Inspected returns the state of the lock named Key, as the client reads it.
func Inspected(t *testing.T, ctx context.Context, client *rlock.Client) inspect.Lock {
	t.Helper()
	i, err := inspect.Of(client).Lock(ctx, Key)
	require.NoError(t, err)
	return i
}

// Succeed waits for these calls, which must not fail, and take ten virtual seconds at most.
func Succeed(t *testing.T, results ...<-chan error) {
	t.Helper()
	for _, result := range results {
		select {
		case err := <-result:
			require.NoError(t, err)
		case <-time.After(10 * time.Second):
			require.FailNow(t, "it waits")
		}
	}
}

// Release releases the holds.
func Release(t *testing.T, ctx context.Context, holds ...*rlock.Hold) {
	t.Helper()
	for _, hold := range holds {
		require.NoError(t, hold.Release(ctx))
	}
}

// RequireLoss returns when the hold is lost. Its context and its release say so.
func RequireLoss(t *testing.T, ctx context.Context, hold *rlock.Hold) {
	t.Helper()
	select {
	case <-hold.Context().Done():
	case <-ctx.Done():
		require.FailNow(t, "the holder was not notified")
	}
	require.ErrorIs(t, context.Cause(hold.Context()), rlock.ErrLost)
	require.ErrorIs(t, hold.Release(ctx), rlock.ErrLost)
}

// Questions ask Redis about the lock named Key, and take none.
var Questions = map[string]func(ctx context.Context, c *rlock.Client, lock Locker) error{
	"IsLocked":    func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.IsLocked(ctx)) },
	"TTL":         func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.TTL(ctx)) },
	"ForceUnlock": func(ctx context.Context, _ *rlock.Client, lock Locker) error { return ErrorOf(lock.ForceUnlock(ctx)) },
	"Inspect": func(ctx context.Context, c *rlock.Client, _ Locker) error {
		return ErrorOf(inspect.Of(c).Lock(ctx, Key))
	},
	"Locks": func(ctx context.Context, c *rlock.Client, _ Locker) error { return ErrorOf(Names(ctx, c, "")) },
}

// Names returns the names of the held locks that match the pattern, and the last error.
func Names(ctx context.Context, c *rlock.Client, pattern string) (names []string, err error) {
	for name, failed := range inspect.Of(c).Locks(ctx, pattern) {
		if failed != nil {
			err = failed
			continue
		}
		names = append(names, name)
	}
	return names, err
}

// ErrorOf returns the error of a call that returns a value as well.
func ErrorOf[V any](_ V, err error) error { return err }

// isScript reports whether the frame calls the acquire, mirror or release script of any kind
// of lock.
func isScript(f network.Frame, kind string) bool {
	if !f.Is("EVALSHA") && !f.Is("EVAL") || len(f.Args) < 2 {
		return false
	}
	file := scriptOf(f)
	if file == "step" {
		return kind == "released" && leaves(f) || kind == "acquired" && !leaves(f)
	}
	return file != "" && strings.HasSuffix(file, map[string]string{
		"acquired": "acquire", "mirrored": "mirror", "released": "release",
	}[kind])
}

// scriptOf returns the name of the script that the frame calls, "step" for a step of the
// queue.
func scriptOf(f network.Frame) string {
	sha := f.Args[1]
	if f.Is("EVAL") {
		sha = fmt.Sprintf("%x", sha1.Sum([]byte(sha)))
	}
	return scriptFiles[sha]
}

// leaves reports whether a ticket leaves by a step: ARGV[4] of queue.lua, if the step is more than a
// release.
func leaves(f network.Frame) bool {
	keys, _ := strconv.Atoi(f.Args[2])
	argv := f.Args[3+keys:]
	return len(argv) < 5 || argv[3] != "0"
}

// scriptFiles maps the hash of each script to its name.
var scriptFiles = map[string]string{
	wire.Acquire.Hash(): "acquire", wire.ReadWriteAcquire.Hash(): "rw_acquire", wire.SemaphoreAcquire.Hash(): "semaphore_acquire",
	wire.Mirror.Hash(): "mirror", wire.ReadWriteMirror.Hash(): "rw_mirror", wire.SemaphoreMirror.Hash(): "semaphore_mirror",
	wire.Resume.Hash(): "resume", wire.SemaphoreResume.Hash(): "semaphore_resume",
	wire.PlainStep.Hash(): "step", wire.ReadWriteStep.Hash(): "step",
}

// Scripts is a rule for the replies, or the requests, of one kind of script.
func Scripts(n int, fate network.Fate, stage network.Stage, kind string) network.Rule {
	return func(f network.Frame) network.Fate {
		if f.Stage != stage || !isScript(f, kind) {
			return network.Pass
		}
		if n--; n != 0 {
			return network.Pass
		}
		return fate
	}
}

// EveryScript is a rule for the requests, or the replies, of all scripts.
func EveryScript(fate network.Fate, stage network.Stage) network.Rule {
	return network.All(fate, stage, "EVALSHA", "EVAL")
}

// Asked returns how often the client has sent that subcommand of CLIENT.
func (p *Client) Asked(subcommand string) (n int) {
	for _, f := range p.Net.Sent("CLIENT") {
		if f.Args[1] == subcommand {
			n++
		}
	}
	return n
}
