-- Sets the count of a latch that has none. A message 1 shuts the gates of waiting clients of
-- Redisson.
--
-- KEYS[1]  the count, read by number.lua
-- KEYS[2]  the channel
-- ARGV[1]  the count
-- ARGV[2]  the command that publishes
--
-- 1        set
-- 0        there is a count
if number then
	return 0
end
redis.call('set', KEYS[1], ARGV[1])
local told = redis.pcall(ARGV[2], KEYS[2], '1')
if type(told) == 'table' and told.err then
	return redis.error_reply(told.err .. ' (released)')
end
return 1
