-- Gives a semaphore of permits with leases an end, or takes it away: of both keys, which go
-- together.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  in how many milliseconds; "0" for not
--
-- 1        it is there
-- 0        it is not
local taken = redis.call('zcount', KEYS[2], '-inf', '+inf') -- an error for a key of another type
if not number and taken == 0 then
	return 0
end
for i = 1, 2 do
	if ARGV[2] == '0' then
		redis.call('persist', KEYS[i])
	else
		redis.call('pexpire', KEYS[i], ARGV[2])
	end
end
return 1
