-- The fencing tokens of a lock. A line "-- (tokens.lua)" of another file is replaced by this one. It
-- has no KEYS and no ARGV of its own.
--
-- Reserves n tokens, and returns the last of them, as a string, since a number in Lua is exact only up
-- to 2^53. If the server refuses, it returns nil and an error, and the counter is unchanged.
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

