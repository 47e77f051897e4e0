-- Acquires the read lock or the write lock of a name without waiters, for a tenure that has
-- neither, wire-exact with the tryLockInnerAsync of Redisson's RedissonReadLock and
-- RedissonWriteLock.
--
-- KEYS[1]  the lock's name, see rw.lua
-- KEYS[2]  its queue, see queue.lua; for a reader beside readers its marks do not count, since they may
--          belong to these readers
-- KEYS[3]  the beginning of the readers' keys
-- KEYS[4]  the key of this reader: "<KEYS[3]>:<owner>:rwlock_timeout:1"
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the UUID belongs to this tenure alone
-- ARGV[3]  the mode that is asked for, "read" or "write"
--
-- nil      acquired: owner has a count of 1 and its lease begins now; readers keep
--          the hash for the longest lease among them
-- {n, o}   refused: owner o has the lock for n more milliseconds (-1: its key has no TTL), and
--          excludes this owner, or other clients wait for the lock, or have their window; {-2, ""}:
--          the lock is free, and other clients wait for it, or have their window
-- an error nothing was acquired: the server has refused the lease, or "WRONGTYPE": the hash has
--          something else than owners, and is left as it is
--
-- A release or a grant needs the keys of other readers. They cannot be declared, since they are
-- unknown until the script has read the hash. A server that refuses undeclared keys refuses this
-- script, at a key that never exists, before the first write.
--
-- A hash without a mode is a lock of another kind. Redisson would add a mode to it;
-- here it excludes readers and writers.
--
-- Sent again while the owner has the lock, it changes nothing: see acquire.lua.
-- (owners.lua)
local name, lease, owner, asked = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local field = asked == 'write' and owner .. ':write' or owner
local open = redis.call('exists', name, KEYS[2], KEYS[3] .. ':rwlock_timeout:0') == 0
local holders = {} -- the fields without the mode
if not open then
	local hash, mode = redis.call('hgetall', name), nil
	for i = 1, #hash, 2 do
		if hash[i] == 'mode' then
			mode = hash[i + 1]
		elseif mayOwn(hash[i], hash[i + 1]) then
			holders[#holders + 1] = hash[i]
		else
			return noLock('hash with the field', hash[i])
		end
	end
	if mode and #holders == 0 and redis.call('pttl', name) == -1 then -- with a TTL it is a lock: the server refused DEL to a release
		return noLock('hash with the field', 'mode')
	end
	if asked == 'read' and mode == 'read' then
		open = redis.pcall('zcount', KEYS[2], 1, '+inf') == 0
	end
end

if #holders > 0 and redis.call('hexists', name, field) == 1 then
	return nil
end
if not open then
	return {redis.call('pttl', name), holders[#holders] or ''}
end

local left = redis.call('pttl', name)
if asked == 'read' then
	redis.call('set', KEYS[4], '1', 'px', lease)
end
redis.call('hset', name, 'mode', asked, field, '1')
-- If the access rules of the server refuse the lease, no lock without an end may be left behind.
local expires = redis.pcall('pexpire', name, string.format('%.0f', math.max(left, tonumber(lease))))
if expires ~= 1 then
	redis.call('hdel', name, field)
	if redis.call('hlen', name) == 1 then
		redis.call('del', name)
	end
	return expires
end
return nil
