-- The end of an acquire (acquire.lua) of a call that takes an answer. The text before is the acquire,
-- as a function.
--
-- {clock, r}  the clock of Redis in microseconds, and the reply of acquire.lua, if it is not nil
-- an error    the error of acquire.lua
end)()
if type(reply) == 'table' and reply.err then
	return reply
end
local time = redis.call('time')
return {string.format('%.0f', time[1] * 1000000 + time[2]), reply}
