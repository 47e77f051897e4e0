-- The part of a step, after queue.lua, that counts the foreign clients (Redisson's) and gives them
-- windows. Without foreign clients the hash is not read, and the functions are not even defined.
--
-- KEYS[3]  a hash with times in milliseconds of Redis' clock, which expires 5 s after it was
--          written. A window is "?" in the queue. It is on from when "?" stands first and the lock
--          is free, or a writer of ours has let readers in (grant.lua): then no client of ours is
--          granted the lock, but for readers beside foreign readers.
--   b, e     when the window that is on began, and when it ends
--   u        when it was first seen to be used
--   p        this "?" is for foreign clients that cannot be counted, since they only poll
--   n, l     the next "?" for those that are counted is not put in line before n; unused, it is l long
--   q        the next one for those that only poll is not put in line before q
--   t        when the last window ended
--   s        when a foreign holder was last seen
--   f        when Redisson's fair queue was last seen
--   w        since when readers of ours are held back
--   h        when the first ticket or its deputy was last looked for, to half a second, while others wait
--            behind them (grant.lua)
-- KEYS[5], KEYS[6]  of a lock that Redisson's fair lock may share: its queue, a list of owners, and
--          the times until which it waits for each, a sorted set. "rlock:0" is a place of ours
--          there. A user without the right to them sends steps without.
--
-- If one of these keys holds something else, or the server refuses a command of this part, the step
-- goes on as if there was no foreign client: a refusal must not keep a lock that was freed from those
-- that wait for it. Nor does it leave a key, or a place in the fair queue, that does not end.
--
-- For grant.lua:
--   listeners, count(...)  how many listen by channel, and what counts them
--   waits                  how many foreign clients wait
--   here                   whether there may be foreign clients; the rest is defined only then
--   fair, placed           whether there is a fair queue, and a place of ours in it
--   on, state, now         whether a window is on; the fields of the hash; Redis' clock
--   beginWindow(), isWindowDue()         begins a window; whether one may be put in line
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

local waits = 0     -- how many foreign clients wait: subscribers, and processes in the fair queue
local fair = false  -- whether there is a fair queue
local here = false  -- whether there may be foreign clients, so that the next names are defined
-- A release puts "?" behind the tickets that it finds. If that is one, "?" is alone when it has
-- been granted the lock, and is dropped: two clients with a ticket each would pass the lock to one
-- another for ever. So a ticket that joins an empty queue lets foreign clients go first.
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
local on = false    -- whether their window is on
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
	-- No node of a Cluster with plain pub/sub knows all subscribers. A foreign client that had the
	-- lock a moment ago counts as one that waits.
	if family == 'c' then
		if isForeign(holder()) then
			state.s = now
			setState('s', now)
		end
		waits = math.max(waits, now - (state.s or 0) < memory and 1 or 0)
	end

	-- Takes a place before the fair waiters: Redisson then leaves the lock free for us, and
	-- publishes to that place when it is free. The place ends three seconds after the lease, in
	-- case all clients of ours die. The lease may be renewed, so each look moves that end.
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

	-- Begins the window.
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

	-- Reports whether a window may be put in line: one for counted clients, if there are some, else
	-- one for clients that only poll. Neither sort puts off the windows of the other.
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

	-- Ends the window, when its time is up or none of the clients that it was for is left. After a
	-- window in vain the next one is 16 times as far away as the lock was idle, and twice as long.
	-- After a window that pollers used the next one is twice as far away as the lock was idle.
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

	-- A foreign client has the lock, or has had it: the window is used. For each process that
	-- waits, the window goes on for as long as each client of ours had since the last window, less
	-- a quarter, since the last section of theirs goes on after it. If a section of theirs was
	-- longer than that, the window is over. For a fair lock a client of ours has several tickets.
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

	local had = false -- whether the lock has been left free to them since their window began
	if state.b and first ~= '?' then -- no client of ours waited for the end of the window, and the queue has expired
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
	elseif not state.b and first == '?' and waits == 0 and not state.p then -- the clients that "?" was for have left
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
