-- The part of a step, after queue.lua, that counts the foreign clients (Redisson's) and gives them
-- windows. Without foreign clients the hash is not read, and the functions are not even defined.
--
-- KEYS[3]  a hash with times in milliseconds of Redis' clock, which expires 5 s after it was
--          written. A window is the member "?" of the queue. It is on from the moment at which "?"
--          stands first and the lock is free, or a writer of ours lets readers in (grant.lua). While
--          it is on, no client of ours is granted the lock, except readers beside foreign readers.
--   b, e     the beginning and the end of the window that is on
--   u        the time at which a foreign client was first seen to use it
--   p        set if the present "?" is for foreign clients that only poll, and cannot be counted
--   n, l     the time before which no "?" for counted clients is added; the length of the next one if
--            nobody uses it
--   q        the time before which no "?" for clients that only poll is added
--   t        the end of the last window
--   s        the time at which a foreign holder was last seen
--   f        the time at which Redisson's fair queue was last seen
--   w        the time from which readers of ours wait for a writer (grant.lua)
--   h        the time at which the first ticket or its deputy was last looked for, to half a second,
--            while other tickets wait behind them (grant.lua)
-- KEYS[5], KEYS[6]  of a lock that Redisson's fair lock may share, two keys of that lock: its queue, a
--          list of owners; and a sorted set of the times until which it waits for each. "rlock:0" is
--          a place of ours in both. A user without a right to these keys sends steps without them.
--
-- If one of these keys holds something else, or the server refuses a command of this part, the step
-- goes on as if there were no foreign client: the next waiter must get a lock that was freed. No key,
-- and no place in the fair queue, is left behind without an end.
--
-- For grant.lua:
--   listeners, count(...)  the number of subscribers by channel; counts them for channels
--   waits                  the number of foreign clients that wait
--   here                   whether there may be foreign clients; the names below need that
--   fair, placed           whether there is a fair queue, and a place of ours in it
--   on, state, now         whether a window is on; the fields of the hash; Redis' clock
--   beginWindow(), isWindowDue()         begins a window; whether "?" may be added to the queue
--   setState(...)              writes fields of the hash
--   takePlace(), leavePlace(), callFair()
--                          take and leave the place in the fair queue; notify its first owner that
--                          the lock is free
local shortest, longest = 10, 140 -- the lengths of an unused window; Redisson's spin lock tries every 128 ms
local memory = 5000               -- the life of the hash
local place, patience = 'rlock:0', 3000

local listeners = {} -- the numbers of subscribers, by channel
local function count(...)
	local n = redis.pcall('pubsub', numsub, ...)
	for i = 1, #n, 2 do
		listeners[n[i]] = n[i + 1]
	end
end

local waits = 0     -- the number of foreign clients that wait: subscribers, and processes in the fair queue
local fair = false  -- whether there is a fair queue
local here = false  -- whether there may be foreign clients
-- A release adds "?" behind the tickets of the queue. Behind a single ticket, "?" is alone once the
-- ticket has been granted the lock, and is dropped: two clients with a ticket each would pass the lock
-- to each other for ever. So a ticket that joins an empty queue lets foreign clients go first.
if not guarded or joined and first == asker then
	if family ~= 'c' then
		local ears = grants .. 'ushers'
		count(channel, ears, grants .. clientOf(ticketOf(first or '')))
		waits = math.max((listeners[channel] or 0) - (listeners[ears] or 0), 0)
	end
	fair = fairQueue and redis.call('exists', fairQueue) == 1
	here = polls or fair or waits > 0 or first == '?' or isForeign(holder()) or family == 'c' and redis.call('exists', foreign) == 1
end
local fields = {'b', 'e', 'u', 'p', 'n', 'l', 'q', 't', 's', 'f', 'w', 'h'}
local known, time
if here then
	known, time = redis.pcall('hmget', foreign, unpack(fields)), redis.pcall('time')
	here = not (known.err or time.err)
	fair = fair and here
end

local state, now = {}, 0
local on = false    -- whether a window is on
local placed = false -- whether our place is in the fair queue
local beginWindow, isWindowDue, setState, takePlace, leavePlace, callFair

if here then
	for i, name in ipairs(fields) do
		state[name] = tonumber(known[i])
	end
	now = time[1] * 1000 + math.floor(time[2] / 1000)

	function setState(...)
		redis.pcall('hset', foreign, ...)
		if redis.pcall('pexpire', foreign, memory) ~= 1 then
			redis.pcall('hdel', foreign, unpack(fields))
		end
	end

	local processes = {}
	local owners = fair and redis.pcall('lrange', fairQueue, 0, 8) or {}
	for _, owner in ipairs(owners) do
		local process = uuidOf(owner)
		if owner == place then
			placed = true
		elseif not processes[process] then
			processes[process], waits = true, waits + 1
		end
	end
	if owners.err then
		fair, fairQueue = false, nil
	end
	if fair and now - (state.f or 0) > memory / 2 then
		state.f = now
		setState('f', now)
	end
	-- No node of a Cluster with plain pub/sub knows all subscribers. So a foreign client that had the
	-- lock a moment ago counts as a foreign client that waits.
	if family == 'c' then
		if isForeign(holder()) then
			state.s = now
			setState('s', now)
		end
		waits = math.max(waits, now - (state.s or 0) < memory and 1 or 0)
	end

	-- Takes a place before the fair waiters: Redisson then leaves a free lock to us, and publishes to
	-- our place when the lock is free. The place ends three seconds after the lease, in case all
	-- clients of ours die. The lease may be renewed, so each look moves the end of the place.
	function takePlace()
		if fairQueue and (placed or state.f) then
			local ends = now + math.max(leaseLeft(), 0) + patience
			local timed = redis.pcall('zadd', fairTimes, string.format('%.0f', ends), place)
			if type(timed) == 'number' and not placed then
				placed = type(redis.pcall('lpush', fairQueue, place)) == 'number'
				if not placed then
					redis.pcall('zrem', fairTimes, place)
				end
			end
		end
	end

	function leavePlace()
		if placed and type(redis.pcall('lrem', fairQueue, 1, place)) == 'number' then
			redis.pcall('zrem', fairTimes, place)
			placed = false
		end
	end

	-- Notifies the first of the fair waiters that the lock is free.
	function callFair()
		leavePlace()
		local head = fair and redis.pcall('lindex', fairQueue, 0)
		if type(head) == 'string' then
			redis.pcall(publish, channel .. ':' .. head, '00')
		end
	end

	function beginWindow()
		state.b, state.e, on = now, now + (state.p and longest or state.l or shortest), true
		redis.pcall('hdel', foreign, 'u', 'w')
		setState('b', now, 'e', state.e)
		callFair()
		if not told then
			told = true
			return redis.pcall(publish, channel, message)
		end
	end

	-- Reports whether "?" may be added to the queue: for counted clients if there are any, else for
	-- clients that only poll. Neither sort of window delays the other.
	function isWindowDue()
		if waits > 0 then
			return now >= (state.n or 0)
		end
		return polls and now >= (state.q or 0)
	end

	-- Forgets the present window.
	local function closeWindow()
		redis.pcall('hdel', foreign, 'b', 'e', 'u', 'p')
		state.b, state.u, state.p = nil, nil, nil
	end

	-- Ends the window, when its time is up or no client of its sort is left. After an unused window the
	-- next one comes after 16 times the time for which the lock was idle, and is twice as long. After a
	-- window that pollers used, the next one comes after twice that time.
	local function endWindow()
		local polled, used = state.p, state.u or waits == 0 and not state.p and now
		local idle = (used or math.min(now, state.e)) - state.b
		local length = math.min(2 * math.max(state.e - state.b, shortest), longest)
		redis.call('zrem', queue, '?')
		closeWindow()
		if polled then
			state.q = now + idle * (used and 2 or 16)
			setState('q', state.q, 't', now)
		else
			state.n, state.l = now + idle * (used and 0 or 16), used and shortest or length
			setState('n', state.n, 'l', state.l, 't', now)
		end
	end

	-- If a foreign client has the lock, or has had it, the window is used. Then it goes on: for each
	-- foreign process that waits, as long as a client of ours had the lock on average since the last
	-- window, less a quarter, since the last foreign section goes on after the window. If a foreign
	-- section has already lasted longer, the window is over. In the queue of a fair lock a client of
	-- ours has several tickets.
	if state.b and not state.u and (heard or isForeign(holder())) then
		local clients, seen, tickets = 0, {}, redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '1', '64')
		for _, member in ipairs(tickets) do
			local client = clientOf(ticketOf(member))
			clients, seen[client] = clients + (seen[client] and 0 or 1), true
		end
		clients = math.max(clients, 1)
		local mean, processes, since = (state.b - (state.t or 0)) / clients, math.max(1, math.min(waits, 8)), now - state.b
		local most = 10 * math.max(#tickets / clients, 1)
		local part = math.max(5, math.min(0.75 * mean, most)) * processes
		if not state.p and mean * processes <= since then
			part, since = 0, 0
		end
		state.u, state.e = now, now + math.floor(math.max(part, math.min(since, 64)))
		setState('u', now, 'e', state.e)
	end

	local had = false -- whether foreign clients have had a free lock for a whole window
	if state.b and first ~= '?' then -- the queue has expired, since no client of ours waited
		had = not freed and isFree()
		local used, polled = state.u, state.p
		closeWindow()
		if not polled and (used or waits > 0) then
			state.l = used and shortest or math.min(2 * (state.l or shortest), longest)
			setState('l', state.l)
		end
	elseif state.b and not isForeign(holder()) and (now >= state.e or waits == 0 and not state.p) then
		endWindow()
		first, second = front()
	elseif not state.b and first == '?' and waits == 0 and not state.p then -- the foreign clients for which "?" was added have left
		redis.call('zrem', queue, '?')
		first, second = front()
	end
	on = first == '?' and state.b ~= nil

	if first and first ~= '?' and not had and isWindowDue() then
		score = score or redis.call('zrange', queue, '-1', '-1', 'withscores')[2] + 1
		if redis.pcall('zadd', queue, 'nx', score, '?') == 1 then
			first, second = front()
			if waits == 0 then
				state.p = 1
				setState('p', 1)
			end
		end
	end
end
