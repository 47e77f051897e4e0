-- Stores a value, behind value.lua, as a part of the release of its lock, and returns it as the
-- answer for those that wait: see ReleaseWith. The value is never as old as the one before it.
--
-- A value whose function began before a Forget is for those alone that asked before the Forget.
-- Of several since the last store, the hash has the first and the last: if only the last came after
-- the beginning, there may have been others between, and the value is for those alone that asked
-- before the function began.
--
-- KEYS[1]  the hash of the value: s stored at, a for those that asked before this time, u kept
--          until, b its function began (µs of Redis' clock), r run, k kind, v value; e and f, the
--          first and the last Forget since the store, -1 for none: see forget.lua
-- ARGV[1]  for how long it is kept, in µs
-- ARGV[2]  when the hash expires, in ms
-- ARGV[3]  the run
-- ARGV[4]  the kind: v for a value, e for an error; - for one that is not stored
-- ARGV[5]  the value
-- ARGV[6]  the longest value that an answer has, in bytes
-- ARGV[7]  when its function began, at the earliest, in µs; 0 if that is not known
-- ARGV[8]  of a value that is stored under a later hold than that of its run: when its function had
--          ended, in µs
--
-- "<s> <a> <u> <b> <run> <kind> <value>", or with the kind "-" and no value if that is longer
-- {s, a, u, b, run, "-", ""}               of a value that is not stored; it is no answer
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
if forgotten >= began then -- the function may have read its data before that; a is less than s then
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
