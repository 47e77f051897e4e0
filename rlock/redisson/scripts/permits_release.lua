-- Gives permits back.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  the id of each permit, and so on
--
-- {n, m}   n of the permits had not ended, and m subscribers of Java and Go got the message. A permit
--          that had ended, and was not swept yet, is given back as well
-- an error that ends with "(released)": the permits are given back, but the message was refused
local held, back = 0, 0
for i = 2, #ARGV do
	local score = redis.call('zscore', KEYS[2], ARGV[i])
	if score and redis.call('zrem', KEYS[2], ARGV[i]) == 1 then
		back = back + 1
		if tonumber(score) > now then
			held = held + 1
		end
	end
end
if back > 0 then
	redis.call('incrby', KEYS[1], back)
	local refused = tell()
	if refused then
		return refused
	end
end
return {held, receivers}
