-- Takes permits, all or none.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  lease in milliseconds, which begins now; "0" for none
-- ARGV[3]  the id of each permit, and so on
--
-- -1       taken, now or before: if the first id has a permit already, no more are taken, and the lease
--          begins again, as the client counts it, unless the present one is longer
-- n        too few are free; the next permit ends in n milliseconds; 0 if this is not known
local ids = #ARGV - 2
local taken = redis.call('zscore', KEYS[2], ARGV[3])
local free = nil
if not taken then
	sweep()
	free = redis.call('get', KEYS[1])
end
if taken or free and tonumber(free) >= ids then
	if not taken then
		redis.call('decrby', KEYS[1], ids)
	end
	for i = 3, #ARGV do
		local shown = taken and redis.call('zscore', KEYS[2], ARGV[i])
		if not shown or tonumber(shown) < tonumber(ending(ARGV[2])) then
			redis.call('zadd', KEYS[2], ending(ARGV[2]), ARGV[i])
		end
	end
	local expires = redis.call('pttl', KEYS[1])
	if expires > 0 then -- both keys expire together
		redis.call('pexpire', KEYS[2], string.format('%.0f', expires))
	end
	return -1
end
local first = redis.call('zrange', KEYS[2], '0', '0', 'withscores')[2]
if not first or tonumber(first) >= tonumber(never) then
	return 0
end
return math.max(math.ceil(first - now), 1)
