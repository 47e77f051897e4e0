-- The fencing tokens of a lock. A line "-- (tokens.lua)" of another file is replaced by this one. It
-- has no KEYS and no ARGV of its own.
--
-- Reserves n tokens, and returns the last of them as a string, since a number in Lua is exact up to
-- 2^53 only; or nil and an error, and then the counter is as it was.
local function reserveTokens(counter, n)
	local last = redis.pcall('incrby', counter, n)
	if type(last) == 'table' then
		return nil, redis.error_reply(last.err .. ' (token counter ' .. counter .. ')')
	elseif last < tonumber(n) then
		redis.call('incrby', counter, '-' .. n)
		return nil, redis.error_reply('WRONGTYPE token counter ' .. counter .. ' is negative')
	end
	return last < 2^53 and string.format('%.0f', last) or redis.call('get', counter)
end

