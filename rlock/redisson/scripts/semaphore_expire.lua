-- Gives a semaphore an end, or takes it away.
--
-- KEYS[1]  the number of free permits
-- ARGV[1]  in how many milliseconds; "0" for not
--
-- 1        it is there
-- 0        it is not
if not number then
	return 0
end
if ARGV[1] == '0' then
	redis.call('persist', KEYS[1])
else
	redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
