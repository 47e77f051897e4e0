-- Acquires a lock that is free, wire-exact with Redisson's tryLockInnerAsync.
--
-- KEYS[1]  the lock's name
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the uuid is this tenure's alone
--
-- nil      acquired: owner has a count of 1 and the lease begins now
-- {n, o}   held by owner o for n more milliseconds (-1: its key has no TTL)
--
-- A server that refuses the lease, by its access rules, must not keep a lock that
-- never ends.
--
-- Sending it again changes nothing: it sets the count, it does not add to it.
-- (Redisson adds: issue 7367, one lock with a count of two that is never freed.)
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	redis.call('hset', KEYS[1], ARGV[2], 1)
	local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
	if expires ~= 1 then
		redis.call('del', KEYS[1])
		return expires
	end
	return nil
end
return {redis.call('pttl', KEYS[1]), redis.call('hkeys', KEYS[1])[1]}
