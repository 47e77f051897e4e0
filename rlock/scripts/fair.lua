-- One step of a fair lock: takes tickets out of its queue, puts others in, and if the
-- lock is free grants it to the first in the queue that is there to hear of it.
--
-- A ticket is the owner's text of a tenure to come, "<uuid>:<id>". Its first 19
-- characters are the client's, and end the name of the channel on which that client,
-- and no other, is told that the ticket has the lock: "<uuid>:<id> <name of the lock>".
--
-- KEYS[1]  the lock's name; its hash is that of a plain lock
-- KEYS[2]  the queue: a sorted set of tickets, by the order in which they came. In
--          front stands "!<uuid>:" for the tenure that was last granted the lock out
--          of it, until that has freed it
-- KEYS[3]  the plain lock's channel
-- ARGV[1]  "PUBLISH" or "SPUBLISH", by the rule that the waiters subscribe by
-- ARGV[2]  "NUMSUB" or "SHARDNUMSUB", to count a channel's subscribers by; "" if no
--          node knows them all
-- ARGV[3]  what the clients' channels begin with
-- ARGV[4]  the ticket that asks, "" if none does
-- ARGV[5]  the lease that it asks for in milliseconds
-- ARGV[6]  "1" if it may have a lock that nobody waits for without having queued
-- ARGV[7]  how many tickets leave
-- ARGV[8]  how many join
-- ARGV[9]  the tickets that leave, then those that join, then those that wait
--
-- nil            the ticket that asks has the lock, and its lease begins now
-- {n, o, t...}   owner o has the lock for n more milliseconds (-1: its key has no
--                TTL; -2 and "": nobody has it); of those that wait, the tickets t are
--                neither in the queue nor o
-- 1, 0           nobody asks: the first of those that leave was here, or was not
-- an error that ends in "(released)": nobody asks, and the lock was freed, but a
--                message was refused
--
-- Sending it again changes nothing: who has left is not there to leave, and who has
-- joined is there. A ticket that joined and was granted in between would join a
-- second time: so each is told to join by one command only, and one that was not
-- answered is given up.
--
-- Who is not listening is passed over, and hears nothing: a count of receivers
-- after the message would pass over some who heard it, in a failover. The lease of
-- a grant is short until the new owner has been heard of. Whoever lets it end without
-- a word is not there, and nor is anybody else of its client: a machine that stands
-- still looks as if it listened, and costs the others one claim, not one a ticket.
--
-- A key that is no queue is left as it is. It is an error for who asks; who releases
-- frees the lock all the same.
local lock, queue = KEYS[1], KEYS[2]
local asking = ARGV[4]
local leaving, joining = tonumber(ARGV[7]), tonumber(ARGV[8])
local claim = 2000 -- claimLease
local silence = 60000 -- queueTime: without a word for so long the queue is nobody's

-- A tenure is known by its uuid, of version 8: the id after it changes with a hand-over.
-- Redisson's uuid is a process, with threads that hold the lock apart.
local function tenure(ticket)
	return string.sub(ticket, 15, 15) == '8' and string.sub(ticket, 1, 37) or ticket
end

-- The error of one who has freed the lock, and whose message is refused.
local function released(refusal)
	return redis.error_reply(refusal.err .. ' (released)')
end

local holder = redis.call('hkeys', lock)[1]
local usable = redis.pcall('zscore', queue, '')
if type(usable) == 'table' and usable.err then
	if asking == '' and holder and tenure(holder) == tenure(ARGV[9]) then
		redis.call('del', lock)
		local told = redis.pcall(ARGV[1], KEYS[3], '0')
		return type(told) == 'table' and released(told) or 1
	end
	return redis.error_reply(usable.err .. ' (queue ' .. queue .. ')')
end

local freed, left = false, 0
for i = 9, 8 + leaving do
	local found = redis.call('zrem', queue, ARGV[i])
	redis.call('zrem', queue, '!' .. tenure(ARGV[i]))
	if holder and tenure(holder) == tenure(ARGV[i]) then
		redis.call('del', lock)
		holder, freed, found = nil, true, 1
	end
	if i == 9 then
		left = found
	end
end

if joining > 0 then
	local last = tonumber(redis.call('zrange', queue, -1, -1, 'withscores')[2] or 0)
	for i = 9 + leaving, 8 + leaving + joining do
		if ARGV[i] ~= holder then
			redis.call('zadd', queue, 'nx', last + i, ARGV[i])
		end
	end
end

local function listens(channel)
	if ARGV[2] == '' then
		return true
	end
	local subscribers = redis.pcall('pubsub', ARGV[2], channel)
	return subscribers.err or subscribers[2] > 0
end

-- A server that refuses the lease, or the message, by its access rules must not keep
-- a lock that never ends, or that nobody knows he has.
local function grant(ticket, lease, channel)
	redis.call('hset', lock, ticket, '1')
	local done = redis.pcall('pexpire', lock, lease)
	if done == 1 and channel then
		done = redis.pcall(ARGV[1], channel, ticket .. ' ' .. lock)
	end
	if type(done) == 'table' then
		redis.call('del', lock)
		return done
	end
	holder = ticket
end

local function client(ticket)
	return string.sub(ticket, 1, 19)
end

-- Passes over the client whose tenure let its lease end, unless it speaks just now.
local function passOver(silent)
	if silent == client(asking ~= '' and asking or ARGV[9]) then
		return
	end
	for _, ticket in ipairs(redis.call('zrange', queue, 0, -1)) do
		if client(ticket) == silent then
			redis.call('zrem', queue, ticket)
		end
	end
end

while not holder do
	local refused
	local first = redis.call('zrange', queue, 0, 0)[1]
	if first then
		redis.call('zrem', queue, first)
	end
	if first and string.sub(first, 1, 1) == '!' then
		passOver(string.sub(first, 2, 20))
	elseif first == asking or not first and ARGV[6] == '1' then
		refused = grant(asking, ARGV[5])
	elseif first then
		local channel = ARGV[3] .. client(first)
		if listens(channel) then
			refused = grant(first, claim, channel)
		end
	else
		break
	end
	if refused then -- as if nobody had come
		for i = 9 + leaving, 8 + leaving + joining do
			redis.call('zrem', queue, ARGV[i])
		end
		return asking == '' and freed and released(refused) or refused
	end
	if holder and first then
		redis.call('zadd', queue, 0, '!' .. tenure(holder))
	end
end
-- The mark of a grant that nobody stands behind is kept for the lease that it is about.
local waits = redis.call('zrange', queue, 0, 1)
if #waits == 1 and string.sub(waits[1], 1, 1) == '!' then
	redis.call('pexpire', queue, math.max(redis.call('pttl', lock), 1))
else
	redis.call('pexpire', queue, silence)
end
if freed and not holder then
	local told = redis.pcall(ARGV[1], KEYS[3], '0')
	if type(told) == 'table' then
		return asking == '' and released(told) or told
	end
end

if asking == '' then
	return left
end
if holder == asking then
	redis.call('pexpire', lock, ARGV[5])
	return nil
end
local reply = {redis.call('pttl', lock), holder or ''}
for i = 9 + leaving + joining, #ARGV do
	if ARGV[i] ~= holder and not redis.call('zscore', queue, ARGV[i]) then
		reply[#reply + 1] = ARGV[i]
	end
end
return reply
