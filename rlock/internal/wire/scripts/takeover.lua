-- The step of a ticket that takes the lock over. Its function step is the step of the kind
-- (queue.lua), with the same KEYS and ARGV: a join or a look, or a look before which a holder leaves
-- (ARGV[4] is 1), since its time is up. Around the step this script does three things:
--
-- A ticket that joins gets a score between 1 and 2, so that it stands before all others, and behind
-- earlier tickets that take the lock over: no other ticket has such a score. A window of foreign
-- clients that stands there, or a ticket whose grant was refused, gets the score 2. A ticket that an
-- operator lets through has such a score as well (let_through.lua): its client may look by this
-- script before it knows, which the reply says.
--
-- A holder leaves only if the ticket is still in the queue: so the lock is granted to that ticket, or
-- to one before it that takes the lock over as well, and to no other. Marks of the ticket's own
-- client go before that, since queue.lua would drop the tickets of that client with them.
--
-- {reply, takes, owner, ...}  the reply of the step; 1 if the ticket waits with such a score, else 0;
--                             and the owners that have the lock
-- else                        as the step, if that is no array
--
-- Sent again, a join of a ticket that has left puts it into the queue again, as any join does.
local function step(KEYS, ARGV)
-- (step)
end
-- (tenures.lua)
local lock, queue, args = KEYS[1], KEYS[2], ARGV
local leaves = ARGV[4] == '1'
local member = ARGV[leaves and 7 or 6]

-- Returns whether the ticket has the lock, which is a hash or a sorted set of permits with the ends
-- of their leases.
local function owns(ticket)
	local found = redis.pcall('hexists', lock, ticket)
	if found == 0 then
		found = redis.call('hexists', lock, ticket .. ':write')
	elseif type(found) == 'table' then
		local ends, now = redis.pcall('zscore', lock, ticket), redis.call('time')
		return type(ends) == 'string' and tonumber(ends) > now[1] * 1000 + math.floor(now[2] / 1000)
	end
	return found == 1
end

local undone = redis.pcall('zrangebyscore', queue, '1', '1')
if not undone.err then -- else the step has the error
	if ARGV[5] == '1' and not owns(ticketOf(member)) then
		local before = redis.call('zrangebyscore', queue, '(1', '(2', 'withscores')
		local absent = redis.call('exists', queue) == 0
		redis.call('zadd', queue, 'nx', string.format('%.17g', (tonumber(before[#before]) or 1.5) + 2 ^ -20), member)
		local expires = absent and redis.pcall('pexpire', queue, '60000')
		if type(expires) == 'table' then -- a queue that cannot expire: the ticket has not joined
			redis.call('zrem', queue, member)
			return expires
		end
	end
	for _, other in ipairs(undone) do
		redis.call('zadd', queue, 'xx', '2', other)
	end
	if leaves and not redis.call('zscore', queue, member) then
		args = {ARGV[1], ARGV[2], ARGV[3], '0', '0', member}
	elseif leaves then
		for _, mark in ipairs(redis.call('zrangebyscore', queue, '0', '0')) do
			if clientOf(ticketOf(mark)) == clientOf(ticketOf(member)) then
				redis.call('zrem', queue, mark)
			end
		end
	end
end

local reply = step(KEYS, args)
if type(reply) ~= 'table' or reply.err then
	return reply
end
local score = tonumber(redis.call('zscore', queue, member) or 2)
local replies, owners = {reply, score > 1 and score < 2 and 1 or 0}, redis.pcall('hkeys', lock)
if owners.err then
	owners = redis.pcall('zrange', lock, '0', '-1')
end
for _, owner in ipairs(owners) do
	if owner ~= 'mode' and owner ~= '*' and tenureOf(owner) ~= tenureOf(ticketOf(member)) then
		replies[#replies + 1] = owner
	end
end
return replies
