-- Takes a tenure out of a read-write lock, whatever it has of it, and tells whoever
-- waits if that lets them in, as the unlockInnerAsync of Redisson's
-- RedissonReadLock and RedissonWriteLock.
--
-- KEYS[1]  the lock's name (rw_acquire.lua says what it holds)
-- KEYS[2]  what its readers' keys begin with
-- KEYS[3]  the lock's channel
-- ARGV[1]  owner, "<uuid>:<id>", the uuid being that of the tenure to end
-- ARGV[2]  "PUBLISH" or "SPUBLISH", by the rule that the waiters subscribe by
--
-- 1        released, and nobody has the lock: 1 was published if it was written,
--          which wakes everybody, 0 if it was read
-- 2        released, and other readers go on: they keep the hash for as long as the
--          longest lease among them
-- 0        it was not ours: nothing was changed, nothing published
-- an error that ends in "(released)": it is done, but the message was refused
--
-- Readers whose keys have ended died without a word: once no other is left, they
-- do not keep the lock.
--
-- Only a uuid of version 8 is a tenure. Redisson's is a process, with threads that hold
-- the lock apart, so that of an owner of Redisson the whole text counts.
--
-- Sending it again changes nothing: the second time it is not ours.
local name, prefix, channel, owner, publish = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

local function timeout(field, n)
	return prefix .. ':' .. field .. ':rwlock_timeout:' .. n
end

local function isOurs(field)
	if string.sub(owner, 15, 15) == '8' then
		return string.sub(field, 1, 37) == string.sub(owner, 1, 37)
	end
	return field == owner or field == owner .. ':write'
end

local function tell(message, reply)
	local told = redis.pcall(publish, channel, message)
	if type(told) == 'table' then
		return redis.error_reply(told.err .. ' (released)')
	end
	return reply
end

local holds = redis.call('hgetall', name)
local ours, wrote, longest = false, false, 0
for i = 1, #holds, 2 do
	local field, count = holds[i], tonumber(holds[i + 1])
	local writer = string.sub(field, -6) == ':write'
	if isOurs(field) then
		ours = true
		wrote = wrote or writer
		redis.call('hdel', name, field)
		for n = 1, writer and 0 or count do
			redis.call('del', timeout(field, n))
		end
	elseif writer then
		longest = math.max(longest, redis.call('pttl', name))
	elseif field ~= 'mode' then
		for n = 1, count do
			longest = math.max(longest, redis.call('pttl', timeout(field, n)))
		end
	end
end
if not ours then
	return 0
end
if longest > 0 then
	redis.call('pexpire', name, longest)
	if wrote then
		redis.call('hset', name, 'mode', 'read')
		return tell('1', 2)
	end
	return 2
end
redis.call('del', name)
return tell(wrote and '1' or '0', 1)
