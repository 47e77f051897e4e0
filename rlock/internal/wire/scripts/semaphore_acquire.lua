-- Takes all permits for which an owner asks, or none. It takes none while other clients wait.
--
-- KEYS[1]  the semaphore's name, see semaphore.lua
-- KEYS[2]  its queue, see queue.lua; its marks do not count, since other owners may hold permits
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>", of k permits "<uuid>:<id>*k"; the UUID belongs to this tenure
--          alone
-- ARGV[3]  the number of permits of the semaphore
--
-- nil      acquired: the lease begins now
-- {m, o}   refused: too few permits are free; the lease of owner o ends first, in m milliseconds;
--          {-2, ""}: enough are free, but clients wait for them
-- an error nothing was acquired: the server has refused the lease, or "WRONGTYPE": the sorted set
--          has something else than owners, and is left as it is
--
-- Sent again while the owner has its permits, it changes nothing: see acquire.lua.
-- (owners.lua)
-- (tenures.lua)
-- (permits.lua)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local more, other = moreIn(KEYS[1])
if other then
	return other
end
-- While clients wait, owners whose leases are over are left to the next step, which also drops the
-- tickets of their clients.
local waited = redis.call('zcount', KEYS[2], 1, '+inf') > 0
local over = redis.call('zrangebyscore', KEYS[1], '0', now)
for i = 1, waited and 0 or #over do
	redis.call('zrem', KEYS[1], over[i])
	addMore(KEYS[1], -moreOf(over[i]))
	redis.call('zrem', KEYS[2], markOf(over[i]))
end
local stay = before(more)
for i = 1, #over do
	more = more - moreOf(over[i])
end
stay = waited and stay + #over or before(more) -- the number of members that hold no permit: "*", and expired owners

local full = redis.call('zcard', KEYS[1]) - stay + more + 1 + moreOf(ARGV[2]) > tonumber(ARGV[3])
local own = redis.call('zscore', KEYS[1], ARGV[2])
if own and tonumber(own) > now then
	return nil
elseif full or waited then
	local first = full and redis.call('zrange', KEYS[1], stay, stay, 'withscores') or {}
	return {first[1] and math.max(tonumber(first[2]) - now, 1) or -2, first[1] or ''}
end

redis.call('zadd', KEYS[1], string.format('%.0f', now + ARGV[1]), ARGV[2])
addMore(KEYS[1], moreOf(ARGV[2]))
-- The key lives as long as the longest lease. If the access rules of the server refuse the expiry, no
-- key without an end may be left behind.
local last = redis.call('zrange', KEYS[1], '-1', '-1', 'withscores')[2]
local expires = redis.pcall('pexpire', KEYS[1], string.format('%.0f', last - now))
if expires ~= 1 then
	redis.call('zrem', KEYS[1], ARGV[2])
	addMore(KEYS[1], -moreOf(ARGV[2]))
	return expires
end
return nil
