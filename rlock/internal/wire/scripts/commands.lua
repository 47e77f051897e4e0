-- The source of a guarded write that is a list of commands: it executes them in their order, up to
-- the first error.
--
-- KEYS[i]  the keys of the commands
-- ARGV     for each command: the number of its words, and the words
--
-- An array with the reply to each command that was executed. If the last reply is an error, the
-- commands behind it were not executed.
local replies, at = {}, 1
while at <= #ARGV do
	local last = at + ARGV[at]
	local reply = redis.pcall(unpack(ARGV, at + 1, last))
	replies[#replies + 1] = reply
	if type(reply) == 'table' and reply.err then
		break
	end
	at = last + 1
end
return replies
