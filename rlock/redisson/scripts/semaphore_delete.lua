-- Deletes a semaphore. Nothing is published, as by Redisson.
--
-- KEYS[1]  the number of free permits
--
-- 1        deleted
-- 0        the semaphore did not exist
if not number then
	return 0
end
return redis.call('del', KEYS[1])
