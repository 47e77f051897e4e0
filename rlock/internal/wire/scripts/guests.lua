-- The part of a step, after queue.lua, that counts the guests and gives them turns. Most
-- locks have no guests: then their functions are not even defined, which would take Redis
-- a tenth of a step.
local memory = 60000 -- how long a guest is remembered
-- How long until a turn of guests that nobody can count: after one that they did not use,
-- after any guest had the lock, and after a turn that they use.
local round, soon, again = 2000, 1000, 100
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
local met = '' -- the last one that was met: its sort, see meet, when its lease ended, and its owner
local around = false -- whether there may be guests
if not guarded then
	if family ~= 'c' then
		count(channel, ushers, turns .. clientOf(first or ''))
	end
	local keys = redis.call('mget', window, window .. ':met')
	guestsTurn, met = keys[1], keys[2] or ''
	polls = polls or keys[2]
	polled = polls and redis.call('get', window .. ':polled')
	polled = polled ~= '!' and polled -- see others.lua
	around = polls or guestsTurn or isGuest(holder()) or (listeners[channel] or 0) > (listeners[ushers] or 0)
end

local welcomed = false -- whether their turn begins
local guestsWait, turnTime, welcome, usher, meet

if around then
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
		return (listeners[channel] or 0) > (listeners[ushers] or 0)
	end

	-- Some that listen do not contend, or are slower than their turn. If none was met for a
	-- second, a turn is given at most every 250 ms.
	function guestsWait()
		return guestsListen() and (family == 'c' or metAgo() < 1000 or clock() - (redis.call('get', window .. ':last') or 0) >= 250)
	end

	-- Guests have as long a turn as each of those in the queue had since the last one: a client
	-- that hands the lock off has several sections in its turn, and one with a single waiter
	-- has one. The section that a guest begins last goes on after the turn, so that is shorter
	-- by a quarter.
	function turnTime()
		local longestTurn, shortestTurn = 10, 5 -- milliseconds
		local now = clock()
		local last = redis.call('get', window .. ':last') or 0
		local time = math.floor(0.75 * (now - last) / math.max(redis.call('zcount', queue, '1', '+inf'), 1))
		time = math.max(shortestTurn, math.min(time, longestTurn))
		redis.call('set', window .. ':last', string.format('%.0f', now + time), 'px', memory)
		return time
	end

	function welcome(time)
		welcomed, guestsTurn = true, tostring(time)
		redis.call('set', window, guestsTurn, 'px', time)
		if not told then
			told = true
			return redis.pcall(publish, channel, message)
		end
	end

	-- Tells a ticket that it is the first, behind guests.
	function usher(member)
		redis.pcall(publish, turns .. clientOf(member), '?' .. ticketOf(member) .. ' ' .. lock)
	end

	-- Notes that a guest has the lock. It has had a turn just now, so the next one of guests that
	-- nobody can count is a while away; but less so after one that they use ("+"), in which only
	-- some of them may have had the lock. A guest that takes the lock again, as a loop does
	-- before others try, ends the turn: another one may be the first in the next.
	function meet(guest)
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
		redis.call('set', window .. ':polled', used and '+' or '1', 'px', used and again or soon)
	end
end

if around and first and not guestsTurn and guestsWait() then
	turn = turn or redis.call('zrange', queue, '-1', '-1', 'withscores')[2] + 1
	if redis.call('zadd', queue, 'nx', turn, '?') == 1 then
		first, second = front()
	end
end
