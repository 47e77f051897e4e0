-- The part of a step (queue.lua) that knows a plain or fenced lock: a hash of one owner and its count,
-- as Redisson's RLock, and the counter of the fencing tokens. Most steps end here: the header of
-- queue.lua lists all ends.
local left, told, varies, sort = 0, false, false, 'p' -- see queue.lua
local ended           -- always nil: only permits end by themselves
local message = '00'  -- Redisson reads it as its own "0", and rlock can tell the two apart

-- Most steps are the release of a lock without a queue. So this comes first: to define the rest would
-- take Redis as long again. A user without the right to publish frees the lock all the same, and the
-- error says so.
local busy = 0 -- how many of two keys exist: the queue, and Redisson's fair queue
if #ARGV[1] > 1 or #ARGV > 4 then
	busy = 2 -- a window may be due, or the step is more than a release
else
	busy = KEYS[6] and redis.call('exists', KEYS[2], KEYS[5]) or redis.call('exists', KEYS[2])
end
if busy == 0 and redis.call('hdel', KEYS[1], ARGV[2]) == 1 then
	local listeners = redis.pcall(ARGV[1] == 's' and 'spublish' or 'publish', KEYS[4], message)
	if listeners == 0 and (ARGV[1] ~= 'c' or redis.call('exists', KEYS[3]) == 0) then
		return 1 -- end 1
	elseif type(listeners) == 'table' then
		return redis.error_reply(listeners.err .. ' (released)') -- end 2
	end
	left, told = 1, true
end

-- (tokens.lua)
-- (swift.lua)
-- (owners.lua)
-- (tenures.lua)
local lock, counter, reserve = KEYS[1], KEYS[7] or KEYS[5], ARGV[3] or ''
local owner           -- the holder, false if the lock is free, nil before it is looked up
local given           -- the lease that this step has set; nil if it has set none

local function holder()
	if owner == nil then
		local fields = redis.call('hkeys', lock)
		owner = fields[1] == 'mode' and fields[2] or fields[1] or false
	end
	return owner
end

-- A tenure of rlock is found by its UUID, since the id after the UUID changes with a hand-off. The UUID
-- of a client of Redisson (version 4) names a process, so there the whole owner has to be the same.
local function removeOwner(ticket)
	if redis.call('hdel', lock, ticket) == 0 then
		local shown = holder()
		if not shown or tenureOf(shown) ~= tenureOf(ticket) or not isOurs(shown) then
			return 0
		end
		redis.call('hdel', lock, shown)
	end
	owner = false
	return 1
end

local function holders()
	return {holder() or nil}
end

local function isOpen()
	return not holder()
end

local isFree = isOpen

local function hasLock(ticket)
	return holder() == ticket
end

-- Returns the rest of the lease, as pttl does.
local function leaseLeft()
	return not holder() and -2 or given or redis.call('pttl', lock)
end

local function tokens()
	if reserve == '' then
		return ''
	end
	return reserveTokens(counter, reserve)
end

local function addOwner(ticket, _, lease)
	local token, refused = tokens()
	if refused then
		return nil, refused
	end
	local expires = redis.pcall('hset', lock, ticket, '1')
	if type(expires) == 'number' then
		expires = redis.pcall('pexpire', lock, lease)
	end
	if expires ~= 1 then
		redis.call('hdel', lock, ticket)
		return nil, expires
	end
	owner, given = ticket, lease
	return token
end

-- Keeps the lock for the ticket that has it, for at least the lease.
local function keepOwner(_, _, lease)
	if redis.call('pttl', lock) < lease then
		redis.call('pexpire', lock, lease)
	end
	return tokens()
end

-- A hash of anything else than owners is left as it is. A release need not check: it removes only its
-- own owner.
if #ARGV >= 5 and ARGV[4] ~= '1' and holder() and not mayOwn(holder()) then
	return noLock('hash with the field', holder()) -- end 5
end
