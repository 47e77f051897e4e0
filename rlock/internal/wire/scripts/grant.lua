-- The end of a step, after queue.lua and foreign.lua. As long as the lock is open to the first ticket
-- in the queue, the ticket is granted the lock, or a window of foreign clients begins.
local starved, respite = 2000, 1000 -- how long readers of ours wait for a writer, and how long they then may begin
local unheard = 3000 -- the time without a look for its ticket after which a client counts as paused

-- Reports whether the client of a ticket listens; true if Redis does not say.
local function listens(member)
	if family == 'c' or pollsFor(member) then
		return true
	end
	local own = grants .. clientOf(ticketOf(member))
	if not listeners[own] then
		count(own)
	end
	return (listeners[own] or 1) > 0
end

-- Undoes a grant that the access rules of the server have refused: an owner that does not know of
-- the lock must not keep it. A ticket that joins leaves again, since its command fails. The client of
-- the ticket that is now the first is notified: it looks, and gets the lock or the error.
local function refuse(member, err)
	removeOwner(ticketOf(member), modeOf(member))
	if joins then
		redis.call('zrem', queue, asker)
	end
	local next = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '1')[1]
	if next and next ~= '?' then
		redis.pcall(publish, grants .. clientOf(ticketOf(next)), '?' .. ticketOf(next) .. ' ' .. lock)
	end
	return freed and released(err) or err
end

local term = joins and claimOf(asker) or lease -- the lease with which the asker is granted the lock
local granted -- the token of the asker, once it was granted the lock; else nil

-- Takes the member out of the queue and, if its client listens, grants it the lock. The mark is added
-- first, so that the queue is never empty and keeps its expiry.
local function grant(member)
	local asks = member == asker
	if not asks and not listens(member) then
		redis.call('zrem', queue, member)
		return
	end
	redis.call('zadd', queue, '0', markOf(ticketOf(member)))
	redis.call('zrem', queue, member)
	local token, refused = addOwner(ticketOf(member), modeOf(member), asks and term or claimOf(member))
	if not refused and not asks then
		-- A ticket that polls is notified as well: its client may have subscribed after it joined.
		local sent = redis.pcall(publish, grants .. clientOf(ticketOf(member)), '+' .. ticketOf(member) .. ' ' .. token .. ' ' .. reserve .. ' ' .. lock)
		refused = not pollsFor(member) and type(sent) == 'table' and sent
	end
	if refused then
		redis.call('zrem', queue, markOf(ticketOf(member)))
		return refused
	end
	granted = asks and token or granted
end

local function waiter()
	return first ~= '?' and first or second
end

-- Drops the tickets at the front whose clients do not listen: the lock may be open to the ticket
-- behind them, or the client of that ticket has to listen for foreign clients. While a client of ours
-- has the lock alone, neither can be true, and the release drops these tickets.
local dropped = false
while not guarded and waiter() and waiter() ~= asker and not listens(waiter()) do
	redis.call('zrem', queue, waiter())
	first, second = front()
	dropped = true
end

local stale = false -- whether second has to be read again
local ahead = first -- the first ticket before any grant
local foremost = waiter()
while first and not on and isOpen(modeOf(first), first) do
	if stale then
		first, second = front()
	end
	if first ~= '?' then
		local refused = grant(first)
		if refused then
			return refuse(first, refused) -- end 12
		end
		if placed then
			leavePlace()
		end
	elseif here and (waits > 0 or state.p) then
		beginWindow()
		break
	else
		redis.call('zrem', queue, first)
	end
	first, second, stale = second, nil, true
end

-- Readers do not wait for readers. A writer of ours has let readers in if it has left, or goes on as
-- a reader, by a step without members: foreign readers are notified. If "?" stands before a reader of
-- ours, the window begins while others read, so that the reader waits no longer than the window. Once
-- a foreign client reads, the readers right behind "?" are granted the lock beside it.
local reads = isOpen('s') and not isFree()
if here and reads then
	first, second = front()
	local lets = message == '01' or not asker and not leaver
	if lets and not on and first == '?' and second and modeOf(second) == 's' and (waits > 0 or state.p) then
		message = '01'
		beginWindow()
	end
	while first == '?' and second and modeOf(second) == 's' and isForeign(holder()) do
		local refused = grant(second)
		if refused then
			return refuse(second, refused) -- end 12
		end
		first, second = front()
	end
