-- Looks for a value, behind value.lua. The script has no flags, so that it goes to the primary.
--
-- KEYS[1]  the hash of the value: see store.lua
-- A value counts if one of these is true:
--
-- ARGV[1]  it was stored later than this time, in µs of Redis' clock
-- ARGV[2]  its function began later than this time
-- ARGV[3]  this is "1", and the value is kept now
--
-- {now}                        no value counts
-- {now, s, a, u, b, r, k, v}   the value
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
if s and (tonumber(s) > tonumber(ARGV[1]) or tonumber(b) > tonumber(ARGV[2]) or ARGV[3] == '1' and now < tonumber(u)) then
	return {string.format('%.0f', now), s, a, u, b, r, k, redis.call('hget', KEYS[1], 'v')}
end
return {string.format('%.0f', now)}
