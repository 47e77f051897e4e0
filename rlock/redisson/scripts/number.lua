-- Comes before the scripts that take from a number: a text that is none is left as it is.
--
-- KEYS[1]  the number of free permits
--
-- an error "WRONGTYPE": it is no number, and nothing was changed
local number = redis.call('get', KEYS[1])
if number and not string.find(number, '^%-?%d+$') then
	return redis.error_reply('WRONGTYPE it is no number')
end
