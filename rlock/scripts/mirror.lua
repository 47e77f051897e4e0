-- Makes Redis show the state of tenures: the owner of each lock, its count, and a lease
-- that begins now. It renews, nests and hands over, all in one.
--
-- KEYS[i]     the name of the i-th lock
-- ARGV[1]     how to count subscribers: as in queue.lua
-- ARGV[5i-3]  lease of the i-th lock in milliseconds
-- ARGV[5i-2]  its owner, "<uuid>:<id>", the UUID being the tenure's
-- ARGV[5i-1]  its count
-- ARGV[5i]    its queue, to be told how many others wait; "" not to ask
-- ARGV[5i+1]  its channel, to which guests listen; likewise
--
-- For each lock, in an array:
-- 0        lost: the key is gone, or carries another UUID
-- 1 + n    mirrored; n tickets and guests wait for the lock (0 when not asked)
--
-- Sending it again changes nothing: the count is absolute. So after an error,
-- which may be about one lock, each can be sent alone.
local family = string.sub(ARGV[1], 1, 1)

local function others(queue, channel)
	local n = redis.pcall('zcount', queue, 1, '+inf')
	if type(n) == 'table' then
		n = 0
	end
	if family ~= 'c' then
		local turns = 'rlock_turn:' .. string.sub(queue, 13) .. ':'
		local counts = redis.pcall('pubsub', family == 's' and 'shardnumsub' or 'numsub', channel, turns .. 'ushers')
		if not counts.err then
			n = n + math.max(counts[2] - counts[4], 0)
		end
	end
	local window = 'rlock_guests:' .. string.sub(queue, 13)
	local met = n == 0 and redis.call('pttl', window .. ':met') or 0
	if (met > 0 or #ARGV[1] > 1) and (family == 'c' and met > 58000 or redis.call('exists', window .. ':polled') == 0) then
		n = 1 -- it is the turn of guests that nobody can count
	end
	return n
end

local function mirror(key, lease, owner, count, queue, channel)
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
	return queue == '' and 1 or 1 + others(queue, channel)
end

local replies = {}
for i, key in ipairs(KEYS) do
	replies[i] = mirror(key, ARGV[5*i-3], ARGV[5*i-2], ARGV[5*i-1], ARGV[5*i], ARGV[5*i+1])
end
return replies
