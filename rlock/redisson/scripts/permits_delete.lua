-- Deletes a semaphore of permits with leases. Nothing is published, as by Redisson.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
--
-- 1        deleted
-- 0        it was not there
local free, taken = redis.call('get', KEYS[1]), redis.call('zcount', KEYS[2], '-inf', '+inf') -- errors for keys of another type
if not free and taken == 0 then
	return 0
end
redis.call('del', KEYS[1], KEYS[2])
return 1
