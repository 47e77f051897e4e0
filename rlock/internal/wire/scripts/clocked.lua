-- The end of a step (queue.lua) in which a ticket that takes an answer joins or is looked for. The text
-- before is the step, as a function. This end adds the clock of Redis in microseconds as the seventh
-- value of its reply; a sixth value that is missing becomes -1. An error, and the reply to a release
-- alone, are returned as they are.
end)()
if type(reply) == 'table' and not reply.err then
	local time = redis.call('time')
	reply[6] = reply[6] or -1
	reply[7] = string.format('%.0f', time[1] * 1000000 + time[2])
end
return reply
