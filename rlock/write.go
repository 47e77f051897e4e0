package rlock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// Exec executes a Lua script in Redis if this hold has the lock, in one atomic step and one round
// trip, so that a process that was stopped past its lease writes nothing. Keys and args are KEYS
// and ARGV. The keys must not be keys of a lock, and in a Cluster must be in the lock's slot: see
// [Lock.Key]. A read hold may write. A lock over several refuses ([errors.ErrUnsupported]).
//
// If the hold does not have the lock, nothing is written, the error is [ErrFenced], and the hold
// learns of its loss. If no answer comes before ctx ends, or the connection breaks, the error is
// [ErrUnconfirmed]: the script may have been executed, or may be until Redis no longer has the lock
// for this hold. An error of the script is returned as it is, and the hold goes on; a missing right
// is [ErrNoPermission]. The script is executed at most once: an error of its own that says it was
// not, as NOSCRIPT, is replaced.
func (h *Hold) Exec(ctx context.Context, script string, keys, args []string) (rueidis.RedisMessage, error) {
	return h.held.GuardedWrite(ctx, script, keys, args)
}

// ReleaseWith is [Hold.Exec] and [Hold.Release] in one step and one round trip: the next holder
// finds the writes. The lock is released also if the script fails. After [ErrFenced] nothing was
// written; after [ErrUnconfirmed] the script may have been executed, and is not sent again. It
// completes even if ctx has ended. A hold that is nested in another is released by two steps.
func (h *Hold) ReleaseWith(ctx context.Context, script string, keys, args []string) (rueidis.RedisMessage, error) {
	return h.held.ReleaseWith(ctx, script, keys, args)
}

// mostWords is the largest number of words of a command: Lua's unpack has a limit of about 8000.
const mostWords = 7000

// Write executes commands in their order as [Hold.Exec] does a script, and returns the replies. A
// command is its words, as []string{"SET", "stock", "7"}; keys has all keys of the commands. At the
// first error Write stops: the error says which command failed, the commands before it were
// executed, and the replies are theirs. Without commands, or with a command that names none of the
// keys, it returns [ErrInvalidConfig] and writes nothing; PUBLISH, PING, ECHO and TIME need no key.
func (h *Hold) Write(ctx context.Context, keys []string, commands ...[]string) ([]rueidis.RedisMessage, error) {
	if err := checkCommands(keys, commands); err != nil {
		return nil, err
	}
	if len(commands) == 1 {
		reply, err := h.held.GuardedWrite(ctx, "return redis.pcall(unpack(ARGV))", keys, commands[0])
		if _, own := rueidis.IsRedisErr(err); own {
			err = fmt.Errorf("rlock: guarded write: command %s was refused: %w", commands[0][0], err)
		}
		if err != nil {
			return nil, err
		}
		return []rueidis.RedisMessage{reply}, nil
	}
	var args []string
	for _, words := range commands {
		args = append(append(args, strconv.Itoa(len(words))), words...)
	}
	reply, err := h.held.GuardedWrite(ctx, wire.Commands, keys, args)
	if err != nil {
		return nil, err
	}
	replies, err := reply.ToArray()
	if last := len(replies) - 1; err == nil && last >= 0 {
		if failed := replies[last].Error(); failed != nil && !rueidis.IsRedisNil(failed) {
			replies, err = replies[:last], fmt.Errorf("rlock: guarded write: command %d of %d, %s, was refused, and those before it were executed: %w",
				last+1, len(commands), commands[last][0], cmp.Or(wire.Lack(failed), failed))
		}
	}
	return replies, err
}

// keyless are the commands that have no key, and that any node of a Cluster executes.
var keyless = []string{"PUBLISH", "PING", "ECHO", "TIME"}

// checkCommands refuses commands that a Cluster would refuse, on any server.
func checkCommands(keys []string, commands [][]string) error {
	if len(commands) == 0 {
		return fmt.Errorf("rlock: guarded write: %w: there are no commands", ErrInvalidConfig)
	}
	for i, words := range commands {
		if len(words) == 0 || len(words) > mostWords {
			return fmt.Errorf("rlock: guarded write: %w: command %d has %d words", ErrInvalidConfig, i+1, len(words))
		}
		named := slices.ContainsFunc(words[1:], func(word string) bool { return slices.Contains(keys, word) })
		if !named && !slices.Contains(keyless, strings.ToUpper(words[0])) {
			return fmt.Errorf("rlock: guarded write: %w: command %d, %s, has none of the keys %q: name its keys", ErrInvalidConfig, i+1, words[0], keys)
		}
	}
	return nil
}

// Key returns the name of a new key beside the lock, which no other lock has. In a Cluster it is in
// the lock's slot, so that [Hold.Write] may write it. For a key that exists, name the lock after
// the key: see [Client.NewLock].
func (l *Lock) Key(name string) string { return wire.Beside(l.form().Title(), name) }
