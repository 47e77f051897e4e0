-- Makes Redis show what is true in tenures: who owns each lock, how often, and a
-- lease that begins now. It renews, nests and hands over, all in one.
--
-- KEYS[i]     the name of the i-th lock
-- ARGV[1]     "NUMSUB" or "SHARDNUMSUB", to count a channel's subscribers by
-- ARGV[4i-2]  lease of the i-th lock in milliseconds
-- ARGV[4i-1]  its owner, "<uuid>:<id>", the uuid being the tenure's
-- ARGV[4i]    its count
-- ARGV[4i+1]  its channel, to be told of the subscribers; "" not to ask
--
-- For each lock, in an array:
-- 0        lost: the key is gone, or carries another uuid
-- 1 + n    mirrored; the channel has n subscribers (1 when not asked)
-- -1       mirrored; the server refused to count the subscribers
--
-- Sending it again changes nothing: the count is absolute. So after an error,
-- which may be about one lock, each can be sent alone.
local function mirror(key, lease, owner, count, channel)
	if redis.call('hget', key, owner) ~= count then
		local former = redis.call('hkeys', key)[1]
		if not former or string.sub(former, 1, 37) ~= string.sub(owner, 1, 37) then
			return 0
		end
		redis.call('hset', key, owner, count)
		if former ~= owner then
			redis.call('hdel', key, former)
		end
	end
	redis.call('pexpire', key, lease)
	if channel == '' then
		return 1
	end
	local subscribers = redis.pcall('pubsub', ARGV[1], channel)
	if subscribers.err then
		return -1
	end
	return 1 + subscribers[2]
end

local replies = {}
for i, key in ipairs(KEYS) do
	replies[i] = mirror(key, ARGV[4*i-2], ARGV[4*i-1], ARGV[4*i], ARGV[4*i+1])
end
return replies
