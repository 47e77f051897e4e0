-- Comes before the scripts that set a number, take from it, delete it or give it an end: a text that
-- is not a number is left as it is. INCRBY refuses a number with leading zeros, or with too many
-- digits.
--
-- KEYS[1]  the number of free permits
--
-- an error "WRONGTYPE": the text is not a number, and nothing was changed
local number = redis.call('get', KEYS[1])
if number and number ~= '0' and (#number > 20 or not string.find(number, '^%-?[1-9]%d*$')) then
	return redis.error_reply('WRONGTYPE it is no number')
end
