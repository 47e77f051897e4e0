-- Makes Redis show what is true in a tenure: who owns the lock, how often, and
-- a lease that begins now. It renews, nests and hands over, all in one.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  the lock's channel
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>", the uuid being the tenure's
-- ARGV[3]  count
-- ARGV[4]  "NUMSUB" or "SHARDNUMSUB" to be told of the channel's subscribers,
--          "" not to ask
--
-- 0        lost: the key is gone, or carries another uuid
-- 1 + n    mirrored; the channel has n subscribers (1 when not asked)
-- -1       mirrored; the server refused to count the subscribers
--
-- Sending it again changes nothing: the count is absolute.
if redis.call('hget', KEYS[1], ARGV[2]) ~= ARGV[3] then
	local former = redis.call('hkeys', KEYS[1])[1]
	if not former or string.sub(former, 1, 37) ~= string.sub(ARGV[2], 1, 37) then
		return 0
	end
	redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
	if former ~= ARGV[2] then
		redis.call('hdel', KEYS[1], former)
	end
end
redis.call('pexpire', KEYS[1], ARGV[1])
if ARGV[4] == '' then
	return 1
end
local subscribers = redis.pcall('pubsub', ARGV[4], KEYS[2])
if subscribers.err then
	return -1
end
return 1 + subscribers[2]
