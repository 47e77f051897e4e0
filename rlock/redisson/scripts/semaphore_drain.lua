-- Takes all free permits.
--
-- KEYS[1]  the number of free permits
--
-- How many it has taken.
local free = tonumber(redis.call('get', KEYS[1]) or 0)
if free > 0 then
	redis.call('decrby', KEYS[1], free)
	return free
end
return 0
