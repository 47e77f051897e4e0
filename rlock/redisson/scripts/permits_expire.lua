-- Gives a semaphore of permits with leases an end, or removes it. Both keys end together.
--
-- KEYS[1..3], ARGV[1]  see permits.lua
-- ARGV[2]  the time until the end in milliseconds; "0" to remove it
--
-- 1        the semaphore exists
-- 0        it does not exist
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
