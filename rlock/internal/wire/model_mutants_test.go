package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock/internal/wire"
)

// A part is one script of a kind.
type part func(*modelKind) **wire.Script

func acquirePart(k *modelKind) **wire.Script  { return &k.acquire }
func stepPart(k *modelKind) **wire.Script     { return &k.step }
func guardPart(k *modelKind) **wire.Script    { return &k.guard }
func resumePart(k *modelKind) **wire.Script   { return &k.resume }
func releasePart(k *modelKind) **wire.Script  { return &k.release }
func takeoverPart(k *modelKind) **wire.Script { return &k.takeover }

func throughPart(k *modelKind) **wire.Script { return &k.letThrough }
func mirrorPart(k *modelKind) **wire.Script  { return &k.mirror }

// Each rule that lives in a script is broken in its text, and the comparison with the model must
// tell.
func TestAScriptThatBreaksARuleDiffersFromTheModel(t *testing.T) {
	manyCommands(t)
	for i, m := range []struct {
		rule     string // docs/protocol.md has those in capitals
		kind     modelKind
		part     part
		old, new string
		far      uint64 // the round to begin with, where few rounds concern the rule
	}{
		{"an acquire waits for those that wait: MARKS_COUNT", modelPlain, acquirePart,
			"redis.call('exists', KEYS[1], KEYS[2]) == 0",
			"(redis.call('exists', KEYS[1]) == 0 and redis.call('zcount', KEYS[2], '1', '+inf') == 0)", 1413},
		{"an acquire that is sent again changes nothing", modelPlain, acquirePart,
			"or redis.call('hexists', KEYS[1], ARGV[2]) == 1", "", 0},
		{"an acquire reserves tokens", modelFenced, acquirePart,
			"redis.pcall('incrby', counter, n)", "redis.pcall('incrby', counter, '1')", 0},
		{"readers go beside readers while no ticket waits, whatever the marks", modelRW, acquirePart,
			"redis.pcall('zcount', KEYS[2], 1, '+inf') == 0", "redis.call('exists', KEYS[2]) == 0", 0},
		{"a reader keeps the lock for the longest lease", modelRW, acquirePart,
			"math.max(left, tonumber(lease))", "tonumber(lease)", 0},
		{"a permit waits for those that wait", modelPermit, acquirePart, "elseif full or waited then", "elseif full then", 0},
		{"an acquire that is sent again changes no lease: AGAIN_KEEPS", modelPlain, acquirePart, "if not free then", "if false then", 0},
		{"nor that of a reader or a writer", modelRW, acquirePart, "if #holders > 0 and redis.call('hexists', name, field) == 1 then", "if false then", 0},
		{"nor that of a permit", modelPermit, acquirePart, "if own and tonumber(own) > now then\n\treturn nil\nelseif full or waited then", "if (full or waited) and not (own and tonumber(own) > now) then", 0},
		{"permits that are over are left to the next step while clients wait", modelPermit, acquirePart,
			"for i = 1, waited and 0 or #over do", "for i = 1, #over do", 295},

		{"a tenure is known by its UUID", modelPlain, stepPart, "tenureOf(shown) ~= tenureOf(ticket)", "true", 0},
		{"a ticket with a line joins in a tier: LINES", modelPlain, stepPart, "if joins and score > 1 and lineOf(asker) then", "if false then", 126},
		{"of which each has one ticket of its line", modelPlain, stepPart, "lineOf(members[i]) == line", "false", 126},
		{"and comes after those before", modelPermit, stepPart, "score = other < over and math.max(score, other) or score", "", 193},
		{"swift: a ticket with a line takes the long way", modelPlain, stepPart, "local joins = score > 0 and not lines", "local joins = score > 0", 157},
		{"swift: also one that joins with a release", modelPlain, stepPart, "behind ~= ARGV[7] and not string.find(ARGV[7], '@', 1, true)", "behind ~= ARGV[7]", 19967},
		{"a grant leaves a mark: MARKS", modelPlain, stepPart, "redis.call('zadd', queue, '0', markOf(ticketOf(member)))", "", 0},
		{"a release takes its mark out", modelPlain, stepPart, "redis.call('zrem', queue, mark)\n\tend\nend", "end\nend", 0},
		{"the client that sends the step is spared: SPARE_SPEAKER", modelPlain, stepPart,
			"if dead ~= clientOf(ticketOf(leaver or asker or '')) then", "if true then", 145},
		{"the tickets of a dead client are dropped", modelPlain, stepPart, "if clientOf(ticketOf(member)) == dead and", "if clientOf(ticketOf(member)) == '' and", 105},
		{"the marks of other permits of a client stay", modelPermit, stepPart, "and string.sub(member, 1, 1) ~= '!' then", "then", 1664},
		{"the marks of permits that have ended count: EACH_MARK", modelPermit, stepPart,
			"for i = 1, ended and #ended or 0 do", "for i = 1, 0 do", 0},
		{"a ticket whose client does not listen is dropped: SKIP_DEAF", modelRW, stepPart, "if not asks and not listens(member) then", "if false then", 145},
		{"so are those at the front while the lock is not open: DEAF_FRONT", modelPlain, stepPart, "redis.call('zrem', queue, waiter())\n\tfirst, second = front()\n\tdropped = true", "break", 0},
		{"and those before a reader", modelRW, stepPart, "while not guarded and waiter()", "while isForeign(holder()) and waiter()", 0},
		{"but not the ticket that asks", modelPlain, stepPart, "waiter() ~= asker and not listens(waiter())", "not listens(waiter())", 0},
		{"the client of the next one is told", modelPlain, stepPart, "freed or gaveUp or dropped", "freed or gaveUp", 548},
		{"marks count while only foreign clients have the lock: MARKS_ABROAD", modelPlain, stepPart, "if not isForeign(holder()) then\n\t\treturn isFree()\n\tend", "do\n\t\treturn isFree()\n\tend", 170},
		{"but not beside readers of ours", modelRW, stepPart, "\t\tif isOurs(owner) then\n\t\t\treturn false\n\t\tend\n", "", 0},
		{"but not one that polls: GRANT_POLLERS", modelPlain, stepPart,
			"family == 'c' or pollsFor(member)", "family == 'c'", 0},
		{"all readers at the front are granted the lock: ALL_AT_ONCE", modelRW, stepPart, "first, second, stale = second, nil, true", "break", 0},
		{"a join is granted a claim: JOIN_CLAIMS", modelPlain, stepPart, "joins and claimOf(asker) or lease", "lease", 0},
		{"a look inserts nothing: LOOK_KEEPS_OUT", modelPlain, stepPart,
			"local joined = joins and not", "score = asker and (tonumber(redis.call('zrange', queue, '-1', '-1', 'withscores')[2]) or 0) + 1\nlocal joined = asker and not", 0},
		{"no look shortens a lease: NEVER_SHORTEN", modelPlain, stepPart, "if redis.call('pttl', lock) < lease then", "do", 0},
		{"the same of a reader", modelRW, stepPart, "and redis.call('pttl', timeout(ticket, 1)) < lease then", "then", 0},
		{"the same of a permit", modelPermit, stepPart, "math.max(instant + lease, tonumber(redis.call('zscore', lock, ticket) or 0))", "instant + lease", 0},
		{"it asks whether a client knows of its tenure: LOOKS_ASK", modelPlain, stepPart, "if behind == asker and not joins and not pollsFor(asker) then", "if false then", 0},
		{"of permits the first", modelPermit, stepPart, "#shown > 0 and shown or {holder() or nil}) do\n\t\t\tif isOurs", "shown) do\n\t\t\tif isOurs", 0},
		{"not of one that was passed on", modelPlain, stepPart, "if isOurs(owner) and not isPassed(owner) then", "if isOurs(owner) then", 30},
		{"a grant is told", modelPlain, stepPart, "if not refused and not asks then", "if false then", 0},
		{"also of one that polls: TELL_POLLERS", modelPlain, stepPart, "if not refused and not asks then", "if not refused and not asks and not pollsFor(member) then", 23},
		{"a grant reserves tokens", modelFenced, stepPart, "return reserveTokens(counter, reserve)", "return reserveTokens(counter, '1')", 0},
		{"a free lock is told to foreign clients", modelPlain, stepPart, "not told and redis.pcall(publish, channel, message)", "false", 0},
		{"so is one without a queue", modelPlain, stepPart, "redis.pcall(ARGV[1] == 's' and 'spublish' or 'publish', KEYS[4], message)", "0", 0},
		{"a queue in which a client waits lives on", modelPlain, stepPart, "if joins and not begins and not full then\n\t\tredis.call('pexpire', queue, silence)", "if false then", 0},
		{"as long as one that begins", modelPlain, stepPart, "begins and redis.pcall('pexpire', queue, silence)", "nil", 0},
		{"a look keeps the queue", modelPlain, stepPart, "if asker and not joins then", "if false then", 0},
		{"marks alone are kept for the lease", modelPlain, stepPart, "string.format('%.0f', math.max(leaseLeft(), 1))", "silence", 0},
		{"a queued join behind another is answered at once", modelRW, stepPart, "return {left, leaseLeft(), holder(), -1, 1}", "return {left, leaseLeft(), holder(), -1, 2}", 0},
		{"the lock is open for readers while it is read", modelRW, stepPart, "return isFree() or asked == 's' and mode == 'read'", "return isFree()", 0},
		{"a writer that leaves wakes all", modelRW, stepPart, "message = wrote and '01' or message", "", 0},
		{"readers that are left keep the lock for the longest lease among them", modelRW, stepPart, "redis.call('pexpire', lock, string.format('%.0f', longest))\n\t\tgiven", "given", 0},
		{"readers whose lease has ended do not keep the lock", modelRW, stepPart, "longest = math.max(longest, redis.call('pttl', timeout(reader, n)))", "longest = redis.call('pttl', lock)", 0},
		{"there are no more holders than permits", modelPermit, stepPart, "(member and moreOf(member) or 0) < permits", "(member and moreOf(member) or 0) <= permits", 0},
		{"a ticket has all its permits or none: ALL_PERMITS", modelPermit, stepPart, "(member and moreOf(member) or 0) < permits", "0 < permits", 0},
		{"a release gives back all its permits", modelPermit, stepPart, "change(-left * moreOf(ticket))", "", 0},
		{"so does the end of a lease", modelPermit, stepPart, "change(-moreOf(owner))", "", 0},
		{"a grant takes all its permits", modelPermit, stepPart, "change(redis.call('zadd', lock, string.format('%.0f', ends), ticket) * moreOf(ticket))", "redis.call('zadd', lock, string.format('%.0f', ends), ticket)", 0},
		{"a grant that is repeated takes none", modelPermit, stepPart, "change(redis.call('zadd', lock, string.format('%.0f', ends), ticket) * moreOf(ticket))", "redis.call('zadd', lock, string.format('%.0f', ends), ticket) change(moreOf(ticket))", 0},
		{"permits that were passed on are given back", modelPermit, stepPart, ".. (at and string.sub(owner, at) or '')", "", 38},
		{"an acquire takes all its permits or none", modelPermit, acquirePart, "+ 1 + moreOf(ARGV[2]) >", "+ 1 >", 0},
		{"which count from then on", modelPermit, acquirePart, "addMore(KEYS[1], moreOf(ARGV[2]))\n", "\n", 0},
		{"until their lease is over", modelPermit, acquirePart, "addMore(KEYS[1], -moreOf(over[i]))", "", 2790},
		{"as those count whose lease is over while clients wait", modelPermit, acquirePart, "more = more - moreOf(over[i])", "", 9668},
		{"those that may know of more permits look", modelPermit, stepPart, "if varies and freed and first and first == ahead then", "if false then", 21},
		{"but not the client that has left", modelPermit, stepPart, "{[clientOf(ticketOf(leaver))] = true}, 0", "{}, 0", 0},
		{"a permit whose lease is over is free", modelPermit, stepPart, "for _, owner in ipairs(redis.call('zrangebyscore', lock, '0', instant)) do", "for _, owner in ipairs({}) do", 0},

		{"swift: a join behind another is answered at once", modelPlain, stepPart, "shown, score > 0 and -1 or -2, score > 0 and 1 or 2}", "shown, score > 0 and -1 or -2, 2}", 0},
		{"swift: so is the first, and as the first", modelPlain, stepPart, "shown, score > 0 and -1 or -2, score > 0 and 1 or 2}", "shown, score > 0 and -1 or -2, 1}", 0},
		{"swift: a grant leaves a mark", modelPlain, stepPart, "redis.call('zadd', KEYS[2], '0', '!' .. string.sub(next, 1, 36))", "", 777},
		{"swift: a release takes its mark out", modelPlain, stepPart, "redis.pcall('zrem', KEYS[2], first, mark)", "redis.pcall('zrem', KEYS[2], first)", 0},
		{"swift: a ticket whose client does not listen is dropped", modelPlain, stepPart, "and counts[4] > 0 and", "and", 42},
		{"swift: a grant is for a claim", modelPlain, stepPart, "letter == 'x' and '2000'", "letter == 'x' and '3000'", 0},
		{"swift: of a brief ticket for a brief one", modelPlain, stepPart, "letter == 'b' and '500'", "letter == 'b' and '2000'", 384},
		{"a grant to a brief ticket is for a brief claim: BRIEF_CLAIMS", modelRW, stepPart, "== 'b' and 500 or 2000", "== 'b' and 2000 or 2000", 0},
		{"to any other for a long one: CLAIMS_AS_ASKED", modelPermit, stepPart, "== 'b' and 500 or 2000", "== 'b' and 500 or 500", 0},
		{"a brief ticket writes", modelRW, stepPart, "letter == 'b' and 'x' or letter", "letter", 0},
		{"and its client is counted", modelPlain, stepPart, "string.find(member, '^%u')", "string.find(member, '^[%ub]')", 0},
		{"swift: a grant reserves tokens", modelFenced, stepPart, "reserveTokens(KEYS[7] or KEYS[5], number)", "reserveTokens(KEYS[7] or KEYS[5], '1')", 99},
		{"swift: a join goes to an end", modelPlain, stepPart, "redis.call('zrange', KEYS[2], '-1', '-1', 'withscores')[2] + 2", "1", 1953},
		{"swift: a join with a bound goes on in queue.lua", modelPlain, stepPart, "if #ARGV == 6 and ARGV[4] == '0'", "if #ARGV >= 6 and ARGV[4] == '0'", 0},
		{"swift: so does the first where a foreign client listens", modelPlain, stepPart, "'numsub', KEYS[4])[2] == 0", "'numsub', KEYS[4])[2] ~= nil", 0},
		{"swift: or waits in the fair queue", modelPlain, stepPart, "if score == 0 and (ARGV[1] == 'p' or ARGV[1] == 's') and (not KEYS[6] or redis.call('exists', KEYS[5]) == 0) then", "if score == 0 and (ARGV[1] == 'p' or ARGV[1] == 's') then", 50},
		{"swift: or may poll", modelPlain, stepPart, "if score == 0 and (ARGV[1] == 'p' or ARGV[1] == 's') and", "if score == 0 and", 45},
		{"swift: and one behind a window", modelPlain, stepPart, "last[1] ~= '?' and last[1] ~= ARGV[6]", "last[1] ~= ARGV[6]", 346},
		{"swift: and that of the last ticket", modelPlain, stepPart, "and last[1] ~= ARGV[6] and shown", "and shown", 52},
		{"swift: and that of the owner", modelPlain, stepPart, "and shown ~= string.sub(ARGV[6], 2)\n", "\n", 0},
		{"swift: a ticket that is sent again keeps its place", modelPlain, stepPart, "redis.call('zadd', KEYS[2], 'nx', score + 2, ARGV[6])", "redis.call('zadd', KEYS[2], score + 2, ARGV[6])", 25},
		{"swift: a join is behind the last", modelPlain, stepPart, "'nx', score + 2, ARGV[6]", "'nx', math.max(score, 2), ARGV[6]", 0},
		{"swift: it keeps the queue", modelPlain, stepPart, "if redis.pcall('pexpire', KEYS[2], '60000') == 1 then\n\t\t\t\treturn {0", "if true then\n\t\t\t\treturn {0", 0},
		{"swift: the first in the queue may be the owner's mark", modelPlain, stepPart, "first, behind = behind, front[3]", "first, behind = behind, nil", 802},
		{"swift: no grant where a foreign client listens", modelPlain, stepPart, "if counts[2] == 0 and counts[4] > 0", "if counts[4] > 0", 171},
		{"swift: nor for a release of another tenure", modelPlain, stepPart, "and redis.call('hdel', KEYS[1], ticket) == 1 then", "and redis.call('hdel', KEYS[1], ticket) >= 0 then", 0},
		{"swift: a grant shows the ticket once", modelPlain, stepPart, "redis.call('hset', KEYS[1], next, '1')", "redis.call('hset', KEYS[1], next, '2')", 0},
		{"swift: it tells the token", modelFenced, stepPart, "'+' .. next .. ' ' .. token ..", "'+' .. next .. ' ' .. number ..", 99},
		{"swift: on the channel of the ticket's client", modelPlain, stepPart, "string.sub(first, 2, 20)", "string.sub(ticket, 1, 19)", 281},
		{"swift: it takes the ticket out", modelPlain, stepPart, "redis.pcall('zrem', KEYS[2], first, mark)", "redis.pcall('zrem', KEYS[2], mark)", 0},
		{"swift: a mark alone is kept for the lease", modelPlain, stepPart, "if not behind then -- the mark", "if false then -- the mark", 777},
		{"swift: but not one before tickets", modelPlain, stepPart, "if not behind then -- the mark", "if true then -- the mark", 802},
		{"swift: a grant beside a join leaves a mark", modelPlain, stepPart, "'nx', '0', '!' .. string.sub(next, 1, 36), score, ARGV[7])", "'nx', score, ARGV[7])", 0},
		{"swift: and lets the ticket join", modelPlain, stepPart, "'nx', '0', '!' .. string.sub(next, 1, 36), score, ARGV[7])", "'nx', '0', '!' .. string.sub(next, 1, 36))", 0},
		{"swift: which keeps the queue", modelPlain, stepPart, "score, ARGV[7])\n\t\t\t\t\tredis.call('pexpire', KEYS[2], '60000')", "score, ARGV[7])", 0},
		{"swift: the answer says whether the ticket is the first", modelPlain, stepPart, "behind and 1 or 2}", "2}", 1953},
		{"swift: or another one", modelPlain, stepPart, "behind and 1 or 2}", "1}", 0},
		{"swift: and that the owner has left", modelPlain, stepPart, "return {1, tonumber(claim), next, -2,", "return {0, tonumber(claim), next, -2,", 0},
		{"swift: and for whom", modelPlain, stepPart, "return {1, tonumber(claim), next, -2,", "return {1, tonumber(claim), ticket, -2,", 0},
		{"swift: and for how long", modelPlain, stepPart, "return {1, tonumber(claim), next, -2,", "return {1, 1000, next, -2,", 0},
		{"swift: that to a release says that the owner had the lock", modelPlain, stepPart, "return 1 -- end 4", "return 0 -- end 4", 777},

		{"a join is undone if too many wait: BOUND", modelPlain, stepPart, "redis.call('zrem', queue, asker)\n\t\tfirst, second = front()", "first, second = front()", 0},
		{"not if they are as many as may: BOUND_ITSELF", modelPlain, stepPart, "tickets('+inf') > tonumber(most)", "tickets('+inf') >= tonumber(most)", 0},
		{"after the tickets of the dead are dropped: BOUND_LAST", modelPlain, stepPart, "local joined = joins and not", "if most and redis.call('zcount', queue, '1', '+inf') >= tonumber(most) then\n\treturn {left, leaseLeft(), holder() or '', -2, {-1, 0, redis.call('zcount', queue, '1', '+inf')}}\nend\nlocal joined = joins and not", 0},
		{"nor does it keep the queue: BOUND_KEEPS_NOT", modelPlain, stepPart, "if joins and not begins and not full then", "if joins and not begins then", 0},
		{"a window of foreign clients does not wait", modelPlain, stepPart, "(counts and 1 or 0)", "0", 0},
		{"no ticket with a bound joins by the short way", modelRW, stepPart, "and not most and not ended", "and not ended", 0},

		{"a mirror of another tenure shows that the lock is lost", modelPlain, mirrorPart, "tenureOf(former) ~= tenureOf(owner)", "false", 0},
		{"a tenure that is handed off stays the same", modelPlain, mirrorPart, "tenureOf(former) ~= tenureOf(owner)", "former ~= owner", 0},
		{"a late mirror does not take back a lock that was passed on: PASS_STANDS", modelPlain, mirrorPart, "or isPassed(former) then", "then", 0},
		{"nor a read lock or a write lock", modelRW, mirrorPart, "or isPassed(mine[1]) and not isPassed(owner) then", "then", 0},
		{"a guarded write needs its tenure", modelPlain, guardPart, "elseif has ~= 1 then", "elseif false then", 0},
		{"a guarded write goes on after a hand-off", modelPlain, guardPart, "has = 1 end", "has = 0 end", 33},
		{"so does that of a reader, or of a writer", modelRW, guardPart, "tenureOf(field) == tenure", "string.find(field, ARGV[args - 1], 1, true) == 1", 0},
		{"a guarded write does not find a lock that was passed on", modelPlain, guardPart, "and not isPassed(shown) then", "then", 0},
		{"nor one of readers, or of a writer, that was passed on", modelRW, guardPart, "and not isPassed(field) then", "then", 86},
		{"a guarded write needs the mode of its hold", modelRW, guardPart, "has or isWriter(field)", "true", 0},
		{"a reader's guarded write needs its lease", modelRW, guardPart, ":rwlock_timeout:1') == 1", ":rwlock_timeout:1') >= 0", 275},
		{"a permit's guarded write needs its lease", modelPermit, guardPart, "tonumber(ends) <=", "0 >", 158},
		{"so does one that a release carries", modelPlain, releasePart, "elseif has ~= 1 then", "elseif false then", 0},
		{"which goes on if that is refused", modelPlain, releasePart, "local stepped, left = pcall(function(KEYS, ARGV)", "local stepped, left = pcall(function(KEYS, ARGV) if refused then return 0 end", 0},
		{"and needs the mode of its hold, too", modelRW, releasePart, "has or isWriter(field)", "true", 28},
		{"and the lease of a permit", modelPermit, releasePart, "tonumber(ends) <=", "0 >", 285},
		{"an answer takes tickets out of the queue", modelPlain, releasePart, "redis.pcall('zrem', queue, member)", "", 34},
		{"but only those that take one", modelPlain, releasePart, "if string.lower(string.sub(member, 1, 1)) == 'a' then", "if true then", 32},
		{"also those that poll", modelPlain, releasePart, "string.lower(string.sub(member, 1, 1)) == 'a'", "string.sub(member, 1, 1) == 'a'", 34},
		{"but none of those of a hold that is fenced", modelPlain, releasePart, "if done and not refused and type(reply) == 'string' then", "if done and (refused or type(reply) == 'string') then reply = 'it'", 0},
		{"a lock is resumed once", modelPlain, resumePart, "redis.call('hdel', lock, from)", "", 60},
		{"a resume that is sent again finds its tenure", modelPlain, resumePart, "and redis.call('hexists', lock, to) == 0", "", 359},
		{"a resume takes out the mark of the one that passed the lock on: RESUME_UNMARKS", modelPlain, resumePart,
			"redis.pcall('zrem', KEYS[2], markOf(from))", "", 60},
		{"so does one of a permit", modelPermit, resumePart, "redis.pcall('zrem', KEYS[2], markOf(ARGV[2]))", "", 39},
		{"a resume tells whether others wait: RESUME_TELLS", modelPlain, resumePart, "return 1 + waiting(KEYS[2]", "return 1 + 0 * waiting(KEYS[2]", 437},
		{"a resume that is sent again shortens no lease", modelPlain, resumePart, "if not passed or reads and", "if reads and", 359},
		{"nor that of a reader", modelRW, resumePart, "if redis.call('pttl', KEYS[6]) < lease then", "if true then", 80},
		{"nor that of a permit", modelPermit, resumePart, "lease = math.max(lease, redis.call('zscore', KEYS[1], ARGV[3]) - now)", "", 0},
		{"a ticket that takes the lock over stands before the others", takenPlain, takeoverPart, "(tonumber(before[#before]) or 1.5) + 2 ^ -20", "1000000", 0},
		{"behind those that came before it", takenPlain, takeoverPart, "(tonumber(before[#before]) or 1.5) + 2 ^ -20", "1.5 + 2 ^ -20", 31},
		{"not if it has the lock", takenPlain, takeoverPart, "and not owns(ticketOf(member)) then", "then", 0},
		{"a window goes behind it", takenPlain, takeoverPart, "redis.call('zadd', queue, 'xx', '2', other)", "", 0},
		{"no holder leaves if it has left", takenPlain, takeoverPart, "if leaves and not redis.call('zscore', queue, member) then", "if false then", 34},
		{"its client is not taken for dead with a holder", takenPlain, takeoverPart, "if clientOf(ticketOf(mark)) == clientOf(ticketOf(member)) then", "if mark == member then", 10191},
		{"the answer says whether the ticket stands first by that", takenPlain, takeoverPart, "score > 1 and score < 2 and 1 or 0", "1", 0},
		{"a ticket that is let through stands before the others", takenPlain, throughPart, "(tonumber(front[2]) or 1.5) - 2 ^ -20", "1.9", 83},
		{"also before those that take the lock over", takenPlain, throughPart, "(tonumber(front[2]) or 1.5)", "1.5", 458},
		{"and before a window", takenPlain, throughPart, "redis.call('zadd', queue, 'xx', '2', other)", "", 22},
		{"only past a holder that was shown", takenPlain, throughPart, "elseif not isShown() then", "elseif false then", 52},
		{"whose owner may have changed since", takenRW, throughPart, "isOurs(owner) and tenureOf(owner) == tenureOf(ARGV[i])", "false", 0},
		{"also one of permits", takenPermit, throughPart, "redis.call('zrange', lock, '0', '-1')", "{}", 0},
		{"no reader is let through", takenRW, throughPart, "elseif string.find(member, '^[sSaA]') then", "elseif false then", 24},
		{"nor one whose client does not listen", takenPlain, throughPart, "channel)[2] == 0 then", "channel)[2] == -1 then", 0},
		{"its client is notified", takenPlain, throughPart, "redis.call(sharded and 'spublish' or 'publish', channel, ", "local _ = tostring(", 0},
		{"a mirror says that a ticket takes the lock over", takenPlain, mirrorPart, "takes > 0 and -n - 2 or n", "n", 120},
		{"so does that of a permit", takenPermit, mirrorPart, "replies[i] = -replies[i]", "", 22},
		{"a permit that asks learns how many tickets wait", modelPermit, mirrorPart, "replies[i] = 1 + (type(tickets)", "local _ = 1 + (type(tickets)", 23},
		{"a mirror renews", modelPlain, mirrorPart, "redis.call('pexpire', key, lease)", "", 0},
		{"a mirror only lengthens the lease: ONLY_LENGTHENS", modelPlain, mirrorPart, "elseif redis.call('pttl', key) < tonumber(lease) then", "else", 0},
		{"that of a writer", modelRW, mirrorPart, "if not exact then", "if not exact and writes == '0' then", 0},
		{"that of a reader", modelRW, mirrorPart, "(exact or redis.call('pttl', timeout) < lasts)", "true", 32},
		{"nor does another owner, who reads", modelRW, mirrorPart, "longest = math.max(longest, redis.call('pttl', prefix .. ':' .. field .. ':rwlock_timeout:1'))", "longest = 0", 68},
		{"nor a writer who only reads", modelRW, mirrorPart, "if mode == 'write' then\n\t\treturn redis.call('pttl', name)", "if mode == 'write' then\n\t\treturn 0", 33},
		{"an exact one of a reader leaves the lock to the others", modelRW, mirrorPart, "longest = math.max(longest, readFor(name, prefix, owner))", "", 0},
		{"for no longer than they read", modelRW, mirrorPart, "math.max(longest, readFor(name, prefix, owner))", "math.max(longest, redis.call('pttl', name))", 0},
		{"that of a permit", modelPermit, mirrorPart, "math.max(tonumber(lease), ends - now)", "tonumber(lease)", 0},
		{"but an exact one shortens it", modelPlain, mirrorPart, "redis.call('pexpire', key, string.sub(lease, 2))", "", 0},
		{"the pass of a lock changes the lease once: PASSES_ONCE", modelPlain, mirrorPart, "if not shown or not isPassed(owner) then", "do", 83},
		{"and that of a read-write lock", modelRW, mirrorPart, "if not mine and isPassed(owner) then", "if false then", 20},
		{"and that of a permit", modelPermit, mirrorPart, "elseif not was and isPassed(owner) then", "elseif false then", 110},
		{"a mirror tells whether others wait: MIRROR_TELLS", modelPlain, mirrorPart, "redis.pcall('zcount', queue, 1, '+inf')", "0", 30},
		{"a tenure that gave up the write lock does not get it back", modelRW, mirrorPart, "or mode == 'read' and writes ~= '0' or", "or", 36},
		{"a downgrade wakes readers", modelRW, mirrorPart, "redis.pcall(family == 's' and 'spublish' or 'publish', channel, '01')", "", 0},
		{"the lease of a reader does not shorten that of others", modelRW, mirrorPart, "longest = math.max(longest, redis.call('pttl', name))", "", 0},
		{"a permit whose lease is over is lost", modelPermit, mirrorPart, "if not ends or tonumber(ends) <= now then", "if not ends then", 156},

		{"foreign clients are told of a lease that is shorter: SHORTER_TOLD", modelPlain, mirrorPart, "redis.pcall(publish, channel, message)", "", 0},
		{"also the first of the fair queue", modelPlain, mirrorPart, "redis.pcall(publish, channel .. ':' .. head, '00')", "", 50},
		{"so is the first ticket: SHORTER_LOOKS", modelPlain, mirrorPart, "if first and first ~= '?' and isPassed(owner) then", "if false then", 30},
		{"also those of a read-write lock", modelRW, mirrorPart, "shortened(KEYS[3*i-2], ARGV[5*i-2], ARGV[5*i-3], ARGV[5*i+1], KEYS[3*i], '01')", "", 0},
		{"foreign clients that listen have a window", modelPlain, stepPart, "waits = math.max((listeners[channel] or 0) - (listeners[ears] or 0), 0)", "", 0},
		{"clients of ours that listen are not counted", modelPlain, stepPart, "- (listeners[ears] or 0), 0)", ", 0)", 0},
		{"so have those in the fair queue", modelPlain, stepPart, "processes[process], waits = true, waits + 1", "", 0},
		{"of which each process counts once", modelPlain, stepPart, "elseif not processes[process] then", "else", 21},
		{"a window goes before the ticket that joins: GUESTS_FIRST", modelPlain, stepPart, "score = score or redis.call", "score = redis.call", 0},
		{"a window goes before a ticket that joins alone, too: ALONE_COUNTS", modelPlain, stepPart, "if not guarded or joined and first == asker then", "if not guarded then", 0},
		{"a window never stays alone in the queue: NEVER_ALONE", modelRW, stepPart, "if not behind and not on then\n\t\tredis.call('zrem', queue, '?')", "if false then", 0},
		{"a release without a queue begins a window: ACQUIRE_WAITS", modelPlain, stepPart, "if here and isWindowDue() and redis.pcall('zadd', queue, '1', '?') == 1 then", "if false then", 0},
		{"its queue ends with it", modelPlain, stepPart, "redis.pcall('pexpire', queue, state.e - now)", "1", 0},
		{"no ticket is granted the lock in a window", modelPlain, stepPart, "while first and not on and isOpen", "while first and isOpen", 0},
		{"the first ticket is told that a window begins, or that those before it left: FRONT_TOLD", modelPlain, stepPart, "on and told or freed or gaveUp or dropped", "false", 0},
		{"the answer has the rest of the window: WINDOW_TOLD", modelPlain, stepPart, "on and math.max(state.e - now, 0) or -2", "-2", 0},
		{"foreign clients that only poll have windows: POLL_TURNS", modelPlain, stepPart, "return polls and now", "return false and now", 0},
		{"these are longer", modelPlain, stepPart, "state.p and longest or state.l or shortest", "state.l or shortest", 0},
		{"a window ends", modelPlain, stepPart, "(now >= state.e or waits == 0 and not state.p", "(waits == 0 and not state.p", 0},
		{"a window ends when no foreign client is left", modelPlain, stepPart, "or waits == 0 and not state.p) then", ") then", 117},
		{"also beside readers of ours", modelRW, stepPart, "state.b and not isForeign(holder()) and (now", "state.b and isFree() and (now", 2197},
		{"also before it has begun", modelRW, stepPart, "elseif not state.b and first == '?' and waits == 0 and not state.p then", "elseif false then", 21},
		{"in a Cluster with plain pub/sub one that had the lock wants it again", modelPlainUncounted, stepPart, "now - (state.s or 0) < memory and 1 or 0", "0", 0},
		{"after a window in vain the next one is far away", modelPlain, stepPart, "used and 0 or 16", "0", 0},
		{"of those that are counted, not of pollers: OWN_TIMES", modelPlain, stepPart, "return now >= (state.n or 0)", "return now >= math.max(state.n or 0, state.q or 0)", 75},
		{"nor the other way round", modelPlain, stepPart, "polls and now >= (state.q or 0)", "polls and now >= math.max(state.q or 0, state.n or 0)", 5291},
		{"after one of pollers in vain theirs is", modelPlain, stepPart, "used and 2 or 16", "used and 2 or 0", 0},
		{"and longer", modelPlain, stepPart, "math.min(2 * math.max(state.e - state.b, shortest), longest)", "shortest", 0},
		{"but not after one of pollers", modelPlain, stepPart, "if not polled and (used or waits > 0) then", "if used or waits > 0 then", 0},
		{"also after one for which no ticket waited", modelPlain, stepPart, "state.l = used and shortest or math.min(2 * (state.l or shortest), longest)", "state.l = shortest", 261},
		{"unless that was used", modelPlain, stepPart, "used and shortest or math.min(2 * (state.l", "math.min(2 * (state.l", 0},
		{"but none begins before a ticket that comes after it: ONE_TURN", modelPlain, stepPart, "had = not freed and isFree()", "", 89},
		{"unless it was granted the lock since", modelPlain, stepPart, "had = not freed and isFree()", "had = true", 0},
		{"after one that pollers used ours have twice its idle time", modelPlain, stepPart, "used and 2 or 16", "used and 0 or 16", 77},
		{"a window that is used lasts on", modelPlain, stepPart, "if state.b and not state.u and (heard or isForeign(holder())) then", "if false then", 0},
		{"also where the use was only heard", modelPlain, stepPart, "(heard or isForeign(holder()))", "isForeign(holder())", 89},
		{"for as long as a client had", modelPlain, stepPart, "math.min(0.75 * mean, most)", "most", 475},
		{"whose tickets are several", modelPlain, stepPart, "10 * math.max(#tickets / clients, 1)", "10", 83},
		{"and is over at once only if all of that is", modelPlain, stepPart, "if not state.p and mean * processes <= since then", "if not state.p then", 0},
		{"which is not asked of pollers", modelPlain, stepPart, "if not state.p and mean", "if mean", 1543},
		{"for each process that waits", modelPlain, stepPart, ", math.max(1, math.min(waits, 8)), ", ", 1, ", 0},
		{"the first ticket of a second client looks as well: DEPUTY", modelPlain, stepPart, "if member == asker then\n\t\t\t\tfollows = asker", "if member == asker then", 0},
		{"not one of the first client", modelPlain, stepPart, "member ~= '?' and clientOf(ticketOf(member)) ~= client", "member ~= '?'", 0},
		{"nor one behind these", modelPlain, stepPart, "if client then\n\t\t\t\tbreak\n\t\t\tend", "", 0},
		{"it is told with the first", modelPlain, stepPart, "elseif tells then\n", "elseif tells and not client then\n", 49},
		{"if neither is heard of, those behind them look: UNHEARD", modelPlain, stepPart, "elseif now - state.h >= unheard then", "elseif false then", 26},
		{"which is noted", modelPlain, stepPart, "if state.h and now - state.h >= 500 then", "if false then", 0},
		{"from the first look of those on", modelPlain, stepPart, "if state.h and now - state.h >= 500 then", "if now - (state.h or 0) >= 500 then", 0},
		{"one that is the first only now looks if the lock was passed on: PASSED_NEXT", modelPlain, stepPart, "passed = passed or isPassed(owner)", "", 75},
		{"so does one behind a grant of a permit", modelPermit, stepPart, "(behind ~= foremost or gaveUp or dropped)", "(gaveUp or dropped)", 2636},
		{"and the first when a permit is passed on", modelPermit, mirrorPart, "callFirst(KEYS[i], KEYS[at])", "", 23},
		{"waiters of the fair lock are called", modelPlain, stepPart, "redis.pcall(publish, channel .. ':' .. head, '00')", "", 0},
		{"we take a place among them", modelPlain, stepPart, "redis.pcall('lpush', fairQueue, place)", "0", 0},
		{"at the front", modelPlain, stepPart, "redis.pcall('lpush', fairQueue, place)", "redis.pcall('rpush', fairQueue, place)", 0},
		{"for as long as the lease goes on", modelPlain, stepPart, "if fairQueue and (placed or state.f) then", "if fairQueue and not placed and state.f then", 162},
		{"we leave it when a ticket is granted the lock", modelPlain, stepPart, "if placed then\n\t\t\tleavePlace()\n\t\tend", "", 93},
		{"and when no ticket waits", modelPlain, stepPart, "if placed then\n\t\tleavePlace()\n\tend", "", 0},
		{"readers of ours are held back for a writer", modelRW, stepPart, "heldBack = math.max(starved - (now - state.w), 0)", "heldBack = 0", 0},
		{"and then let on", modelRW, stepPart, "ipairs(heldBack == 0 and", "ipairs(false and", 134},
		{"foreign readers are told when a writer of ours lets readers in: READERS_TOLD", modelRW, stepPart, "if reads and message == '01' and not told", "if false", 267},
		{"by a window before a reader of ours, which then waits no longer: READERS_WINDOW", modelRW, stepPart, "if lets and not on", "if false", 61},
		{"also after a downgrade", modelRW, stepPart, "message == '01' or not asker and not leaver", "message == '01'", 61},
		{"readers read beside foreign ones: READERS_BESIDE", modelRW, stepPart, "while first == '?' and second and", "while false and", 0},
		{"but not before a writer", modelRW, stepPart, "second and modeOf(second) == 's' and isForeign(holder())", "second and isForeign(holder())", 0},
		{"nor are they held back for a writer that does not wait", modelRW, stepPart, "\tout = second\n", "", 0},
		{"when they leave in a window, those for whom it is are told: WINDOW_FREED", modelRW, stepPart, "if freed and on and not told and isFree() then", "if false then", 45},
		{"a mirror counts foreign clients", modelPlain, mirrorPart, "n = n + math.max(counts[2] - counts[4], 0)", "", 0},
		{"those of the fair queue", modelPlain, mirrorPart, "n = redis.call('exists', fair)", "", 177},
		{"and those that only poll, when their window is due", modelPlain, mirrorPart, "if n == 0 and polls then", "if false then", 44},
	} {
		t.Run(m.rule, func(t *testing.T) {
			if i%10 != 0 {
				redistest.Slow(t)
			}
			t.Parallel()
			script := m.part(&m.kind)
			text := (*script).Text()
			require.Equal(t, 1, strings.Count(text, m.old), "the rule stands elsewhere in the script now")
			*script = wire.ScriptOf(strings.Replace(text, m.old, m.new, 1))
			c := compare(t, newEmbedded(t), m.kind)
			for n := range uint64(4000) {
				if n == 50 {
					redistest.Slow(t)
				}
				if _, difference := c.round(m.far + n); difference != "" {
					assert.NotContains(t, difference, "ERR", "the script does not run")
					return
				}
			}
			assert.Fail(t, "the comparison does not tell")
		})
	}
}
