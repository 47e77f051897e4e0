-- Gives a semaphore an end, or removes it.
--
-- KEYS[1]  the number of free permits
-- ARGV[1]  the time until the end in milliseconds; "0" to remove it
--
-- 1        the semaphore exists
-- 0        it does not exist
if not number then
	return 0
end
if ARGV[1] == '0' then
	redis.call('persist', KEYS[1])
else
	redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
