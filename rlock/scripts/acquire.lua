-- Acquires a lock that is free, wire-exact with Redisson's tryLockInnerAsync.
--
-- KEYS[1]  the lock's name
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the uuid is this tenure's alone
--
-- nil      acquired: owner has a count of 1 and the lease begins now
-- n        held by another for n more milliseconds (-1: its key has no TTL)
--
-- Sending it again changes nothing: it sets the count, it does not add to it.
-- (Redisson adds: issue 7367, one lock with a count of two that is never freed.)
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	redis.call('hset', KEYS[1], ARGV[2], 1)
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
return redis.call('pttl', KEYS[1])
