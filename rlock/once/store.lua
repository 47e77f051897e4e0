-- Stores a value, behind value.lua, as a part of the release of its lock, and returns it as the
-- answer for those that wait: see ReleaseWith. The value is never as old as the one before it.
--
-- KEYS[1]  the hash of the value: s stored at, u kept until, b its function began (µs of Redis'
--          clock), r run, k kind, v value; f, when the value was forgotten, -1 for never: see
--          forget.lua
-- ARGV[1]  for how long it is kept, in µs
-- ARGV[2]  when the hash expires, in ms
-- ARGV[3]  the run
-- ARGV[4]  the kind: v for a value, e for an error
-- ARGV[5]  the value
-- ARGV[6]  the longest value that an answer has, in bytes
-- ARGV[7]  when its function began, at the earliest, in µs; 0 if that is not known
-- ARGV[8]  of a value that is stored under a later hold than that of its run: when its function had
--          ended, in µs
--
-- "<s> <u> <b> <run> <kind> <value>", or with the kind "-" and no value if that is longer
local there = s or f -- the hash exists, and has an expiry
local now = tonumber(ARGV[8])
if not now then
	local time = redis.call('time')
	now = time[1] * 1000000 + time[2]
end
local last, forgotten = tonumber(s or 0), tonumber(f or -1)
if last >= now then
	now = last + 1
end
s, u = string.format('%.0f', now), string.format('%.0f', now + ARGV[1])
if forgotten >= tonumber(ARGV[7]) then
	u = s -- the function may have read its data before that
end
redis.call('hset', KEYS[1], 's', s, 'u', u, 'b', ARGV[7], 'r', ARGV[3], 'k', ARGV[4], 'v', ARGV[5], 'f', -1)
local expires = redis.pcall('pexpire', KEYS[1], ARGV[2])
if expires ~= 1 then
	if not there then
		redis.call('hdel', KEYS[1], 's', 'u', 'b', 'r', 'k', 'v', 'f') -- no hash stays without an expiry
	end
	return expires
end
local head = s .. ' ' .. u .. ' ' .. ARGV[7] .. ' ' .. ARGV[3]
if #ARGV[5] > tonumber(ARGV[6]) then
	return head .. ' - '
end
return head .. ' ' .. ARGV[4] .. ' ' .. ARGV[5]
