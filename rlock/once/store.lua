-- Stores a value, behind value.lua, as a part of the release of its lock, and returns the value as the
-- answer to waiting calls: see ReleaseWith. The value counts as newer than the value before it.
--
-- If the function began before a Forget, the value is only for callers that asked before the Forget. Of
-- several Forgets since the last store, the hash has the first and the last. If only the last one came
-- after the beginning of the function, there may have been others in between: then the value is only
-- for callers that asked before the function began.
--
-- KEYS[1]  the hash of the value. Times in µs of Redis' clock: s of the store; a, the value is for
--          callers that asked before it; u, the value is kept until it; b of the beginning of the
--          function. r the run, k the kind, v the value; e and f the first and the last Forget since
--          the store, -1 for none: see forget.lua
-- ARGV[1]  the time for which the value is kept, in µs
-- ARGV[2]  the time after which the hash expires, in ms
-- ARGV[3]  the run
-- ARGV[4]  the kind: v for a value, e for an error; - for a value that must not be stored
-- ARGV[5]  the value
-- ARGV[6]  the length of the longest value in an answer, in bytes
-- ARGV[7]  the earliest time at which the function may have begun, in µs; 0 if it is not known
-- ARGV[8]  only if the value is stored under a later hold than its run had: the time at which its
--          function ended, in µs
--
-- "<s> <a> <u> <b> <run> <kind> <value>"   the value, or "-" and "" for the kind and a longer value
-- {s, a, u, b, run, "-", ""}               the value must not be stored; this is no answer
local there = s or f -- the hash exists, and has an expiry
local now = tonumber(ARGV[8])
if not now then
	local time = redis.call('time')
	now = time[1] * 1000000 + time[2]
end
local last, began = tonumber(s or 0), tonumber(ARGV[7])
local first, forgotten = tonumber(e or -1), tonumber(f or -1)
if last >= now then
	now = last + 1
end
s, u = string.format('%.0f', now), string.format('%.0f', now + ARGV[1])
a = s
if forgotten >= began then -- the function may have read its data before the Forget; then a is less than s
	a, u = string.format('%.0f', math.min(math.max(first, began), now - 1)), s
end
if ARGV[4] == '-' then
	return {s, a, u, ARGV[7], ARGV[3], '-', ''}
end
redis.call('hset', KEYS[1], 's', s, 'a', a, 'u', u, 'b', ARGV[7], 'r', ARGV[3], 'k', ARGV[4], 'v', ARGV[5], 'e', -1, 'f', -1)
local expires = redis.pcall('pexpire', KEYS[1], ARGV[2])
if expires ~= 1 then
	if not there then
		redis.call('hdel', KEYS[1], 's', 'a', 'u', 'b', 'r', 'k', 'v', 'e', 'f') -- no hash stays without an expiry
	end
	return expires
end
local head = s .. ' ' .. a .. ' ' .. u .. ' ' .. ARGV[7] .. ' ' .. ARGV[3]
if #ARGV[5] > tonumber(ARGV[6]) then
	return head .. ' - '
end
return head .. ' ' .. ARGV[4] .. ' ' .. ARGV[5]
