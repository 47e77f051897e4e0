-- Reads the lease of a permit.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  the id of the permit
--
-- The rest of the lease in milliseconds; -1 for a permit without an end, 0 if the permit is gone.
sweep()
local ends = redis.call('zscore', KEYS[2], ARGV[2])
if not ends then
	return 0
elseif tonumber(ends) >= tonumber(never) then
	return -1
end
return math.max(tonumber(ends) - now, 0)
