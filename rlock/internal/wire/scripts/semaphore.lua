-- The part of a step (queue.lua) that knows a semaphore: a sorted set of the owners that have permits,
-- see permits.lua. An owner whose lease is over has none: the next command takes it out.
--
-- A step ends here if the sorted set has anything else than owners, and leaves the set as it is. A
-- release without a queue ends here, too. See ends 5 and 6 in queue.lua.
--
-- ARGV[3]  the number of permits of the semaphore. It comes with every command. While clients disagree,
--          the largest of their numbers is the bound. If more permits are held than the client of a
--          release knows of, the release grants none. Then the first tickets of other clients look,
--          since one of these clients may know of more permits.
-- (owners.lua)
-- (tenures.lua)
-- (permits.lua)
local lock, permits, reserve = KEYS[1], tonumber(ARGV[3]), ''
local left, varies, sort = 0, true, 's' -- see queue.lua
local message, told = '0', true -- Redisson has no such semaphore: nothing is published
local instant        -- the time of this step; nil before expire was called
local ended          -- the marks that the owners which expire has removed may have in the queue; nil for none
local held           -- the number of permits that are held; nil before they are counted

local more, other = moreIn(lock) -- the number of permits that owners have beside their first
if other then
	return other -- end 5
end

-- Adds to the number of permits that owners have beside their first.
local function change(add)
	addMore(lock, add)
	more, held = more + add, nil
end

local function clock()
	local time = redis.call('time')
	return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Removes the owners whose leases are over.
local function expire()
	if instant then
		return
	end
	instant = clock()
	for _, owner in ipairs(redis.call('zrangebyscore', lock, '0', instant)) do
		redis.call('zrem', lock, owner)
		change(-moreOf(owner))
		ended = ended or {}
		ended[#ended + 1] = markOf(owner)
	end
end

-- Removes the permits of a ticket, also if they were passed on: then the id in their owner is 0.
local function removeOwner(ticket)
	expire()
	local left = redis.call('zrem', lock, ticket, passedAs(ticket))
	change(-left * moreOf(ticket))
	return left
end

if #ARGV < 5 and redis.call('exists', KEYS[2]) == 0 then
	return removeOwner(ARGV[2]) -- end 6
end

local function inUse()
	expire()
	held = held or redis.call('zcard', lock) - before(more) + more
	return held
end

local function isOpen(_, member)
	return inUse() + (member and moreOf(member) or 0) < permits
end

local function isFree()
	return inUse() == 0
end

local function hasLock(ticket)
	expire()
	return redis.call('zscore', lock, ticket) and true
end

-- Returns the owner whose lease ends first, or false, and the end of this lease.
local function soonest()
	expire()
	local first = redis.call('zrange', lock, before(more), before(more), 'withscores')
	return first[1] or false, tonumber(first[2])
end

local function holder()
	return (soonest())
end

-- Returns none: a look asks only the client of the permit that ends first, which is holder().
local function holders()
	return {}
end

-- Returns the rest of the lease that ends first; -2 if no permit is taken.
local function leaseLeft()
	local owner, ends = soonest()
	return owner and math.max(ends - instant, 1) or -2
end

-- Gives the ticket its permits for at least the lease. The key lives as long as the longest lease.
local function keepOwner(ticket, _, lease)
	expire()
	local ends = math.max(instant + lease, tonumber(redis.call('zscore', lock, ticket) or 0))
	change(redis.call('zadd', lock, string.format('%.0f', ends), ticket) * moreOf(ticket))
	local last = redis.call('zrange', lock, '-1', '-1', 'withscores')[2]
	local expires = redis.pcall('pexpire', lock, string.format('%.0f', last - instant))
	if expires ~= 1 then
		change(-redis.call('zrem', lock, ticket) * moreOf(ticket))
		return nil, expires
	end
	return ''
end

local addOwner = keepOwner
