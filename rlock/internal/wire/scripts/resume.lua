-- Resumes a lock that is a hash of owners and was passed on: it replaces the owner that stands for the
-- pass, "<uuid>:0", with the owner that resumes, for a lease that begins now.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  its queue; for KEYS[2] to KEYS[4] see queue.lua
-- KEYS[3]  the windows of foreign clients
-- KEYS[4]  the channel that foreign clients listen to
-- KEYS[5]  of a read lock: the key of the former reader's lease, see rw.lua; else of a lock that
--          Redisson's fair lock may share: its queue
-- KEYS[6]  of a read lock: the key of the new reader's lease; else as in queue.lua
-- ARGV[1]  how to count, then "+" if there may be foreign clients that only poll: as in queue.lua
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  the field of the owner that stands for the pass; of a writer it ends in ":write"
-- ARGV[4]  the field of the owner that resumes, with a UUID that belongs to this tenure alone
-- ARGV[5]  "s" for a read lock, else "x"
--
-- 1 + n    resumed; n tickets and foreign clients wait for the lock: see others.lua, which comes
--          before this part
-- 0        neither owner has the lock: another owner has resumed it, it was released, or its time is
--          over
--
-- The mark of the tenure that passed the lock on is removed: a later release would take its client for
-- dead, and drop its other tickets.
--
-- Sent again, it finds the owner that has resumed, and at most lengthens the lease. The lease comes
-- first: a server without memory refuses HSET, but not after the script has written.
local lock, lease, from, to, reads = KEYS[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == 's'
local passed = redis.call('hexists', lock, from) == 1
if not passed and redis.call('hexists', lock, to) == 0 then
	return 0
end
local longest = lease
if not passed or reads and redis.call('hlen', lock) > 2 then -- the resume is sent again, or others read
	longest = math.max(longest, redis.call('pttl', lock))
end
redis.call('pexpire', lock, string.format('%.0f', longest))
if passed and redis.call('exists', lock) == 1 then -- see mirror.lua
	redis.call('hset', lock, to, '1')
	redis.call('hdel', lock, from)
end
if reads then
	redis.call('del', KEYS[5])
	if redis.call('pttl', KEYS[6]) < lease then
		redis.call('set', KEYS[6], '1', 'px', lease)
	end
end
redis.pcall('zrem', KEYS[2], markOf(from))
return 1 + waiting(KEYS[2], KEYS[3], not reads and KEYS[5], KEYS[4], #ARGV[1] > 1)