end
if reads and message == '01' and not told and (waits > 0 or family == 'c') then
	told = true
	redis.pcall(publish, channel, message)
end

-- Clients may disagree on the number of permits. After a release that grants none, the first tickets
-- of other clients look, since one of these clients may know of more permits (semaphore.lua). In a
-- long queue the front is enough, since the other tickets wait for it.
if varies and freed and first and first == ahead then
	local notified, n = {[clientOf(ticketOf(leaver))] = true}, 0
	for _, member in ipairs(redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '64')) do
		local client = clientOf(ticketOf(member))
		if n < 8 and not notified[client] and not pollsFor(member) then
			notified[client], n = true, n + 1
			redis.pcall(publish, grants .. client, '?' .. ticketOf(member) .. ' ' .. lock)
		end
	end
end

-- Foreign readers may keep a writer out, ours or a foreign one, for as long as they like. So that
-- readers of ours behind the writer do not starve, they wait for two seconds, and then may begin to
-- read for one second.
local heldBack -- the time for which readers of ours still wait; nil if they need not
local out = first -- the first ticket that a foreign reader may keep out
if first == '?' then
	out = second
end
if here and out and modeOf(out) ~= 's' and isOpen('s') and isForeign(holder()) then
	if now - (state.w or 0) >= starved + respite then
		state.w = now
		setState('w', now)
	end
	heldBack = math.max(starved - (now - state.w), 0)
	for _, member in ipairs(heldBack == 0 and redis.call('zrangebyscore', queue, '1', '+inf') or {}) do
		if modeOf(member) == 's' then
			local refused = grant(member)
			if refused then
				return refuse(member, refused) -- end 12
			end
		end
	end
end

-- A ticket with a bound has joined like any other, and by now the step has dropped the tickets of dead
-- clients that it can. If too many are left, the ticket is taken out again. Then the step does not
-- extend the queue's expiry, so that a queue of dead tickets expires.
local full = false
local tickets -- returns the number of tickets in the queue up to a score; a window does not count
if most then
	function tickets(last)
		local window = redis.call('zscore', queue, '?')
		local counts = window and (last == '+inf' or tonumber(window) <= tonumber(last))
		return redis.call('zcount', queue, '1', last) - (counts and 1 or 0)
	end
	full = joined and tonumber(most) >= 0 and redis.call('zscore', queue, asker) and tickets('+inf') > tonumber(most)
	if full then
		redis.call('zrem', queue, asker)
		first, second = front()
	end
end

-- A window without a ticket behind it ends by the queue's expiry.
local behind = first
if first == '?' then
	behind = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '1', '1')[1]
	if not behind and not on then
		redis.call('zrem', queue, '?')
	end
end
-- If the last reader of ours leaves during a window, foreign clients are notified that the lock is
-- free.
if freed and on and not told and isFree() then
	told = true
	redis.pcall(publish, channel, message)
