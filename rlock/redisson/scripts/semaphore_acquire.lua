-- Takes permits of a semaphore, all or none.
--
-- KEYS[1]  the number of free permits
-- ARGV[1]  how many to take
--
-- 1        taken
-- 0        not so many are free
local free = redis.call('get', KEYS[1])
if free and tonumber(free) >= tonumber(ARGV[1]) then
	redis.call('decrby', KEYS[1], ARGV[1])
	return 1
end
return 0
