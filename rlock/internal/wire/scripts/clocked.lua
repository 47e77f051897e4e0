-- The end of a step (queue.lua) in which a ticket joins or is looked for that takes an answer: the step is the function before.
-- Its reply has a seventh value, the clock of Redis in microseconds. The sixth is -1 if it is not there. An error, and the
-- answer to a release alone, are as they were.
end)()
if type(reply) == 'table' and not reply.err then
	local time = redis.call('time')
	reply[6] = reply[6] or -1
	reply[7] = string.format('%.0f', time[1] * 1000000 + time[2])
end
return reply
