-- Acquires a plain or fenced lock without holder and waiters, wire-exact with Redisson's
-- tryLockInnerAsync. A fenced lock reserves fencing tokens as well.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  its queue, see queue.lua
-- KEYS[3]  of a fenced lock: the counter of its tokens
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the UUID belongs to this tenure alone
-- ARGV[3]  of a fenced lock: the number of tokens to reserve, n
--
-- nil      acquired: owner has a count of 1 and the lease begins now
-- "c"      acquired, with the tokens c-n+1 to c (a string: see tokens.lua)
-- {m, o}   refused: owner o holds the lock for m more milliseconds (-1: its key has no
--          TTL); {-2, ""}: the lock is free, but clients wait for it, or it is the
--          window of foreign clients
-- an error nothing was acquired: the server has refused the tokens or the lease, or "WRONGTYPE":
--          the hash has something else than owners, or the counter is negative, and both are left as
--          they are
--
-- The access rules of the server may refuse the tokens or the lease. A lock without tokens, or
-- without an end, must not be left behind.
--
-- Sent again while the owner has the lock, it changes neither the count (Redisson adds to it: issue
-- 7367, a count of two that is never freed) nor the lease, which may be longer by now. It reserves
-- tokens again: the tokens before are not used. Sent again after the release, it takes a free lock
-- for a tenure that its client does not know: see "h" in queue.lua.
-- (tokens.lua)
local free = redis.call('exists', KEYS[1], KEYS[2]) == 0
if free or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	local token, refused = nil, nil
	if KEYS[3] then
		token, refused = reserveTokens(KEYS[3], ARGV[3])
		if refused then
			return refused
		end
	end
	if not free then
		return token
	end
	redis.call('hset', KEYS[1], ARGV[2], '1') -- a number would have to be formatted
	local expires = redis.pcall('pexpire', KEYS[1], ARGV[1])
	if expires ~= 1 then
		redis.call('hdel', KEYS[1], ARGV[2])
		return expires
	end
	return token
end
-- (owners.lua)
local fields = redis.call('hkeys', KEYS[1])
local holder = fields[1] == 'mode' and fields[2] or fields[1] or ''
if fields[1] and not mayOwn(holder) then
	return noLock('hash with the field', holder)
end
return {redis.call('pttl', KEYS[1]), holder}
