-- Sets the number of permits, the taken ones included.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  the number
--
-- The number of free permits; negative if more are taken.
sweep()
local free = ARGV[2] - redis.call('zcount', KEYS[2], '0', '+inf')
local had = redis.call('get', KEYS[1])
if not had then
	redis.call('set', KEYS[1], free)
elseif tonumber(had) ~= free then
	redis.call('incrby', KEYS[1], free - had)
end
if not had or tonumber(had) < free then
	local refused = tell()
	if refused then
		return refused
	end
end
return free
