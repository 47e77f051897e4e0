-- Comes before semaphore_add.lua, for a semaphore that has to exist.
--
-- KEYS[1]  the number of free permits
--
-- nil      the semaphore does not exist: nothing was changed
if not redis.call('get', KEYS[1]) then -- an error for a key of another type
	return false
end
