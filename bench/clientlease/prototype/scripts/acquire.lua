-- Acquires a lock that is free, or whose holder's client lease is over.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  absent, or the client lease that the last refusal named
-- ARGV[1]  lease in milliseconds, the lock's own
-- ARGV[2]  owner
--
-- nil        acquired: the lock has a lease of its own, as every lock of rlock
-- {m, o, c}  refused: owner o holds the lock; c is the client lease that it depends on, ""
--            while it has a lease of its own; m is how many milliseconds that lease has
--            left. m is that of the key for a client lease that the caller did not name
--
-- The script reads no key that is not declared: that of the client lease is known by the
-- refusal only. So a dead client costs the one who takes the lock a second round trip.
local lease = redis.call('hget', KEYS[1], '@')
if lease and lease == KEYS[2] and redis.call('exists', lease) == 0 then
	redis.call('del', KEYS[1])
	lease = false
end
if redis.call('exists', KEYS[1]) == 0 then
	redis.call('hset', KEYS[1], ARGV[2], '1')
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
local owner = ''
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
	if field ~= '@' then
		owner = field
	end
end
return {redis.call('pttl', lease and lease == KEYS[2] and lease or KEYS[1]), owner, lease or ''}
