-- Comes behind the source of a condition. A string that the source returns is the answer to the
-- call, and the command is not executed.
--
-- {clock, false, answer}  the clock of Redis in microseconds, and the answer
-- an error                the error of the source: the command was not executed either
-- else                    the reply of the command
if type(met) == 'string' then
	local time = redis.call('time')
	return {string.format('%.0f', time[1] * 1000000 + time[2]), false, met}
elseif type(met) == 'table' and met.err then
	return met
end
