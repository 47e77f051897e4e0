-- Renews permits of semaphores.
--
-- KEYS[i]   the name of the i-th semaphore, see semaphore.lua
-- ARGV[2i-1] the lease of the i-th permit in milliseconds, which begins now
-- ARGV[2i]   its owner, "<uuid>:<id>"
--
-- For each permit, in an array:
-- 0        lost: it is gone, or its lease was over
-- 1        renewed
--
-- Sending it again changes nothing but the end of the lease. A lease may become shorter; the
-- key lives as long as the longest. Its end is set first: a server without memory refuses
-- ZADD, but not after the script has written.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function renew(key, lease, owner)
	local ends = redis.call('zscore', key, owner)
	if not ends or tonumber(ends) <= now then
		return 0
	end
	local last = redis.call('zrange', key, '-2', '-1', 'withscores')
	local longest = tonumber(lease)
	for i = 1, #last, 2 do
		if last[i] ~= owner then
			longest = math.max(longest, last[i + 1] - now)
		end
	end
	redis.call('pexpire', key, string.format('%.0f', longest))
	redis.call('zadd', key, string.format('%.0f', now + lease), owner)
	return 1
end

local replies = {}
for i, key in ipairs(KEYS) do
	replies[i] = renew(key, ARGV[2*i-1], ARGV[2*i])
end
return replies
