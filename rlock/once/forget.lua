-- Forgets a kept value, and the value of a function that runs now, behind value.lua. Both stay for
-- callers that asked before: see store.lua.
--
-- KEYS[1]  the hash of the value: see store.lua
-- ARGV[1]  the time, in ms, that a function may still take so that its value is not kept
local time = redis.call('time')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local left = redis.call('pttl', KEYS[1])
if s then
	redis.call('hset', KEYS[1], 'u', '0')
end
if not e or tonumber(e) < 0 then
	e = now
end
redis.call('hset', KEYS[1], 'e', e, 'f', now)
if left < tonumber(ARGV[1]) then
	local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
	if expires ~= 1 then
		if left < 0 then
			redis.call('hdel', KEYS[1], 'e', 'f') -- no hash stays without an expiry
		end
		return expires
	end
end
return 1
