-- Takes all free permits.
--
-- KEYS[1]  the number of free permits, read by number.lua
--
-- The number of permits that were taken.
local free = tonumber(number or 0)
if free > 0 then
	redis.call('decrby', KEYS[1], number)
	return free
end
return 0
