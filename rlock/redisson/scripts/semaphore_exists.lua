-- Comes before semaphore_add.lua, for a semaphore that has to be there.
--
-- KEYS[1]  the number of free permits
--
-- nil      it is not there: nothing was changed
if not redis.call('get', KEYS[1]) then -- an error for a key of another type
	return false
end
