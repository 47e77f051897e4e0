-- Releases a lock: 1, or 0 if the owner does not have it.
--
-- KEYS[1]  the lock's name
-- ARGV[1]  owner
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
	return 0
end
redis.call('del', KEYS[1]) -- what it depended on
return 1
