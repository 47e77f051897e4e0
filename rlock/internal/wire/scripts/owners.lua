-- What a script knows of an owner by its text alone. A line "-- (owners.lua)" of another file
-- is replaced by this one. It has no KEYS and no ARGV of its own.
--
-- An owner is "<uuid>:<id>". The UUIDs of rlock have version 8, the UUIDs of Redisson version 4.
-- Another program may have other texts. IsOurs and MayOwn in wire/owner.go have the same rules.
local ourOwner = '^........%-....%-8...%-[89ab]...%-............:%d'

local function isOurs(owner)
	return string.find(owner, ourOwner) ~= nil
end

-- Reports whether a field of a hash may be the owner of a lock of any program: it has a colon
-- before a number, and its value, if that is given, is a count.
local function mayOwn(field, count)
	return string.find(field, ':%-?%d') ~= nil and (not count or string.find(count, '^%d+$') ~= nil)
end

-- Returns the error for a hash or a sorted set that is no lock.
local function noLock(what, member)
	return redis.error_reply('WRONGTYPE it is a ' .. what .. ' ' .. member)
end
