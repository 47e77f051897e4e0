-- Puts a ticket that waits for its turn before all others, as an operator asks, and notifies its
-- client, which goes on as that of a ticket that takes the lock over: see takeover.lua. It ends no
-- hold: the client of the ticket does, in the step that grants the ticket the lock.
--
-- The ticket gets a score between 1 and 2, lower than that of any other ticket: of several that are
-- let through the last one is first. What stands before it has the score 1, and gets 2, as in
-- takeover.lua.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  the queue
-- ARGV[1]  how to publish: as in queue.lua
-- ARGV[2]  the owner of the ticket
-- ARGV[3]  the grace of the holders in milliseconds
-- ARGV[4...]  the holders that may lose the lock
--
--  1  the ticket stands first, and its client is notified
--  0  it is not in the queue
-- -1  none of the holders has the lock
-- -2  it shares the lock, or its call takes an answer: such a ticket cannot take the lock over
-- -3  its client does not listen
--
-- Unless the reply is 1, nothing was changed. Sent again, the script does the same again.
--
-- The message on "rlock_grants:<tag>:<client>":
--
-- "><grace> <ticket> <lock>"
-- (owners.lua)
-- (tenures.lua)
local lock, queue, ticket = KEYS[1], KEYS[2], ARGV[2]

-- Returns the member of the ticket in the queue, or nil.
local function findMember()
	for _, member in ipairs(redis.call('zrangebyscore', queue, '1', '+inf')) do
		if tenureOf(ticketOf(member)) == tenureOf(ticket) then
			return member
		end
	end
end

-- Reports whether one of the holders has the lock. The id behind the UUID changes with a hand-off.
local function isShown()
	local owners = redis.pcall('hkeys', lock)
	if owners.err then
		owners = redis.call('zrange', lock, '0', '-1')
	end
	for _, owner in ipairs(owners) do
		for i = 4, #ARGV do
			if owner == ARGV[i] or owner == ARGV[i] .. ':write' or isOurs(owner) and tenureOf(owner) == tenureOf(ARGV[i]) then
				return true
			end
		end
	end
	return false
end

local member = findMember()
if not member then
	return 0
elseif not isShown() then
	return -1
elseif string.find(member, '^[sSaA]') then
	return -2
end
local sharded = ARGV[1] == 's'
local channel = 'rlock_grants:' .. string.sub(queue, 13) .. ':' .. clientOf(ticketOf(member))
if ARGV[1] ~= 'c' and redis.call('pubsub', sharded and 'shardnumsub' or 'numsub', channel)[2] == 0 then
	return -3
end
for _, other in ipairs(redis.call('zrangebyscore', queue, '1', '1')) do
	redis.call('zadd', queue, 'xx', '2', other)
end
local front = redis.call('zrangebyscore', queue, '(1', '(2', 'withscores')
if front[1] ~= member then
	redis.call('zadd', queue, 'xx', string.format('%.17g', (tonumber(front[2]) or 1.5) - 2 ^ -20), member)
end
redis.call(sharded and 'spublish' or 'publish', channel, '>' .. ARGV[3] .. ' ' .. ticketOf(member) .. ' ' .. lock)
return 1
