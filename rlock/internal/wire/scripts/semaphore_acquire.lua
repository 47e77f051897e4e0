-- Takes a permit of a semaphore that has one left and no waiters.
--
-- KEYS[1]  the semaphore's name, see semaphore.lua
-- KEYS[2]  its queue, see queue.lua; marks do not count, since others may hold permits
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the UUID belongs to this tenure alone
-- ARGV[3]  how many permits there are
--
-- nil      acquired: the lease begins now
-- {m, o}   refused: no permit is left, and that of owner o, which ends first, has m more
--          milliseconds; {-2, ""}: a permit is left, but clients wait for it
--
-- Sent again while the owner has a permit it changes nothing: see acquire.lua. A sorted set of
-- anything else than owners is left as it is.
-- (owners.lua)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local some = redis.call('zrange', KEYS[1], '0', '0')[1]
if some and not isOurs(some) then
	return noLock('sorted set with the member', some)
end
-- While clients wait, the owners whose leases are over are left to the next step, which drops the
-- tickets of their clients.
local waited = redis.call('zcount', KEYS[2], 1, '+inf') > 0
local over = redis.call('zrangebyscore', KEYS[1], '-inf', now)
for i = 1, waited and 0 or #over do
	redis.call('zrem', KEYS[1], over[i])
	redis.call('zrem', KEYS[2], '!' .. string.sub(over[i], 1, 36))
end
local left = waited and #over or 0 -- of these

local full = redis.call('zcard', KEYS[1]) - left >= tonumber(ARGV[3])
local own = redis.call('zscore', KEYS[1], ARGV[2])
if own and tonumber(own) > now then
	return nil
elseif full or waited then
	local first = full and redis.call('zrange', KEYS[1], left, left, 'withscores') or {}
	return {first[1] and math.max(tonumber(first[2]) - now, 1) or -2, first[1] or ''}
end

redis.call('zadd', KEYS[1], string.format('%.0f', now + ARGV[1]), ARGV[2])
-- The key lives as long as the longest lease. A server that refuses that by its access rules
-- must not keep the key for ever.
local last = redis.call('zrange', KEYS[1], '-1', '-1', 'withscores')[2]
local expires = redis.pcall('pexpire', KEYS[1], string.format('%.0f', last - now))
if expires ~= 1 then
	redis.call('zrem', KEYS[1], ARGV[2])
	return expires
end
return nil
