-- Stores a value, as a part of the release of its lock, and returns it as the answer for those that wait: see ReleaseWith.
-- The value is never as old as the one before it.
--
-- KEYS[1]  the hash of the value: s stored at, u kept until (µs of Redis' clock), r run, k kind, v value
-- ARGV[1]  for how long it is kept, in µs
-- ARGV[2]  when the hash expires, in ms
-- ARGV[3]  the run
-- ARGV[4]  the kind: v for a value, e for an error
-- ARGV[5]  the value
-- ARGV[6]  the longest value that an answer has, in bytes
-- ARGV[7]  of a value that is stored under a later hold than that of its run: when its function had ended, in µs
--
-- "<s> <u> <run> <kind> <value>", or with the kind "-" and no value if that is longer
local now = tonumber(ARGV[7])
if not now then
	local time = redis.call('time')
	now = time[1] * 1000000 + time[2]
end
local last = tonumber(redis.call('hget', KEYS[1], 's') or 0)
if last >= now then
	now = last + 1
end
local s, u = string.format('%.0f', now), string.format('%.0f', now + ARGV[1])
redis.call('hset', KEYS[1], 's', s, 'u', u, 'r', ARGV[3], 'k', ARGV[4], 'v', ARGV[5])
redis.call('pexpire', KEYS[1], ARGV[2])
if #ARGV[5] > tonumber(ARGV[6]) then
	return s .. ' ' .. u .. ' ' .. ARGV[3] .. ' - '
end
return s .. ' ' .. u .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5]
