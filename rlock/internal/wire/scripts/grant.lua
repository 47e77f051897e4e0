-- The end of a step, after queue.lua: as long as the lock is open to the first ticket in the
-- queue it is granted to it, or guests have a turn.
local memory = 60000 -- how long a guest is remembered
local starved, respite = 2000, 1000 -- see below
local round, again = 2000, 100 -- how long after a turn of guests that nobody can count the next one begins, and after one that they use
local pollTime = 150 -- how long it is: Redisson's spin lock tries every 128 ms

-- How many listen, by channel: to the guests', the ushers' of them, and to the first
-- ticket's.
local listeners = {}
local function count(...)
	local n = redis.pcall('pubsub', numsub, ...)
	for i = 1, #n, 2 do
		listeners[n[i]] = n[i + 1]
	end
end
local ushers = turns .. 'ushers'
local guestsTurn, polled -- the keys of their turn, and of that of those that nobody can count
local met = '' -- the last one that was met: its sort, see below, when its lease ended, and its owner
if first and not guarded then
	if family ~= 'c' then
		count(channel, ushers, turns .. clientOf(first))
	end
	local keys = redis.call('mget', window, window .. ':met', window .. ':polled')
	guestsTurn, met, polled = keys[1], keys[2] or '', keys[3]
	polls = polls or keys[2]
end

local function clock()
	local now = redis.call('time')
	return now[1] * 1000 + math.floor(now[2] / 1000)
end

local function metAgo()
	return memory - redis.call('pttl', window .. ':met')
end

-- In a Cluster with plain pub/sub the holder tells whether there are guests, and so does one
-- of a moment ago.
local function guestsListen()
	if family == 'c' then
		return isGuest(holder()) or metAgo() < round
	end
	if not listeners[channel] then
		count(channel, ushers)
	end
	return (listeners[channel] or 0) > (listeners[ushers] or 0)
end

-- Some that listen do not contend, or are slower than their turn. If none was met for a
-- second, a turn is given at most every 250 ms.
local function guestsWait()
	return guestsListen() and (family == 'c' or metAgo() < 1000 or clock() - (redis.call('get', window .. ':last') or 0) >= 250)
end

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

-- Guests have as long a turn as each of those in the queue had since the last one: a client
-- that hands the lock off has several sections in its turn, and one with a single waiter
-- has one. The section that a guest begins last goes on after the turn, so that is shorter
-- by a quarter.
local function turnTime()
	local longestTurn, shortestTurn = 10, 5 -- milliseconds
	local now = clock()
	local last = redis.call('get', window .. ':last') or 0
	local time = math.floor(0.75 * (now - last) / math.max(redis.call('zcount', queue, '1', '+inf'), 1))
	time = math.max(shortestTurn, math.min(time, longestTurn))
	redis.call('set', window .. ':last', string.format('%.0f', now + time), 'px', memory)
	return time
end

local welcomed = false
local function welcome(time)
	welcomed, guestsTurn = true, tostring(time)
	redis.call('set', window, guestsTurn, 'px', time)
	if not told then
		told = true
		return redis.pcall(publish, channel, message)
	end
end

-- Tells a ticket that it is the first behind guests.
local function usher(member)
	redis.pcall(publish, turns .. clientOf(member), '?' .. ticketOf(member) .. ' ' .. lock)
end

if first and not guarded and not guestsTurn and guestsWait() then
	turn = turn or redis.call('zrange', queue, '-1', '-1', 'withscores')[2] + 1
	if redis.call('zadd', queue, 'nx', turn, '?') == 1 then
		first, second = front()
	end
end
if gaveUp and first and first ~= '?' and isGuest(holder()) then
	usher(first)
end

-- A server that refuses a grant by its access rules must not keep a lock that its owner
-- does not know of, nor the tickets of a command that failed.
local function refuse(member, err)
	exit(ticketOf(member), modeOf(member))
	for i = 6 + leaving, 5 + leaving + joining do
		redis.call('zrem', queue, ARGV[i])
	end
	return freed and released(err) or err
end

local asked, tokensOf = {}, {}
for i = 6 + leaving, #ARGV do
	asked[ARGV[i]] = i <= 5 + leaving + joining and claim or lease
