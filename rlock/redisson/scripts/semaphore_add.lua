-- Adds permits, or removes some, and wakes waiters: a message is the number of free permits, which is
-- the number of waiters that each client of Redisson wakes. So no message says 0 or less.
--
-- KEYS[1]  the number of free permits; created if it does not exist
-- KEYS[2]  the channel
-- ARGV[1]  the number of permits to add
-- ARGV[2]  the command that publishes
--
-- The number of subscribers, of Java and Go, that got the message. An error that ends with
-- "(released)": the permits are added, but the message was refused.
local free, told = redis.call('incrby', KEYS[1], ARGV[1]), 0
if free > 0 then
	told = redis.pcall(ARGV[2], KEYS[2], free)
	if type(told) == 'table' then
		return redis.error_reply(told.err .. ' (released)')
	end
end
return told
