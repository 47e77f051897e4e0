-- One step of a lock for which clients wait: tickets leave, tickets join, and as long as
-- the lock is open to the first ticket in the queue it is granted to it. The part of the
-- kind (plain.lua, rw.lua, semaphore.lua) comes before, in the same script.
--
-- A ticket is the owner's text of a tenure to come, "<uuid>:<id>". A member of the queue
-- is a mode and a ticket: x for one that needs the lock alone, s for one that shares it;
-- X and S for one that polls, since its client cannot be told. The first 19 characters of
-- the ticket are the client's, and end the name of the channel on which that client, and
-- no other, is told of grants.
--
-- Guests are clients of Redisson. They know the lock and its channel, and nothing of the
-- queue. "?" in the queue is a turn for them.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  the queue, "rlock_queue:<tag>": a sorted set of members in the order in which
--          they came, and with score 0 a mark "!<uuid>" for each tenure that was granted
--          the lock out of the queue, until it is released
-- KEYS[3]  the guests' turn: while this key exists nobody is granted the lock here.
--          "<it>:met" exists for a minute after a guest was met as the holder; then turns
--          are left to guests that nobody can count, since they only poll, or listen at a
--          replica. "<it>:polled" exists until their next one, see meet. "<it>:last" is
--          when the last turn of those that are counted ended
-- KEYS[4]  the channel that guests listen to
-- KEYS[5]  more of the kind's
-- ARGV[1]  how to publish and count: "p" plain, "s" sharded, "c" plain in a Cluster, where
--          no node knows all subscribers; then "+" if guests contend that only poll
-- ARGV[2]  the lease of a look in milliseconds
-- ARGV[3]  of a fenced lock the number of tokens to reserve, of a semaphore that of permits,
--          else ""
-- ARGV[4]  how many members leave
-- ARGV[5]  how many join
-- ARGV[6]  the members that leave, then those that join, then those that are looked for
--
-- A release, in which one member leaves and nothing else is asked for, has at most four
-- arguments instead: ARGV[1], the ticket, ARGV[3] and the ticket's mode; the last two are
-- left out if they are "" and x. Redis needs less time for fewer arguments.
--
-- 1, 0                if only leaving was asked for: the first that leaves had the lock or
--                     a place in the queue, or had not; or what exit returns
-- an error that ends in "(released)": the lock was freed, but a message was refused
-- {l, n, o, g, ...}   l: the same; owner o has the lock for n more milliseconds (-1: its
--                     key has no TTL; -2 and "": it is free); the guests' turn ends, or
--                     that of readers begins, in g milliseconds (negative: no such turn);
--                     then for each that joins or is looked for: 0 it is not in the queue, 1
--                     it is, 2 it is the first ticket, 3 it is the first and gives way to
--                     readers; "" or "<token>": it has the lock
--
-- Messages on "rlock_turn:<tag>:<client>":
--
-- "+<ticket> <token> <n> <lock>"  the ticket has the lock of that name, for a claim, with
--                                 the tokens up to token, of which n are its own
-- "?<ticket> <lock>"              the ticket is the first, and it is the guests' turn, or a
--                                 guest holds the lock and the one before has left
--
-- The message on "rlock_turn:client:<client>", always by PUBLISH:
--
-- "w <owner> <lock>"              a ticket is the first behind a tenure that may linger: the
--                                 lowest bit of its UUID's variant says so (9 or b, else 8 or
--                                 a). A lock that lingers is to be released at once
--
-- Sending a step again changes nothing: what has left is not there to leave, and what has
-- joined is there. But a ticket that joined, was granted, and left in between would join
-- a second time. So a ticket is told to join by one command only.
--
-- A ticket that joins may be given up by the time its command is executed. So it enters
-- with a claim, which ends soon. A look is sent for a ticket that is known to be in the
-- queue, and enters with the whole lease.
--
-- A ticket whose client does not listen is dropped. A count of receivers after the
-- message would drop some that heard it, in a failover. A tenure that was granted out of
-- the queue and ended without a release belongs to a client that is dead or stopped: all
-- its tickets are dropped, so that it costs the others one claim.
local ARGV = ARGV
if #ARGV < 5 then
	ARGV = {ARGV[1], '0', ARGV[3] or '', '1', '0', (ARGV[4] or 'x') .. ARGV[2]}
end
local queue, window, channel, lease = KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[2])
local leaving, joining = tonumber(ARGV[4]), tonumber(ARGV[5])
local turns = 'rlock_turn:' .. string.sub(queue, 13) .. ':'
local family, polls = string.sub(ARGV[1], 1, 1), #ARGV[1] > 1
local publish, numsub = 'publish', 'numsub'
if family == 's' then
	publish, numsub = 'spublish', 'shardnumsub'
end
local claim = 2000 -- claimLease
local silence = '60000' -- queueTime: without a word for so long nobody waits
local longestTurn, shortestTurn = 10, 5 -- how long the guests' turn is at most and at least
local memory = 60000 -- how long a guest is remembered
local present, absence = 1000, 250 -- guests of which none was met for so long have a turn as rarely
local starved, respite = 2000, 1000 -- see below
local round, again = 2000, 100 -- how long after a turn of guests that nobody can count the next one begins, and after one that they use
local pollTime = 150 -- how long it is: Redisson's spin lock tries every 128 ms