end

-- Takes the member out of the queue, and grants it the lock if its client is there.
local function grant(member)
	redis.call('zrem', queue, member)
	if not asked[member] and not listens(member) then
		return
	end
	local token, refused = enter(ticketOf(member), modeOf(member), asked[member] or claim)
	if not refused and not asked[member] and string.sub(member, 1, 1) == modeOf(member) then
		local told = redis.pcall(publish, turns .. clientOf(member), '+' .. ticketOf(member) .. ' ' .. token .. ' ' .. reserve .. ' ' .. lock)
		refused = type(told) == 'table' and told
	end
	if not refused then
		redis.call('zadd', queue, '0', markOf(member))
		tokensOf[member] = token
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
		if family == 'c' or guestsWait() then
			welcome(turnTime())
			if second then
				usher(second)
			end
		end
	elseif polls and not polled and not guestsWait() then
		redis.call('set', window .. ':polled', '?', 'px', round)
		welcome(pollTime)
		usher(first)
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
local givesWay, patience = false, -1
if first and modeOf(first) == 'x' and open('s') and isGuest(holder()) then
	redis.call('set', window .. ':starved', '1', 'nx', 'px', starved + respite)
	patience = redis.call('pttl', window .. ':starved') - respite
	givesWay = patience <= 0
	for _, member in ipairs(givesWay and redis.call('zrangebyscore', queue, '1', '+inf') or {}) do
		if modeOf(member) == 's' and member ~= first then
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
-- Marks alone are kept for the lease that they are about.
if not first then
	if row[1] or joining > 0 then
		redis.call('pexpire', queue, math.max(remaining(), 1))
	end
	if freed and free() then
		local sent
		if family ~= 'c' and not welcomed and guestsWait() then
			sent = welcome(turnTime())
		elseif not told and not welcomed then
			sent = redis.pcall(publish, channel, message)
		end
		if released(sent) then
			return released(sent)
		end
	end
elseif #ARGV > 5 + leaving then
	redis.call('pexpire', queue, silence)
end

if #ARGV == 5 + leaving then
	return left
end
-- Calls the clients of holders that may linger. A look calls again, since a message may be
-- lost.
local function call()
	for _, shown in ipairs(holders()) do
		local variant = string.sub(shown, 20, 20)
		if (variant == '9' or variant == 'b') and not isGuest(shown) then
			redis.pcall('publish', 'rlock_turn:client:' .. string.sub(shown, 1, 19), 'w ' .. shown .. ' ' .. lock)
		end
	end
end

-- Notes that a guest has the lock. It has had a turn just now, so the next one of guests that
-- nobody can count is a while away; but after one that they use ("+"), in which only some of
-- them may have had the lock, it is soon. A guest that takes the lock again, as a loop does
-- before others try, ends the turn: another one may be the first in the next.
local owner = holder()
if isGuest(owner) then
	local sort, before, last = string.match(met, '^([+-])(%d+) (.*)$')
	local polling, used = guestsTurn == tostring(pollTime), sort == '+' and polled ~= '1'
	if polled == '?' then
		used = polling
	end
	used = used and not guestsListen()
	local ends = clock() + remaining()
	if used and polling and owner == last and math.abs(ends - before) > 2 then
		redis.call('pexpire', window, '0')
		guestsTurn = false
	end
	sort = used and '+' or '-'
	redis.call('set', window .. ':met', string.format('%s%.0f %s', sort, ends, owner), 'px', memory)
	redis.call('set', window .. ':polled', used and '+' or '1', 'px', used and again or round)
end
local reply = {left, remaining(), owner or '', math.max(guestsTurn and redis.call('pttl', window) or -2, patience)}
for i = 6 + leaving, #ARGV do
	local member, at = ARGV[i], 0
	if tokensOf[member] then
		at = tokensOf[member]
	elseif inside(ticketOf(member), modeOf(member)) then
		local refused
		at, refused = keep(ticketOf(member), modeOf(member), asked[member])
		if refused then
			return refused
		end
	elseif first == member then
		at = givesWay and 3 or 2
		call()
	elseif joined[member] or redis.call('zscore', queue, member) then
		at = 1
	end
	reply[#reply + 1] = at
end
return reply
