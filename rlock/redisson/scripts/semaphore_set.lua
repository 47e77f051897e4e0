-- Sets the number of free permits if there is none, also for permits with leases.
--
-- KEYS[1]  the number of free permits, read by number.lua
-- KEYS[2]  the channel
-- ARGV[1]  the number of free permits
-- ARGV[2]  the command that publishes
--
-- 1        set
-- 0        there is a number
if number then
	return 0
end
redis.call('set', KEYS[1], ARGV[1])
if tonumber(ARGV[1]) > 0 then
	local told = redis.pcall(ARGV[2], KEYS[2], ARGV[1])
	if type(told) == 'table' and told.err then
		return redis.error_reply(told.err .. ' (released)')
	end
end
return 1
