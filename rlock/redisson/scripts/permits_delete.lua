-- Deletes a semaphore of permits with leases. Nothing is published, as by Redisson.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
--
-- 1        deleted
-- 0        the semaphore did not exist
local taken = redis.call('zcount', KEYS[2], '-inf', '+inf') -- an error for a key of another type
if not number and taken == 0 then
	return 0
end
redis.call('del', KEYS[1], KEYS[2])
return 1