local function ticketOf(member)
	return string.sub(member, 2)
end

local function modeOf(member)
	return string.lower(string.sub(member, 1, 1))
end

local function clientOf(member)
	return string.sub(member, 2, 20)
end

local function markOf(member)
	return '!' .. string.sub(member, 2, 37)
end

local function isGuest(owner)
	return owner and string.sub(owner, 15, 15) ~= '8'
end

-- The error of a step that has freed the lock, and whose message was refused.
local function released(told)
	return type(told) == 'table' and redis.error_reply(told.err .. ' (released)')
end

-- The end of the queue, where tickets join; else its first three members, of which one may
-- leave.
local row
if joining > 0 then
	row = redis.pcall('zrange', queue, '-1', '-1', 'withscores')
else
	row = redis.pcall('zrange', queue, '0', '2', 'withscores')
end

-- A key that is no queue is left as it is. A lock is freed all the same.
if row.err then
	local err = row.err .. ' (queue ' .. queue .. ')'
	for i = 6, 5 + leaving do
		left = math.max(left, exit(ticketOf(ARGV[i]), modeOf(ARGV[i])))
	end
	if left == 0 and (leaving == 0 or #ARGV > 5 + leaving) then
		return redis.error_reply(err)
	end
	local refused = released(redis.pcall(publish, channel, message))
	return refused or #ARGV > 5 + leaving and released({err = err}) or left
end

-- Leave: a tenure that has the lock has a mark at most, and a ticket has a place.
local freed, gaveUp = left > 0, false
local gone = {}
for i = 6, freed and 5 or 5 + leaving do
	local member, had = ARGV[i], exit(ticketOf(ARGV[i]), modeOf(ARGV[i]))
	local found = had == 0 and redis.call('zrem', queue, member) or 0
	local mark = markOf(member)
	if found == 0 then
		redis.call('zrem', queue, mark)
	end
	gone[member], gone[mark] = true, true
	freed, gaveUp = freed or had > 0, gaveUp or found > 0
	if i == 6 then
		left = math.max(found, had)
	end
end

-- Join. The place before is left for a turn of the guests.
local turn = joining > 0 and tonumber(row[2] or 0) + 1
local joined = {}
for i = 6 + leaving, 5 + leaving + joining do
	if not inside(ticketOf(ARGV[i]), modeOf(ARGV[i])) then
		redis.call('zadd', queue, 'nx', turn + i, ARGV[i])
		joined[ARGV[i]] = true
	end
end

-- Returns the first of the queue and the one behind it.
local function front()
	local two = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '2')
	return two[1], two[2]
end

-- A tenure that was granted out of the queue, and ended without a release.
local function bury(mark)
	redis.call('zrem', queue, mark)
	local dead = clientOf(mark)
	if not ARGV[6] or dead ~= clientOf(ARGV[6]) then
		for _, member in ipairs(redis.call('zrange', queue, '0', '-1')) do
			if clientOf(member) == dead then
				redis.call('zrem', queue, member)
			end
		end
	end
end

-- While a client of ours has the lock alone nobody can be granted it, and its release will
-- count the guests.
local guarded = not open('s') and not isGuest(holder())

local first, second -- in the queue
local unknown = joining > 0 or leaving > 1
for i = 1, joining == 0 and #row or 0, 2 do
	if gone[row[i]] then
		-- it has left
	elseif row[i + 1] == '0' then
		unknown = true -- a mark
	elseif first then
		second = second or row[i]
	else
		first = row[i]
	end
end
if unknown then
	for _, mark in ipairs(free() and redis.call('zrangebyscore', queue, '0', '0') or {}) do
		bury(mark)
	end
	if guarded and turn == 1 then
		first = ARGV[6 + leaving]
	elseif guarded and joining > 0 and row[1] ~= '?' and #ARGV == 5 + leaving + joining then
		first = row[1] -- the last of others; no more than that is asked for
	else
		first, second = front()
	end
end

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
local met = '' -- the last one that was met: its sort, see meet, when its lease ended, and its owner
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

-- Some that listen do not contend, or are slower than their turn. If none was met, the next
-- turn is given after a while only.
--
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

local function guestsWait()
	return guestsListen() and (family == 'c' or metAgo() < present or clock() - (redis.call('get', window .. ':last') or 0) >= absence)
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
local function meet(guest)
	local sort, before, last = string.match(met, '^([+-])(%d+) (.*)$')
	local polling, used = guestsTurn == tostring(pollTime), sort == '+' and polled ~= '1'
	if polled == '?' then
		used = polling
	end
	used = used and not guestsListen()
	local ends = clock() + remaining()
	if used and polling and guest == last and math.abs(ends - before) > 2 then
		redis.call('pexpire', window, '0')
		guestsTurn = false
	end
	sort = used and '+' or '-'
	redis.call('set', window .. ':met', string.format('%s%.0f %s', sort, ends, guest), 'px', memory)
	redis.call('set', window .. ':polled', used and '+' or '1', 'px', used and again or round)
end

local owner = holder()
if isGuest(owner) then
	meet(owner)
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
