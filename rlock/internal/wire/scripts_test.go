package wire_test

import (
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/core"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

func TestACallWhoseScriptTheServerHasForgottenIsSentAgain(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	id := wire.NewID()
	release := redis.CallOf(leave(&keys, id.Owner(1)))
	ways := map[string]func() error{
		"one": func() error { return redis.Do(t.Context(), release).Error() },
		"one and a message": func() error {
			return redis.DoAndTell(t.Context(), release, wire.ClientMessage{Verb: wire.Forced, Owner: id.Owner(1), Text: "lock"}).Error()
		},
		"one that waits for replicas": func() error {
			x := leave(&keys, id.Owner(1))
			redis.DoReplicated(t.Context(), x)
			return x.Answer.Err
		},
	}
	for name, send := range ways {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, do(t, redis, "SCRIPT", "FLUSH").Error())
			require.NoError(t, send(), "forgotten")
			require.NoError(t, send(), "known")
		})
	}
}

func TestOnlyTheCallsWhoseScriptTheServerHasForgottenAreSentAgain(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	id := wire.NewID()
	acquire := func() wire.Call {
		return wire.Acquire.Call(2, keys.Key, keys.Queue(), "30000", id.Owner(1))
	}
	require.Error(t, redis.Do(t.Context(), wire.Acquire.Call(0)).Error(), "the script is known now, and has changed nothing")
	release := redis.CallOf(leave(&keys, id.Owner(1)))

	results, _ := redis.DoAll(t.Context(), []wire.Call{release, acquire(), release, acquire()})
	require.Len(t, results, 4)
	left, err := results[0].AsInt64()
	require.NoError(t, err)
	assert.Zero(t, left)
	_, err = results[1].ToMessage()
	assert.True(t, rueidis.IsRedisNil(err), "the lock is not granted")
	left, err = results[2].AsInt64()
	require.NoError(t, err)
	assert.Zero(t, left)
	denial, err := results[3].ToArray()
	require.NoError(t, err, "it was executed more than once")
	assert.Len(t, denial, 2)
}

// A call may have to send the unmark of a tenure, though the keeper sends most: it is no call of a script.
func TestAnUnmarkIsCarriedByItself(t *testing.T) {
	redis := open(t)
	keys := keysOf(t, redis, "lock", wire.Plain.Layout)
	owner := wire.NewID().Owner(1)
	require.NoError(t, do(t, redis, "ZADD", keys.Queue(), "0", "!"+owner[:wire.TenureLen-1]).Error())
	x := &wire.Exchange{Cmd: core.Command{Op: core.Unmark}, Kind: wire.Plain, Keys: &keys, Text: owner}
	redis.Carry(t.Context(), x)
	require.NoError(t, x.Answer.Err)
	there, err := do(t, redis, "EXISTS", keys.Queue()).AsInt64()
	require.NoError(t, err)
	assert.Zero(t, there)
}

// The parts of a step are one script, and so see one another's locals. A part uses those names of an
// earlier one that the headers of queue.lua and foreign.lua list, and declares none of them anew.
func TestAPartOfAStepUsesTheNamesThatAnEarlierOneLists(t *testing.T) {
	listed := regexp.MustCompile(`(?m)^--   (\S+(?: \S+)*)`)
	declared := regexp.MustCompile(`(?m)^local (?:function )?(\w+(?:, \w+)*)`)
	inner := regexp.MustCompile(`\b(?:local function \w+\(|local|for \w+,|for) *(\w+)`) // also declared in a smaller scope
	noCode := regexp.MustCompile(`--.*|'[^'\n]*'`)
	word, arguments := regexp.MustCompile(`\w+`), regexp.MustCompile(`\(.*?\)`)
	text := func(names ...string) (all string) {
		for _, name := range names {
			file, err := os.ReadFile("scripts/" + name + ".lua")
			require.NoError(t, err)
			all += string(file)
		}
		return all
	}
	shared := make(map[string]bool)
	for _, line := range listed.FindAllStringSubmatch(text("queue", "foreign"), -1) {
		for _, name := range word.FindAllString(arguments.ReplaceAllString(line[1], ""), -1) {
			shared[name] = true
		}
	}
	for _, kind := range []string{text("plain", "swift", "owners"), text("rw", "owners"), text("semaphore", "owners", "permits")} {
		known := make(map[string]bool)
		for _, part := range []string{kind, text("queue"), text("foreign"), text("grant")} {
			part = noCode.ReplaceAllString(part, "")
			own, declares := make(map[string]bool), make(map[string]bool)
			for _, name := range inner.FindAllStringSubmatch(part, -1) {
				declares[name[1]] = true
			}
			for _, names := range declared.FindAllStringSubmatch(part, -1) {
				for _, name := range word.FindAllString(names[1], -1) {
					assert.False(t, known[name], "an earlier part has the name %s", name)
					own[name] = true
				}
			}
			for _, name := range word.FindAllString(part, -1) {
				if known[name] && !shared[name] && !declares[name] {
					assert.Fail(t, "a name that no header lists", name)
				}
			}
			maps.Copy(known, own)
		}
	}
}

// A lease that is over as soon as it is set leaves no key: PEXPIRE has deleted the key by the time
// at which the script goes on, and a field that is written then would have no lease.
func TestALeaseThatIsOverAtOnceLeavesNoKey(t *testing.T) {
	redis := open(t)
	id := wire.NewID()
	holder, next := id.Owner(7), id.Owner(8)
	passed := holder[:wire.TenureLen] + "0"
	for name, row := range map[string]struct {
		data []string // the lock as it is before
		call wire.Call
	}{
		"mirror": {[]string{"HSET", "lock", holder, "1"}, wire.Mirror.Call(1, "lock", "p", "=0", passed, "1", "", "")},
		"mirror of a reader": {
			[]string{"HSET", "lock", "mode", "read", holder, "1"},
			wire.ReadWriteMirror.Call(3, "lock", "prefix", "channel", "p", "=0", passed, "0", "1", ""),
		},
		"mirror of a writer": {
			[]string{"HSET", "lock", "mode", "write", holder + ":write", "1"},
			wire.ReadWriteMirror.Call(3, "lock", "prefix", "channel", "p", "=0", passed, "1", "0", ""),
		},
		"mirror of a permit": {[]string{"ZADD", "lock", "4102444800000", holder}, wire.SemaphoreMirror.Call(1, "lock", "=0", passed)},
		"resume":             {[]string{"HSET", "lock", passed, "1"}, wire.Resume.Call(4, "lock", "queue", "foreign", "channel", "p", "0", passed, next, "x")},
		"resume of a permit": {[]string{"ZADD", "lock", "4102444800000", passed}, wire.SemaphoreResume.Call(2, "lock", "queue", "0", passed, next)},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, do(t, redis, "DEL", "lock").Error())
			require.NoError(t, do(t, redis, row.data...).Error())
			_ = redis.Do(t.Context(), row.call).Error() // the key of a reader's lease may not end at once
			there, err := do(t, redis, "EXISTS", "lock").AsInt64()
			require.NoError(t, err)
			assert.Zero(t, there, "it stays for ever")
		})
	}
}
