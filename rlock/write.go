package rlock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Exec executes a Lua script in Redis if this hold has the lock: the script and the look at the lock are one atomic step
// and one round trip, so that a process that was stopped past its lease writes nothing. Keys and args are KEYS and ARGV of
// the script. The keys must not be those of a lock, and in a Cluster they must be in its slot: see [Lock.Key].
//
// If the hold does not have the lock, nothing is written, the error is [ErrFenced], and the hold is told of its loss. If
// no answer comes before ctx ends, or the connection breaks, the error is [ErrUnconfirmed]: the script may have been
// executed, or may be until Redis no longer has the lock for this hold. An error of the script is returned as it is, and the
// hold goes on. A script that may run twice in a hold must say so itself; Exec sends it once.
//
// A read hold may write: it is guarded by being a reader. A lock over several refuses ([errors.ErrUnsupported]).
func (h *Hold) Exec(ctx context.Context, script string, keys, args []string) (rueidis.RedisMessage, error) {
	return h.held.Write(ctx, script, keys, args)
}

// mostWords is how many words of a command Lua passes on.
const mostWords = 7000

// Do executes commands in Redis as [Hold.Exec] does a script, one after the other: each is its words, as in
// []string{"SET", "stock", "7"}, whose keys are named in keys. It returns the replies. At the first error it stops: the
// error says which command failed, those before it were executed, and the replies are theirs.
func (h *Hold) Do(ctx context.Context, keys []string, commands ...[]string) ([]rueidis.RedisMessage, error) {
	if len(commands) == 1 && len(commands[0]) > 0 && len(commands[0]) <= mostWords {
		reply, err := h.held.Write(ctx, "return redis.pcall(unpack(ARGV))", keys, commands[0])
		if err != nil {
			return nil, err
		}
		return []rueidis.RedisMessage{reply}, nil
	}
	var args []string
	for _, words := range commands {
		if len(words) == 0 || len(words) > mostWords {
			return nil, fmt.Errorf("rlock: %w: a command has %d words", ErrInvalidConfig, len(words))
		}
		args = append(append(args, strconv.Itoa(len(words))), words...)
	}
	reply, err := h.held.Write(ctx, wire.Commands, keys, args)
	if err != nil {
		return nil, err
	}
	replies, err := reply.ToArray()
	if last := len(replies) - 1; err == nil && last >= 0 {
		if failed := replies[last].Error(); failed != nil && !rueidis.IsRedisNil(failed) {
			replies, err = replies[:last], fmt.Errorf("rlock: command %d of %d, %s, was refused, and those before it were executed: %w",
				last+1, len(commands), commands[last][0], failed)
		}
	}
	return replies, err
}

// Key returns the name of a key beside the lock: in a Cluster it is in the lock's slot, so that [Hold.Do] may write it.
func (l *Lock) Key(name string) string { return wire.Beside(l.form().Title(), name) }
