-- The end of a step, after queue.lua and guests.lua: as long as the lock is open to the first
-- ticket in the queue it is granted to it, or guests have a turn.
local starved, respite = 2000, 1000 -- see below

-- Reports whether the client of a ticket can be told, which is believed where Redis does
-- not say.
local function listens(member)
	if family == 'c' or string.sub(member, 1, 1) ~= modeOf(member) then
		return true
	end
	local own = turns .. clientOf(member)
	if not listeners[own] then
		count(own)
	end
	return (listeners[own] or 1) > 0
end

-- A server that refuses a grant by its access rules must not keep a lock that its owner
-- does not know of, nor the tickets of a command that failed.
local function refuse(member, err)
	exit(ticketOf(member), modeOf(member))
	if joins then
		redis.call('zrem', queue, asker)
	end
	return freed and released(err) or err
end

local term = joins and claim or lease -- for which the asker is granted the lock
local granted -- its token then, nil before

-- Takes the member out of the queue, and grants it the lock if its client is there.
local function grant(member)
	redis.call('zrem', queue, member)
	local asks = member == asker
	if not asks and not listens(member) then
		return
	end
	local token, refused = enter(ticketOf(member), modeOf(member), asks and term or claim)
	if not refused and not asks and string.sub(member, 1, 1) == modeOf(member) then
		local told = redis.pcall(publish, turns .. clientOf(member), '+' .. ticketOf(member) .. ' ' .. token .. ' ' .. reserve .. ' ' .. lock)
		refused = type(told) == 'table' and told
	end
	if not refused then
		redis.call('zadd', queue, '0', markOf(member))
		granted = asks and token or granted
	end
	return refused
end

local stale = false -- whether second is to be looked up
while first and not guestsTurn and open(modeOf(first)) do
	if stale then
		first, second = front()
	end
	if first == '?' then
		redis.call('zrem', queue, first)
		if around and (family == 'c' or guestsWait()) then
			welcome(turnTime())
		end
	elseif polls and not polled and not guestsWait() then
		redis.call('set', window .. ':polled', '?', 'px', round)
		welcome(pollTime)
		break
	else
		local refused = grant(first)
		if refused then
			return refuse(first, refused)
		end
	end
	first, second, stale = second, nil, true
end

-- Readers that are guests may keep a writer of ours out for as long as they like. Readers of
-- ours do not starve with it: it holds them back for two seconds, and then they may begin to
-- read for one.
local heldBack -- for so long yet, nil if they are not
if first and modeOf(first) == 'x' and open('s') and isGuest(holder()) then
	redis.call('set', window .. ':starved', '1', 'nx', 'px', starved + respite)
	heldBack = math.max(redis.call('pttl', window .. ':starved') - respite, 0)
	for _, member in ipairs(heldBack == 0 and redis.call('zrangebyscore', queue, '1', '+inf') or {}) do
		if modeOf(member) == 's' then
			local refused = grant(member)
			if refused then
				return refuse(member, refused)
			end
		end
	end
end

-- A turn for guests that no ticket waits behind would keep a free lock from everybody.
if first == '?' then
	first = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '1', '1')[1]
	if not first then
		redis.call('zrem', queue, '?')
	end
end
-- The first ticket looks when guests release the lock, or their turn is over. It is told when that
-- begins, or when the ones before it have left; the asker learns it from the reply.
if around and first and first ~= asker and (welcomed or freed or gaveUp) and (guestsTurn or isGuest(holder())) then
	usher(first)
end
-- Marks alone are kept for the lease that they are about.
if not first then
	if row[1] or joins then
		redis.call('pexpire', queue, math.max(remaining(), 1))
	end
	if freed and free() then
		local sent
		if around and family ~= 'c' and not welcomed and guestsWait() then
			sent = welcome(turnTime())
		elseif not told and not welcomed then
			sent = redis.pcall(publish, channel, message)
		end
		if released(sent) then
			return released(sent)
		end
	end
elseif joins then
	redis.call('pexpire', queue, silence)
end

if not asker then
	return left
end

local owner = holder()
if isGuest(owner) then
	meet(owner)
end
local reply = {left, remaining(), owner or '', guestsTurn and redis.call('pttl', window) or -2}
if granted then
	reply[5] = granted
elseif inside(ticketOf(asker), modeOf(asker)) then
	local token, refused = keep(ticketOf(asker), modeOf(asker), term)
	if refused then
		return refused
	end
	reply[5] = token
elseif first == asker then
	reply[5] = 2
	-- The clients of holders that may linger are called. A look calls again, since a message
	-- may be lost.
	for _, shown in ipairs(holders()) do
		call(shown, lock)
	end
else
	reply[5] = (joined or redis.call('zscore', queue, asker)) and 1 or 0
end
reply[6] = heldBack
return reply
