-- Gives permits that are taken a lease that begins now.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  lease in milliseconds, behind a "+" if it must only lengthen a lease; "0" for none
-- ARGV[3]  the id of each permit, and so on
--
-- An array with 1 for each permit, or 0 if it is gone.
sweep()
local lengthens = string.byte(ARGV[2]) == 43
local ends = ending(lengthens and string.sub(ARGV[2], 2) or ARGV[2])
local replies = {}
for i = 3, #ARGV do
	local shown = redis.call('zscore', KEYS[2], ARGV[i])
	replies[i - 2] = shown and 1 or 0
	if shown and (not lengthens or tonumber(shown) < tonumber(ends)) then
		redis.call('zadd', KEYS[2], ends, ARGV[i])
	end
end
return replies
