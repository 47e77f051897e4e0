-- Acquires a lock that is free, wire-exact with Redisson's tryLockInnerAsync, and
-- if it is a fenced one reserves fencing tokens for the tenure that begins.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  of a fenced lock: the counter of its tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the uuid is this tenure's alone
-- ARGV[3]  of a fenced lock: how many tokens, n
--
-- nil      acquired: owner has a count of 1 and the lease begins now
-- "c"      acquired, with the tokens c-n+1 to c (a string: a number in Lua is exact
--          up to 2^53 only)
-- {m, o}   held by owner o for m more milliseconds (-1: its key has no TTL)
--
-- A server that refuses the lease, by its access rules, must not keep a lock that
-- never ends; one that refuses the tokens must not keep the lock at all, so these
-- come first.
--
-- Sending it again changes nothing: it sets the count, it does not add to it.
-- (Redisson adds: issue 7367, one lock with a count of two that is never freed.)
-- Tokens that were reserved before the last answer are nobody's: there are enough.
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	local token = nil
	if KEYS[2] then
		local counter = redis.pcall('incrby', KEYS[2], ARGV[3])
		if type(counter) == 'table' then
			return redis.error_reply(counter.err .. ' (token counter ' .. KEYS[2] .. ')')
		elseif counter < tonumber(ARGV[3]) then
			return redis.error_reply('WRONGTYPE token counter ' .. KEYS[2] .. ' is negative')
		end
		token = redis.call('get', KEYS[2])
	end
	redis.call('hset', KEYS[1], ARGV[2], '1') -- a number would have to be formatted
	local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
	if expires ~= 1 then
		redis.call('hdel', KEYS[1], ARGV[2])
		return expires
	end
	return token
end
return {redis.call('pttl', KEYS[1]), redis.call('hkeys', KEYS[1])[1]}