end
-- The first ticket looks when foreign clients release the lock, or their window is over. So does its
-- deputy, the first ticket of another client: if the client of the first ticket is paused, the look of
-- the deputy grants the first ticket the lock, for a claim after which the client is known to be dead.
-- Both are notified when a window begins, or when the tickets before them have left. The asker learns
-- from the reply that it is one of the two.
local follows = behind -- the asker if it has to look like the first ticket
if here and behind and (on or isForeign(holder())) then
	if isForeign(holder()) and (not on or now >= state.e) then
		takePlace()
	end
	local tells = on and told or freed or gaveUp or dropped
	local client
	for _, member in ipairs((tells or behind ~= asker) and redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '64') or {}) do
		if member ~= '?' and clientOf(ticketOf(member)) ~= client then
			if member == asker then
				follows = asker
			elseif tells then
				redis.pcall(publish, grants .. clientOf(ticketOf(member)), '?' .. ticketOf(member) .. ' ' .. lock)
			end
			if client then
				break
			end
			client = clientOf(ticketOf(member))
		end
	end
	-- The clients of both may be paused. A client that runs looks for a ticket every two seconds: if
	-- neither of the two was looked for in the time unheard, the tickets behind them look as well. The
	-- time is noted only while there are such tickets.
	if follows == asker then
		if state.h and now - state.h >= 500 then
			setState('h', now)
		end
	elseif asker and redis.call('zscore', queue, asker) then
		if not state.h then
			setState('h', now)
		elseif now - state.h >= unheard then
			follows = asker
		end
	end
end
-- No message says that a lock which was passed on is free. So a client whose ticket has just become
-- the first is notified: it looks now, and again when the lease of the pass ends.
if behind and behind ~= asker and (behind ~= foremost or gaveUp or dropped) and not isForeign(holder()) then
	local shown, passed = holders(), false
	for _, owner in ipairs(#shown > 0 and shown or {holder() or nil}) do
		passed = passed or isPassed(owner)
	end
	if passed then
		redis.pcall(publish, grants .. clientOf(ticketOf(behind)), '?' .. ticketOf(behind) .. ' ' .. lock)
	end
end
if behind then
	if joins and not begins and not full then
		redis.call('pexpire', queue, silence)
	end
else
	if placed then
		leavePlace()
	end
	-- Without a ticket the queue has only marks. They are kept for as long as the lease of the lock.
	if not on and (row[1] or joins) then
		redis.call('pexpire', queue, string.format('%.0f', math.max(leaseLeft(), 1)))
	end
	if freed and not on and isFree() then
		local sent
		-- Without a window the next acquire of ours would always come before theirs.
		if here and isWindowDue() and redis.pcall('zadd', queue, '1', '?') == 1 then
			state.p = waits == 0 and 1 or nil
			if state.p then
				setState('p', 1)
			end
			sent = beginWindow()
		else
			sent = not told and redis.pcall(publish, channel, message)
			if fair then
				callFair()
			end
		end
		if on and redis.pcall('pexpire', queue, state.e - now) ~= 1 then
			redis.pcall('zrem', queue, '?')
		end
		if released(sent) then
			return released(sent) -- end 13
		end
	elseif on then
		redis.pcall('pexpire', queue, math.max(state.e - now, 1))
	end
end

if not asker then
	return left -- end 14
end

local reply = {left, leaseLeft(), holder() or '', on and math.max(state.e - now, 0) or -2}
if granted then
	reply[5] = granted
elseif hasLock(ticketOf(asker), modeOf(asker)) then
	local token, refused = keepOwner(ticketOf(asker), modeOf(asker), term)
	if refused then
		return refused -- end 15
	end
	reply[5] = token
elseif follows == asker then
	reply[5] = 2
	-- A client may not know a tenure of its own that has the lock: a proxy repeated the acquire after
	-- the release. So a look asks the clients of all holders; of a semaphore it asks only the client of
	-- the permit that ends first, so that it sends one message and not many.
	if behind == asker and not joins and not pollsFor(asker) then
		local shown = holders()
		for _, owner in ipairs(#shown > 0 and shown or {holder() or nil}) do
			if isOurs(owner) and not isPassed(owner) then
				redis.pcall('publish', 'rlock_grants:client:' .. clientOf(owner), 'h ' .. owner .. ' ' .. sort .. lock)
			end
		end
	end
else
	reply[5] = not full and (joined or redis.call('zscore', queue, asker)) and 1 or 0
end
if most and type(reply[5]) == 'number' then
	local own = redis.call('zscore', queue, asker)
	reply[5] = {full and -1 or reply[5], own and tickets(own) or 0, tickets('+inf')}
end
reply[6] = heldBack
return reply
