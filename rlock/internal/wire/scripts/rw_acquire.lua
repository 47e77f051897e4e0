-- Acquires the read lock or the write lock of a name that nobody waits for, for a tenure
-- that has neither, wire-exact with the tryLockInnerAsync of Redisson's RedissonReadLock
-- and RedissonWriteLock.
--
-- KEYS[1]  the lock's name, see rw.lua
-- KEYS[2]  its queue, see queue.lua; for a reader beside readers marks do not count, since
--          those may be theirs
-- KEYS[3]  the guests' turn, see queue.lua
-- KEYS[4]  what the readers' keys begin with
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the UUID belongs to this tenure alone
-- ARGV[3]  the mode that is asked for, "read" or "write"
--
-- nil      acquired: owner has a count of 1 and its lease begins now; readers keep
--          the hash for the longest lease among them
-- {n, o}   refused: owner o holds the lock, in a way that excludes this one, for n more
--          milliseconds (-1: its key has no TTL); also where clients wait for the lock,
--          or it is the guests' turn; {-2, ""}: it is free. The clients of all holders
--          that may linger are called: see queue.lua
--
-- A hash without a mode is a lock of another kind. Redisson would add a mode to it;
-- here it excludes readers and writers.
--
-- Sending it again changes nothing: it sets the count, it does not add to it.
local name, lease, owner, asked = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local field = asked == 'write' and owner .. ':write' or owner
local open = redis.call('exists', name, KEYS[2], KEYS[3]) == 0
if not open and asked == 'read' and redis.call('hget', name, 'mode') == 'read' then
	open = redis.pcall('zcount', KEYS[2], 1, '+inf') == 0 and redis.call('exists', KEYS[3]) == 0
end

if not open and redis.call('hexists', name, field) == 0 then
	local holder
	for _, f in ipairs(redis.call('hkeys', name)) do
		if f ~= 'mode' then
			holder = f
			local variant = string.sub(f, 20, 20)
			if (variant == '9' or variant == 'b') and string.sub(f, 15, 15) == '8' then
				local owner = string.gsub(f, ':write$', '')
				redis.pcall('publish', 'rlock_turn:client:' .. string.sub(f, 1, 19), 'w ' .. owner .. ' ' .. name)
			end
		end
	end
	return {redis.call('pttl', name), holder or ''}
end

local left = redis.call('pttl', name)
if asked == 'read' then
	redis.call('set', KEYS[4] .. ':' .. owner .. ':rwlock_timeout:1', '1', 'px', lease)
end
redis.call('hset', name, 'mode', asked, field, '1')
-- A server that refuses the lease, by its access rules, must not keep a lock that
-- never ends.
local expires = redis.pcall('pexpire', name, math.max(left, tonumber(lease)))
if expires ~= 1 then
	redis.call('hdel', name, field)
	if redis.call('hlen', name) == 1 then
		redis.call('del', name)
	end
	return expires
end
return nil
