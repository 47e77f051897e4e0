-- Reads the lease of a permit.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  the id of the permit
--
-- For how many more milliseconds it is taken; -1 for one without an end, 0 for one that is gone.
sweep()
local ends = redis.call('zscore', KEYS[2], ARGV[2])
if not ends then
	return 0
elseif tonumber(ends) >= tonumber(never) then
	return -1
end
return math.max(tonumber(ends) - now, 0)
