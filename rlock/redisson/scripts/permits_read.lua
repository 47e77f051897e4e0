-- Reads the numbers of permits.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
--
-- {free, taken}
sweep()
return {tonumber(redis.call('get', KEYS[1]) or 0), redis.call('zcount', KEYS[2], '0', '+inf')}
