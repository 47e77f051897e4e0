-- Comes between the source of a guarded write that a release carries and the step: see release.lua. A
-- string that the source returns is an answer: the tickets that take an answer ("a" and "A") leave the
-- queue, and their clients are notified. A client that misses the message looks for its ticket within
-- two seconds, and finds that the ticket is gone.
--
-- "=<ticket> <n> <lock><answer>"  on the client's channel of the lock (queue.lua); n is the length
--                                 of the lock's name
if done and not refused and type(reply) == 'string' then
	-- (tenures.lua)
	local lock, queue = stepKeys[1], stepKeys[2]
	local publish = string.sub(stepArgs[1], 1, 1) == 's' and 'spublish' or 'publish'
	local members = redis.pcall('zrangebyscore', queue, '1', '+inf')
	for _, member in ipairs(members.err and {} or members) do
		if string.lower(string.sub(member, 1, 1)) == 'a' then
			redis.pcall('zrem', queue, member)
			redis.pcall(publish, 'rlock_grants:' .. string.sub(queue, 13) .. ':' .. clientOf(ticketOf(member)),
				'=' .. ticketOf(member) .. ' ' .. #lock .. ' ' .. lock .. reply)
		end
	end
end
