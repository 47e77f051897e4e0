-- The end of an acquire (acquire.lua) of a call that takes an answer: the acquire is the function
-- before this text.
--
-- {clock, r}  the clock of Redis in microseconds, and what acquire.lua returns; without r if that
--             is nil
-- an error    that of acquire.lua
end)()
if type(reply) == 'table' and reply.err then
	return reply
end
local time = redis.call('time')
return {string.format('%.0f', time[1] * 1000000 + time[2]), reply}
