-- The parts of the text of an owner, "<uuid>:<id>": docs/protocol.md says what each part means. A line
-- "-- (tenures.lua)" of another file is replaced by this one. It has no KEYS and no ARGV of its own.
-- OwnerText in wire/owner.go has the same rules.
--
-- These functions take an owner. For a member of the queue, pass ticketOf(member). swift.lua has
-- copies of them, which rlock/internal/owner_test.go compares.

-- Returns the part of the text that names the tenure: the UUID and the colon.
local function tenureOf(owner)
	return string.sub(owner, 1, 37)
end

-- Reports whether the owner stands for a lock that was passed on. No other id begins with 0.
local function isPassed(owner)
	return string.sub(owner, 38, 38) == '0'
end

-- Returns the UUID: a tenure's for rlock, a process's for Redisson.
local function uuidOf(owner)
	return string.sub(owner, 1, 36)
end

-- Returns the id of the client.
local function clientOf(owner)
	return string.sub(owner, 1, 19)
end

-- Reports whether a field of the hash of a read-write lock names a writer.
local function isWriter(field)
	return string.sub(field, -6) == ':write'
end

-- Returns the mark of the tenure in the queue.
local function markOf(owner)
	return '!' .. uuidOf(owner)
end

-- Returns the line of a ticket, which its note has behind "@", or nil.
local function lineOf(owner)
	return string.match(owner, '@[^,*]+')
end

-- Returns the ticket of a member of the queue, without the letter before it, or the UUID of a mark.
local function ticketOf(member)
	return string.sub(member, 2)
end
