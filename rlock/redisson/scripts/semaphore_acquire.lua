-- Takes permits of a semaphore, all or none.
--
-- KEYS[1]  the number of free permits, read by number.lua
-- ARGV[1]  the number of permits to take
--
-- 1        taken
-- 0        too few are free
if number and tonumber(number) >= tonumber(ARGV[1]) then
	redis.call('decrby', KEYS[1], ARGV[1])
	return 1
end
return 0
