package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A part is one script of a kind.
type part func(*modelKind) **wire.Script

func acquirePart(k *modelKind) **wire.Script { return &k.acquire }
func stepPart(k *modelKind) **wire.Script    { return &k.step }
func mirrorPart(k *modelKind) **wire.Script  { return &k.mirror }

// Each rule that lives in a script is broken in its text, and the comparison with the model must tell.
func TestAScriptThatBreaksARuleDiffersFromTheModel(t *testing.T) {
	manyCommands(t)
	for _, m := range []struct {
		rule     string // docs/protocol.md has those in capitals
		kind     modelKind
		part     part
		old, new string
	}{
		{"an acquire waits for those that wait: MARKS_COUNT", modelPlain, acquirePart,
			"redis.call('exists', KEYS[1], KEYS[2]) == 0",
			"(redis.call('exists', KEYS[1]) == 0 and redis.call('zcount', KEYS[2], '1', '+inf') == 0)"},
		{"an acquire that is sent again changes nothing", modelPlain, acquirePart,
			"or redis.call('hexists', KEYS[1], ARGV[2]) == 1", ""},
		{"an acquire reserves tokens", modelFenced, acquirePart,
			"redis.pcall('incrby', KEYS[3], ARGV[3])", "redis.pcall('incrby', KEYS[3], '1')"},
		{"a client that is denied calls: CALLS", modelPlain, acquirePart, "call(holder, KEYS[1])", ""},
		{"readers go beside readers while no ticket waits, whatever the marks", modelRW, acquirePart,
			"redis.pcall('zcount', KEYS[2], 1, '+inf') == 0", "redis.call('exists', KEYS[2]) == 0"},
		{"a reader keeps the lock for the longest lease", modelRW, acquirePart,
			"math.max(left, tonumber(lease))", "lease"},
		{"a permit waits for those that wait", modelPermit, acquirePart, "if (full or waited) and", "if full and"},
		{"permits that are over are left to the next step while clients wait", modelPermit, acquirePart,
			"for i = 1, waited and 0 or #over do", "for i = 1, #over do"},

		{"a tenure is known by its UUID", modelPlain, stepPart, "string.sub(shown, 1, 37) ~= string.sub(ticket, 1, 37)", "true"},
		{"a grant leaves a mark: MARKS", modelPlain, stepPart, "redis.call('zadd', queue, '0', markOf(member))", ""},
		{"a release takes its mark out", modelPlain, stepPart, "redis.call('zrem', queue, mark)\n\tend\nend", "end\nend"},
		{"the client that sends the step is spared: SPARE_SPEAKER", modelPlain, stepPart,
			"if dead ~= clientOf(leaver or asker or '') then", "if true then"},
		{"the tickets of a dead client are dropped", modelPlain, stepPart, "if clientOf(member) == dead then", "if clientOf(member) == '' then"},
		{"the marks of permits that have ended count: EACH_MARK", modelPermit, stepPart,
			"for i = 1, ended and #ended or 0 do", "for i = 1, 0 do"},
		{"a ticket whose client does not listen is dropped: SKIP_DEAF", modelPlain, stepPart, "if not asks and not listens(member) then", "if false then"},
		{"but not one that polls: GRANT_POLLERS", modelPlain, stepPart,
			"family == 'c' or string.sub(member, 1, 1) ~= modeOf(member)", "family == 'c'"},
		{"all readers at the front are granted the lock: ALL_AT_ONCE", modelRW, stepPart, "first, second, stale = second, nil, true", "break"},
		{"a join is granted a claim: JOIN_CLAIMS", modelPlain, stepPart, "joins and claim or lease", "lease"},
		{"a look inserts nothing: LOOK_KEEPS_OUT", modelPlain, stepPart,
			"local joined = joins and not", "turn = asker and (tonumber(redis.call('zrange', queue, '-1', '-1', 'withscores')[2]) or 0) + 1\nlocal joined = asker and not"},
		{"no look shortens a lease: NEVER_SHORTEN", modelPlain, stepPart, "if redis.call('pttl', lock) < lease then", "do"},
		{"the same of a reader", modelRW, stepPart, "and redis.call('pttl', timeout(ticket, 1)) < lease then", "then"},
		{"the same of a permit", modelPermit, stepPart, "math.max(now + lease, tonumber(redis.call('zscore', lock, ticket) or 0))", "now + lease"},
		{"a look calls again: LOOKS_CALL", modelPlain, stepPart, "call(shown, lock)", ""},
		{"a grant is told", modelPlain, stepPart, "string.sub(member, 1, 1) == modeOf(member) then", "false then"},
		{"a grant reserves tokens", modelFenced, stepPart, "redis.pcall('incrby', counter, reserve)", "redis.pcall('incrby', counter, '1')"},
		{"a free lock is told to foreign clients", modelPlain, stepPart, "not told and redis.pcall(publish, channel, message)", "false"},
		{"so is one without a queue", modelPlain, stepPart, "redis.pcall(string.sub(ARGV[1], 1, 1) == 's' and 'spublish' or 'publish', KEYS[4], message)", "0"},
		{"a queue in which a client waits lives on", modelPlain, stepPart, "if joins then\n\t\tredis.call('pexpire', queue, silence)", "if false then"},
		{"a look keeps the queue", modelPlain, stepPart, "if asker and not joins then", "if false then"},
		{"marks alone are kept for the lease", modelPlain, stepPart, "math.max(remaining(), 1)", "silence"},
		{"a queued join behind another is answered at once", modelPlain, stepPart, "return {left, remaining(), holder(), -1, 1}", "return {left, remaining(), holder(), -1, 2}"},
		{"the lock is open for readers while it is read", modelRW, stepPart, "return free() or asked == 's' and mode == 'read'", "return free()"},
		{"a writer that leaves wakes all", modelRW, stepPart, "message = wrote and '01' or message", ""},
		{"readers that are left keep the lock for the longest lease among them", modelRW, stepPart, "redis.call('pexpire', lock, longest)\n\t\tgiven", "given"},
		{"readers whose lease has ended do not keep the lock", modelRW, stepPart, "longest = math.max(longest, redis.call('pttl', timeout(reader, n)))", "longest = redis.call('pttl', lock)"},
		{"there are no more holders than permits", modelPermit, stepPart, "return count() < permits", "return count() <= permits"},
		{"a permit whose lease is over is free", modelPermit, stepPart, "for _, owner in ipairs(redis.call('zrangebyscore', lock, '-inf', now)) do", "for _, owner in ipairs({}) do"},

		{"a mirror of another tenure shows that the lock is lost", modelPlain, mirrorPart, "string.sub(former, 1, 37) ~= string.sub(owner, 1, 37)", "false"},
		{"a tenure that is handed off stays the same", modelPlain, mirrorPart, "string.sub(former, 1, 37) ~= string.sub(owner, 1, 37)", "former ~= owner"},
		{"a mirror renews", modelPlain, mirrorPart, "redis.call('pexpire', key, lease)", ""},
		{"a mirror tells whether others wait: MIRROR_TELLS", modelPlain, mirrorPart, "redis.pcall('zcount', queue, 1, '+inf')", "0"},
		{"a tenure that gave up the write lock does not get it back", modelRW, mirrorPart, "or mode == 'read' and writes ~= '0' then", "then"},
		{"a downgrade wakes readers", modelRW, mirrorPart, "redis.pcall(family == 's' and 'spublish' or 'publish', channel, '01')", ""},
		{"the lease of a reader does not shorten that of others", modelRW, mirrorPart, "longest = math.max(longest, redis.call('pttl', name))", ""},
		{"a permit whose lease is over is lost", modelPermit, mirrorPart, "if not ends or tonumber(ends) <= now then", "if not ends then"},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			script := m.part(&m.kind)
			text := (*script).Text()
			require.Equal(t, 1, strings.Count(text, m.old), "the rule stands elsewhere in the script now")
			*script = wire.WithText(strings.Replace(text, m.old, m.new, 1))
			c := compare(t, newEmbedded(t), m.kind)
			for n := range uint64(400) {
				if _, difference := c.round(n); difference != "" {
					assert.NotContains(t, difference, "ERR", "the script does not run")
					return
				}
			}
			assert.Fail(t, "the comparison does not tell")
		})
	}
}
