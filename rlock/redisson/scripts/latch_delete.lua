-- Deletes the count of a latch, which opens it. The message is 1, like Redisson's.
--
-- KEYS[1]  the count
-- KEYS[2]  the channel
-- ARGV[1]  the command that publishes
--
-- 1        deleted
-- 0        there was no count
if not number then
	return 0
end
redis.call('del', KEYS[1])
local told = redis.pcall(ARGV[1], KEYS[2], '1')
if type(told) == 'table' and told.err then
	return redis.error_reply(told.err .. ' (released)')
end
return 1
