-- Renews permits of semaphores, and passes them on: the owner is then "<uuid>:0", see resume.lua.
--
-- KEYS[i]     the name of the i-th semaphore, see semaphore.lua; behind these, for each permit that is
--             passed on, or asks for the others that wait, the queue of its semaphore
-- ARGV[1]     how to publish: as in queue.lua
-- ARGV[2i]    the lease of the i-th permit in milliseconds, after a "=" if it may be shortened: see
--             mirror.lua; with a "?" behind it if the permit asks for the others that wait,
--             and a "!" if it also asks whether a ticket takes permits over (takeover.lua)
-- ARGV[2i+1]  its owner, "<uuid>:<id>", of k permits "<uuid>:<id>*k": see permits.lua
--
-- For each permit, in an array:
-- 0        lost: the permit is gone, or its lease is over
-- 1 + n    renewed; n tickets wait, 0 if the permit does not ask
-- -1 - n   the same, and one of them takes permits over, if the permit asks for that
--
-- After a permit was passed on, no release will notify the client of the first ticket: so this client
-- gets "?<ticket> <semaphore>" as in queue.lua, and looks again when the lease of the pass ends.
--
-- Sent again, it does what mirror.lua says. The key lives as long as the longest lease. The expiry of
-- the key is set first: a server without memory refuses ZADD, but not after the script has written.
-- (tenures.lua)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns the member with the UUID of the owner; nil if there is none.
local function former(key, owner)
	for _, member in ipairs(redis.call('zrange', key, '0', '-1')) do
		if tenureOf(member) == tenureOf(owner) then
			return member
		end
	end
end

local function renew(key, lease, owner)
	local ends = redis.call('zscore', key, owner)
	local was = not ends and isPassed(owner) and former(key, owner)
	if was then
		ends = redis.call('zscore', key, was)
	end
	if not ends or tonumber(ends) <= now then
		return 0
	end
	if string.byte(lease) ~= 61 then
		lease = math.max(tonumber(lease), ends - now)
	elseif not was and isPassed(owner) then
		return 1
	else
		lease = tonumber(string.sub(lease, 2))
	end
	local last = redis.call('zrange', key, '-2', '-1', 'withscores')
	local longest = lease
	for i = 1, #last, 2 do
		if last[i] ~= owner and last[i] ~= was then
			longest = math.max(longest, last[i + 1] - now)
		end
	end
	redis.call('pexpire', key, string.format('%.0f', longest))
	if redis.call('exists', key) == 1 then -- see mirror.lua
		redis.call('zadd', key, string.format('%.0f', now + lease), owner)
		if was then
			redis.call('zrem', key, was)
		end
	end
	return 1
end

local function callFirst(key, queue)
	local first = redis.pcall('zrangebyscore', queue, '1', '+inf', 'limit', '0', '1')[1]
	if first then
		redis.pcall(ARGV[1] == 's' and 'spublish' or 'publish', 'rlock_grants:' .. string.sub(queue, 13) .. ':' .. clientOf(ticketOf(first)),
			'?' .. ticketOf(first) .. ' ' .. key)
	end
end

local replies = {}
local permits = (#ARGV - 1) / 2
local at = permits -- the index of the last one of KEYS that was used
for i = 1, permits do
	local owner, lease = ARGV[2*i+1], ARGV[2*i]
	local how = string.sub(lease, -1)
	local asks = how == '?' or how == '!'
	replies[i] = renew(KEYS[i], asks and string.sub(lease, 1, -2) or lease, owner)
	if asks or isPassed(owner) then
		at = at + 1
	end
	if replies[i] == 1 and isPassed(owner) then
		callFirst(KEYS[i], KEYS[at])
	end
	if replies[i] == 1 and asks then
		local tickets = redis.pcall('zcount', KEYS[at], '1', '+inf')
		replies[i] = 1 + (type(tickets) == 'number' and tickets or 0)
		local takes = how == '!' and redis.pcall('zcount', KEYS[at], '(1', '(2')
		if type(takes) == 'number' and takes > 0 then
			replies[i] = -replies[i]
		end
	end
end
return replies
