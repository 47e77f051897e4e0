-- Comes before the scripts of permits with leases, behind number.lua: takes back the permits that
-- have ended.
--
-- KEYS[1]  the number of free permits
-- KEYS[2]  the permits that are taken, a sorted set of their ids (16 bytes) by the time in
--          milliseconds at which they end; 922337203685477 is never
-- KEYS[3]  the channel
-- ARGV[1]  the command that publishes
--
-- A message is the number of free permits, which is the number of waiters that each client of
-- Redisson wakes. The clock is Redis'; Redisson's clients use clocks of their own.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local never = '922337203685477'

local receivers = 0 -- the number of subscribers that have got the last message
local function tell()
	local free = redis.call('get', KEYS[1])
	if free and tonumber(free) > 0 then
		local told = redis.pcall(ARGV[1], KEYS[3], free)
		if type(told) == 'table' and told.err then
			return redis.error_reply(told.err .. ' (released)')
		end
		receivers = told
	end
end

-- Redis takes some 8 000 arguments from a table.
local function sweep()
	local swept = 0
	while true do
		local ended = redis.call('zrangebyscore', KEYS[2], '0', string.format('%.0f', now), 'limit', '0', '1000')
		if #ended == 0 then
			break
		end
		redis.call('zrem', KEYS[2], unpack(ended))
		swept = swept + #ended
	end
	if swept > 0 then
		redis.call('incrby', KEYS[1], swept)
		tell()
	end
end

local function ending(lease)
	return lease == '0' and never or string.format('%.0f', now + lease)
end
