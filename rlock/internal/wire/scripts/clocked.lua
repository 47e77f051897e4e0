-- The end of a step (queue.lua) in which a ticket that takes an answer joins or is looked for: the
-- step is the function before. The clock of Redis in microseconds is the seventh value of its
-- reply, and -1 the sixth if the step has none. An error, and the reply to a release alone, are
-- returned as they are.
end)()
if type(reply) == 'table' and not reply.err then
	local time = redis.call('time')
	reply[6] = reply[6] or -1
	reply[7] = string.format('%.0f', time[1] * 1000000 + time[2])
end
return reply
