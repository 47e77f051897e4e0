-- Takes one off the count of a latch. At zero the key is deleted, and a message 0 opens the gates. A
-- message 0 at any other count would make clients of Redisson read the count in a loop.
--
-- KEYS[1]  the count
-- KEYS[2]  the channel
-- ARGV[1]  the command that publishes
--
-- The count; -1 for a latch without a count.
if redis.call('exists', KEYS[1]) == 0 then
	return -1
end
local count = redis.call('decr', KEYS[1])
if count > 0 then
	return count
end
redis.call('del', KEYS[1])
if count == 0 then
	local told = redis.pcall(ARGV[1], KEYS[2], '0')
	if type(told) == 'table' and told.err then
		return redis.error_reply(told.err .. ' (released)')
	end
end
return 0
