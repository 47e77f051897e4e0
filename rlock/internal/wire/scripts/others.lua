-- The part of a mirror (mirror.lua, rw_mirror.lua) that counts the others that wait. It
-- comes before the kind's part, in the same script.
--
-- ARGV[1]  how to count subscribers: as in queue.lua. Keys and other arguments are the
--          kind's
--
-- others returns how many tickets and guests wait for the lock of that queue. Guests that
-- nobody can count are one while it is their turn.
local family, polls = string.sub(ARGV[1], 1, 1), #ARGV[1] > 1

local function others(queue, channel)
	local n = redis.pcall('zcount', queue, 1, '+inf')
	if type(n) == 'table' then
		n = 0
	end
	if family ~= 'c' then
		local ushers = 'rlock_turn:' .. string.sub(queue, 13) .. ':ushers'
		local counts = redis.pcall('pubsub', family == 's' and 'shardnumsub' or 'numsub', channel, ushers)
		if not counts.err then
			n = n + math.max(counts[2] - counts[4], 0)
		end
	end
	if n > 0 then
		return n
	end
	local window = 'rlock_guests:' .. string.sub(queue, 13)
	local met = redis.call('pttl', window .. ':met')
	if met <= 0 and not polls then
		return 0
	end
	local turn = family == 'c' and met > 58000 or redis.call('exists', window .. ':polled') == 0
	return turn and 1 or 0
end

