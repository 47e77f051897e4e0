-- Resumes a lock that is a hash of owners and was passed on: puts the owner that resumes in the
-- place of the one that stands for the pass, "<uuid>:0", for a lease that begins now.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  its queue, see queue.lua
-- KEYS[3]  of a read lock: the key of the former reader's lease, see rw.lua
-- KEYS[4]  and that of the one that resumes
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the field of the owner that the lock was passed on with; of a writer it ends in ":write"
-- ARGV[3]  the field of the owner that resumes, whose UUID belongs to this tenure alone
--
-- 1  resumed
-- 0  neither has the lock: it was resumed by another one, or released, or the time is over
--
-- The mark of the tenure that passed the lock on goes: it would say of a later release that the
-- client has died, whose other tickets would be dropped.
--
-- Sending it again finds the owner that has resumed, and changes nothing but the lease. That
-- comes first: a server without memory refuses HSET, but not after the script has written.
local lock, lease, from, to = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3]
local passed = redis.call('hexists', lock, from) == 1
if not passed and redis.call('hexists', lock, to) == 0 then
	return 0
end
local longest = lease
if KEYS[3] and redis.call('hlen', lock) > 2 then -- others read
	longest = math.max(longest, redis.call('pttl', lock))
end
redis.call('pexpire', lock, longest)
if passed then
	redis.call('hset', lock, to, '1')
	redis.call('hdel', lock, from)
end
if KEYS[3] then
	redis.call('del', KEYS[3])
	redis.call('set', KEYS[4], '1', 'px', lease)
end
redis.pcall('zrem', KEYS[2], '!' .. string.sub(from, 1, 36))
return 1
