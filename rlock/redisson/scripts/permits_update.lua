-- Gives permits that are taken a lease that begins now.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  lease in milliseconds; "0" for none
-- ARGV[3]  the id of each permit, and so on
--
-- For each 1, or 0 for one that is gone, in an array.
sweep()
local replies = {}
for i = 3, #ARGV do
	replies[i - 2] = 0
	if redis.call('zscore', KEYS[2], ARGV[i]) then
		redis.call('zadd', KEYS[2], ending(ARGV[2]), ARGV[i])
		replies[i - 2] = 1
	end
end
return replies
