-- The sorted set of a semaphore. A line "-- (permits.lua)" of another file is replaced by this one. It
-- has no KEYS and no ARGV of its own, and reads and writes the key that it is given.
--
-- A member is an owner, and its score the end of the owner's lease, in milliseconds of Redis' clock.
-- An owner of k permits, more than one, ends in "*k". While there are such owners, the set also has
-- the member "*" with the score -n: n is the number of permits that they have beside their first. So
-- the number of held permits is known without a look at all owners, and costs nothing if each owner
-- has one permit.

-- Returns the number of permits that the owner has beside its first, like CutMore of wire/owner.go.
local function moreOf(owner)
	local at = string.find(owner, '*', 38, true)
	return at and math.max((tonumber(string.sub(owner, at + 1)) or 1) - 1, 0) or 0
end

-- Returns the owner that stands for the permits of the given owner while they are passed on: see
-- resume.lua.
local function passedAs(owner)
	local at = string.find(owner, '*', 38, true)
	return tenureOf(owner) .. '0' .. (at and string.sub(owner, at) or '')
end

-- Returns the number of permits that all owners have beside their first, or nil and an error if the
-- key is no semaphore.
local function moreIn(key)
	local some, more = redis.call('zrange', key, '0', '0')[1], 0
	if some == '*' then
		more = -redis.call('zscore', key, some)
		some = more > 0 and redis.call('zrange', key, '1', '1')[1] or some
	end
	if some and not isOurs(some) then
		return nil, noLock('sorted set with the member', some)
	end
	return more
end

-- Returns the number of members before the first owner: 1 for "*", else 0.
local function before(more)
	return more > 0 and 1 or 0
end

-- Adds more to the number of permits that all owners have beside their first.
local function addMore(key, more)
	if more ~= 0 then
		more = more - (redis.call('zscore', key, '*') or 0)
		if more > 0 then
			redis.call('zadd', key, string.format('%d', -more), '*')
		else
			redis.call('zrem', key, '*')
		end
	end
end
