-- The end of a step, after queue.lua and foreign.lua: as long as the lock is open to the first
-- ticket in the queue it is granted to it, or foreign clients have a window.
local starved, respite = 2000, 1000 -- the times for which readers of ours are held back for a writer, and then are not
local unheard = 3000 -- the time after which clients count as standing still that have not looked for their tickets

-- Reports whether the client of a ticket can be notified; true if Redis does not say.
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

-- Undoes a grant that the server has refused by its access rules: it must not keep a lock that its
-- owner does not know of, nor the ticket of a command that failed. The client of the ticket that is
-- the first now looks, and gets the lock or the error.
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
local granted -- the token of the asker once it was granted the lock, else nil

-- Takes the member out of the queue, and grants it the lock if its client is there. Its mark comes
-- before, so that the queue keeps its expiry.
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
		local told = redis.pcall(publish, grants .. clientOf(ticketOf(member)), '+' .. ticketOf(member) .. ' ' .. token .. ' ' .. reserve .. ' ' .. lock)
		refused = not pollsFor(member) and type(told) == 'table' and told
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

-- Drops the tickets at the front whose clients do not listen. The lock may be open to the ticket
-- behind them, or that one has to listen to foreign clients. While a client of ours has the lock alone
-- neither is so, and its release drops them.
local dropped = false
while not guarded and waiter() and waiter() ~= asker and not listens(waiter()) do
	redis.call('zrem', queue, waiter())
	first, second = front()
	dropped = true
end

local stale = false -- whether second is to be looked up
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

-- Readers do not wait for readers. A writer of ours that has left, or goes on as a reader, which is
-- when a step has no members, has let readers in: foreign readers are notified. If "?" stands
-- before a reader of ours, the window begins beside those that read, so that the reader waits no
-- longer than the window. Once a foreign client reads, the readers right behind "?" read beside it.
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

-- Clients may disagree on the number of permits: a release that grants none makes the first tickets
-- of other clients look, since one of these clients may know of more permits (semaphore.lua). The
-- front of a long queue is enough, since the others stand behind it.
if varies and freed and first and first == ahead then
	local told, n = {[clientOf(ticketOf(leaver))] = true}, 0
	for _, member in ipairs(redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '64')) do
		local client = clientOf(ticketOf(member))
		if n < 8 and not told[client] and not pollsFor(member) then
			told[client], n = true, n + 1
			redis.pcall(publish, grants .. client, '?' .. ticketOf(member) .. ' ' .. lock)
		end
	end
end

-- Foreign readers may keep a writer out, ours or a foreign one, for as long as they like. Readers of
-- ours behind that writer do not starve: they are held back for two seconds, and then they may begin
-- to read for one second.
local heldBack -- the rest of the time for which they are held back, nil if they are not
local out = first -- the first ticket that a foreign reader keeps out
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

-- A ticket with a bound has joined as any other, so that this step has dropped the tickets of the
-- dead that it can. It is taken out again if too many are left. Such a join does not extend the
-- queue's expiry, so that a queue of dead tickets expires.
local full = false
local tickets -- returns how many tickets stand in the queue up to a score, without a window
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

-- A window that no ticket waits behind ends by the queue's expiry.
local behind = first
if first == '?' then
	behind = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '1', '1')[1]
	if not behind and not on then
		redis.call('zrem', queue, '?')
	end
end
-- Readers of ours have read in a window, and the last of them leaves: foreign clients are notified
-- that the lock is free.
if freed and on and not told and isFree() then
	told = true
	redis.pcall(publish, channel, message)
end
-- The first ticket looks when foreign clients release the lock, or their window is over. So does its
-- deputy, the first ticket of another client: if the client of the first stands still, a look of the
-- deputy grants that ticket the lock, for the claim after which it is known to be dead. Both are
-- notified when a window begins, or when the tickets before them have left; the asker learns it from
-- the reply.
local follows = behind -- the asker if it looks beside the first ticket
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
	-- Both may stand still. A client that lives looks for a ticket every two seconds; if it is longer ago
	-- that one of the two was looked for, those behind them look as well. While there are none, the time
	-- is not noted.
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
-- No message says that a lock which was passed on is free. So the client of a ticket that is the
-- first only now looks, and again when that lease ends.
if behind and behind ~= asker and (behind ~= foremost or gaveUp or dropped) then
	local owner = holder()
	if owner and isOurs(owner) and isPassed(owner) then
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
	-- Without a ticket the queue has marks only, which are kept as long as the lease that they are
	-- about.
	if not on and (row[1] or joins) then
		redis.call('pexpire', queue, string.format('%.0f', math.max(leaseLeft(), 1)))
	end
	if freed and not on and isFree() then
		local sent
		-- Without a window our next acquire would always be sooner than theirs.
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
	-- A client may have forgotten a tenure that has the lock: an acquire of it was repeated after
	-- its release. A look asks the clients of all holders, of a semaphore that of the permit that
	-- ends first: so it is one message of many a claim.
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
