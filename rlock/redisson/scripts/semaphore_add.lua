-- Adds permits, or takes some off, and wakes waiters: a message is the number of free permits,
-- which is how many waiters each client of Redisson wakes. So 0 and less are not told.
--
-- KEYS[1]  the number of free permits; created if it is not there
-- KEYS[2]  the channel
-- ARGV[1]  how many to add
-- ARGV[2]  the command by which it is published
--
-- How many subscribers have got the message, of Java and Go. An error that ends with "(released)":
-- they are added, but the message was refused.
local free, told = redis.call('incrby', KEYS[1], ARGV[1]), 0
if free > 0 then
	told = redis.pcall(ARGV[2], KEYS[2], free)
	if type(told) == 'table' then
		return redis.error_reply(told.err .. ' (released)')
	end
end
return told
