-- One step of a lock for which clients wait: a ticket leaves, a ticket joins, and as long as the lock
-- is open to the first ticket in the queue, that ticket is granted the lock. In the same script the
-- part of the kind (plain.lua, rw.lua, semaphore.lua) comes before this part, and foreign.lua and
-- grant.lua come after it.
--
-- Later parts use these names of earlier parts, and no others.
--
-- From the part of the kind:
--   lock, reserve         KEYS[1]; how many tokens a grant reserves, or ''
--   sort, varies          the letter of the kind; whether clients may disagree on the number of permits
--   holder(), holders()   an owner that has the lock, or false; the owners whose clients a look asks
--   leaseLeft()           the rest of the lease, as pttl
--   isFree(), isOpen(mode, member)  whether the lock is free; whether a further ticket may have it
--   hasLock(ticket, mode)  whether the ticket has the lock
--   addOwner(ticket, mode, lease), keepOwner(ticket, mode, lease)
--                         give the ticket the lock, or keep the lock for the lease; return the tokens, or
--                         nil and an error
--   removeOwner(ticket, mode)    takes the ticket out of the lock, and returns the number for left; 0 if
--                         the ticket did not have the lock
--   isOurs(owner)         whether the owner is a tenure of a client of rlock
--   left                  the reply about the member that leaves
--   message, told         the message to foreign clients that the lock is free; whether it was sent
--   ended                 the marks of permits whose leases are over, nil for none
--
-- From this part:
--   queue, foreign, channel, fairQueue, fairTimes, lease, asker, leaver, joins, most
--                         the keys and the arguments, see below
--   family, publish, numsub, polls, heard
--                         ARGV[1]: its first letter, the commands, and whether it has "+" and "!"
--   grants, silence       what begins the channels of grants; the life of a queue
--   modeOf(member), pollsFor(member), claimOf(member)
--                         the mode of a ticket; whether its client polls; the lease of its claim
--   isForeign(owner)      whether the owner is foreign; not true of no owner
--   released(reply)       the error of a step that has freed the lock, if the reply is one
--   row                   the members of the queue that were read
--   freed, gaveUp, joined whether the leaver had the lock, had a place in the queue; whether the asker joins
--   begins                whether the queue begins with the asker: it has its expiry then
--   guarded               whether a client of ours has the lock alone
--   score                 the score before the asker's, nil if no ticket joins
--   front(), first, second  reads the first two members of the queue that are no marks; these two
--
-- A ticket is the owner's text of a future tenure, "<uuid>:<id>". A member of the queue is a letter
-- and a ticket. x needs the lock alone, s shares it; a is x for a call that takes the answer of a
-- release (release_answer.lua), and b is x with a claim of 0.5 s in place of 2 s. X, S and A stand
-- for x, s and a of a ticket that polls, since its client has not subscribed. The first 19 characters
-- of a ticket are its client's id. They end the name of the channel on which this client alone
-- hears of its grants.
--
-- Foreign clients are clients of Redisson: they know the lock and its channel, and nothing of the
-- queue. The member "?" of the queue is a window for them.
--
-- KEYS[1]  the lock's name
-- KEYS[2]  the queue, "rlock_queue:<tag>": a sorted set of members in the order in which they came.
--          A tenure that was granted the lock out of the queue has a mark there, "!<uuid>" with
--          score 0, until it is released
-- KEYS[3]  the windows of foreign clients, "rlock_foreign:<tag>": see foreign.lua
-- KEYS[4]  the channel that foreign clients listen to
-- KEYS[5]  of a read-write lock: the beginning of the readers' keys, see rw.lua
-- KEYS[5], KEYS[6]  of a lock that Redisson's fair lock may share: the keys of that lock's queue, see
--          foreign.lua
-- KEYS[7]  of a fenced lock: the counter of its tokens; KEYS[5] without the two keys before
-- ARGV[1] how to publish and count: "p" plain, "s" sharded, "c" plain in a Cluster, where
--          no node knows all subscribers; then "+" if there may be foreign clients that only poll,
--          and "!" if the client of a look has heard one release the lock
-- ARGV[2]  the lease of a look in milliseconds
-- ARGV[3]  the number of tokens that a fenced lock reserves, or of permits of a semaphore, else ""
-- ARGV[4]  1 if a member leaves, else 0
-- ARGV[5]  1 if a member joins, else 0
-- ARGV[6]  the member that leaves, if any; behind it the member that joins or is looked for, if any
-- ARGV[7]  if no member leaves, and the step asks for the position of the ticket: the largest number
--          of tickets in the queue, the joining one included. If there are more, the joining ticket
--          is taken out again. Negative: any number
--
-- In a release a member leaves and nothing else is asked for. It has at most four arguments instead:
-- ARGV[1], the ticket, ARGV[3] and the ticket's mode; the last two are left out if they are "" and x.
-- Redis needs less time for fewer arguments.
--
-- 1, 0                if only leaving was asked for: the member had the lock or a place in the
--                     queue, or neither; or the number that removeOwner returns
-- an error that ends in "(released)": the lock was freed, but a message was refused
-- {l, n, o, g, a, r}  l: the same; owner o has the lock for n more milliseconds (-1: its
--                     key has no TTL; -2 and "": it is free); a window of foreign clients ends
--                     in g milliseconds (negative: there is none); a: the ticket that joins or is
--                     looked for is 0 not in the queue, 1 in the queue, 2 the first ticket, or its
--                     deputy: see grant.lua; "" or "<token>": the ticket has the lock; r, if foreign
--                     readers keep a writer out: readers of ours wait for r more milliseconds
-- a with ARGV[7], unless the ticket has the lock:
-- {a, p, w}           a as above, or -1: the ticket has joined, and was taken out again since too
--                     many wait; p: its position among the tickets in the queue, from 1, or 0; w: the
--                     number of all tickets
--
-- The step ends early, in this order. Each of these ends has its number in the code:
--
--      file           when                                                 reply
--  1   plain          a release without a queue, and no foreign client     1
--                     listens
--  2   plain          a release without a queue, and the message to        "(released)"
--                     foreign clients was refused
--  3   swift          a ticket joins behind another one while a tenure of  {0, n, o, -1, 1}
--                     ours has the lock, or as the first one               {0, n, o, -2, 2}
--  4   swift          a release passes the lock to the first ticket, and   1 or {1, n, o, -2, a}
--                     another ticket may join
--  5   the kind's     the key is no lock: nothing was changed              a WRONGTYPE error
--  6   semaphore      a release without a queue                            1 or 0
--  7   queue          the queue's key is no queue: nothing was changed     an error
--  8   queue          the queue's key is no queue: the lock was freed      as 14, or "(released)"
--  9   queue          the user may not count the queue: a ticket with a    an error
--                     bound has not joined
--  10  queue          the server refuses the expiry of an empty queue: a   an error, "(released)" if a
--                     ticket has not joined                                member has freed the lock
--  11  queue          a ticket joins behind another one while a tenure of  {l, n, o, -1, 1}
--                     ours has the lock
--  12  grant          a grant was refused: it is undone, and the ticket    an error, "(released)" if a
--                     that joins has not                                   member has freed the lock
--  13  grant          the lock is free without a ticket, and the message   "(released)"
--                     to foreign clients was refused
--  14  grant          only leaving was asked for                           1 or 0, or as removeOwner returns
--  15  grant          the ticket has the lock, and its lease or its        an error
--                     tokens were refused
--
-- Messages on "rlock_grants:<tag>:<client>":
--
-- "+<ticket> <token> <n> <lock>"  the ticket has the lock of that name, for a claim, with
--                                 the tokens up to token, of which n are its own
-- "?<ticket> <lock>"              look. The ticket is the first or its deputy, and a window of foreign
--                                 clients begins, or a foreign client holds the lock and the tickets
--                                 before have left. Or the ticket is the first, and a grant was
--                                 refused, or the lock was passed on (others.lua,
--                                 semaphore_mirror.lua). For semaphores see semaphore.lua, too
-- "=<ticket> <n> <lock><answer>"  a release has taken the ticket out of the queue, and has an answer
--                                 for its call: see release_answer.lua. <n> is the length of <lock>
--                                 in bytes
--
-- The messages on "rlock_grants:client:<client>", always by PUBLISH:
--
-- "h <owner> <sort><lock>"        the first ticket looks while the client's tenure <owner> has the
--                                 lock. A client that does not know this tenure releases it. The sort
--                                 is r for a read-write lock, s for a semaphore, p for any other
--
-- A step that is sent again changes nothing: a ticket leaves once, and joins once. But a ticket that
-- joined, was granted the lock, and left before the repetition would join a second time. So a client
-- makes a ticket join by one command only.
--
-- The client of a ticket may have given it up by the time the join is executed. So a join is granted
-- the lock for a claim, which ends soon. A look is sent for a ticket that is known to be in the
-- queue, and is granted the lock for the whole lease.
--
-- A ticket whose client does not listen is dropped before the grant. To count the receivers of the
-- message in place of that would, in a failover, drop tickets whose clients have heard it. A tenure
-- that was granted the lock out of the queue, and ended without a release, belongs to a client that
-- is dead or stopped. All tickets of this client are dropped, so that it costs the others one claim.
local queue, foreign, channel, lease = KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[2])
local fairQueue, fairTimes = KEYS[6] and KEYS[5], KEYS[6]
local leaver, joins = ARGV[4] == '1' and ARGV[6], ARGV[5] == '1'
if #ARGV < 5 then
	leaver = (ARGV[4] or 'x') .. ARGV[2]
end
local asker = ARGV[leaver and 7 or 6] -- the member that joins or is looked for; nil for none
local most = not leaver and ARGV[7]   -- the largest number of tickets in the queue; nil if the position is not asked for
local grants = 'rlock_grants:' .. string.sub(queue, 13) .. ':'
local family, polls, heard = string.sub(ARGV[1], 1, 1), false, false
if #ARGV[1] > 1 then
	polls, heard = string.find(ARGV[1], '+', 1, true), string.find(ARGV[1], '!', 1, true)
end
local publish, numsub = 'publish', 'numsub'
if family == 's' then
	publish, numsub = 'spublish', 'shardnumsub'
end
local silence = '60000' -- the time without a step after which a queue has no waiters, and expires

local function modeOf(member)
	local letter = string.lower(string.sub(member, 1, 1))
	return letter == 'b' and 'x' or letter
end

local function pollsFor(member)
	return string.find(member, '^%u')
end

local function claimOf(member)
	return string.sub(member, 1, 1) == 'b' and 500 or 2000
end

local function isForeign(owner)
	return owner and not isOurs(owner)
end

-- Returns the error of a step that has freed the lock if the reply to a later command is an error, as
-- that of a refused message, else false.
local function released(reply)
	return type(reply) == 'table' and redis.error_reply(reply.err .. ' (released)')
end

-- If a ticket joins: the last member of the queue. Else its first three, of which one may leave.
local row
if joins then
	row = redis.pcall('zrange', queue, '-1', '-1', 'withscores')
else
	row = redis.pcall('zrange', queue, '0', '2')
end

-- A key that is no queue is left as it is, but a release frees the lock all the same.
if row.err then
	local err = row.err .. ' (queue ' .. queue .. ')'
	if leaver then
		left = math.max(left, removeOwner(ticketOf(leaver), modeOf(leaver)))
	end
	if left == 0 then
		return redis.error_reply(err) -- end 7
	end
	local refused = released(redis.pcall(publish, channel, message))
	return refused or asker and released({err = err}) or left -- end 8
end

-- A look extends the expiry of the queue. This comes first: a server without memory refuses commands
-- that need memory, also those of a grant, but not after the script has written.
if asker and not joins then
	redis.call('pexpire', queue, silence)
end

-- Leave. A tenure that has the lock may have a mark in the queue, and a ticket has its member there.
local freed, gaveUp = left > 0, false
local mark = leaver and markOf(ticketOf(leaver))
if leaver then
	left = math.max(left, freed and 0 or removeOwner(ticketOf(leaver), modeOf(leaver)))
	freed = left > 0
	gaveUp = not freed and redis.call('zrem', queue, leaver) > 0
	if gaveUp then
		left = 1
	elseif row[1] then
		redis.call('zrem', queue, mark)
	end
end

-- A user without the right to count gets an error before a ticket with a bound joins. The reply to
-- any other join or look of this user has no position.
if most then
	local counts = redis.pcall('zcount', queue, '1', '+inf')
	if type(counts) == 'table' and tonumber(most) >= 0 then
		return counts -- end 9
	elseif type(counts) == 'table' then
		most = nil
	end
end

-- Returns the score behind which a ticket of that line joins while others wait. The queue has tiers,
-- in each of which a line has one ticket at most: the ticket joins as the last of the tier behind
-- that of the last ticket of its line, or of the first ticket of all. So each other line goes ahead
-- of a ticket once in a turn of its own line.
local function endOfTier(line)
	local members = redis.call('zrangebyscore', queue, '1', '+inf', 'withscores')
	local size, tier = 1048576, nil
	for i = 1, #members, 2 do
		if members[i] ~= '?' and (not tier or lineOf(members[i]) == line) then
			tier = math.floor(members[i + 1] / size)
		end
	end
	local score = ((tier or 0) + 1) * size
	local over = score + size
	for i = 2, #members, 2 do
		local other = tonumber(members[i])
		score = other < over and math.max(score, other) or score
	end
	return score
end

-- Join. The score between the last member and the ticket is left for a window of foreign clients. A
-- queue that begins with the ticket expires, whatever the server refuses from here on.
local score = joins and tonumber(row[2] or 0) + 1
if joins and score > 1 and lineOf(asker) then
	score = endOfTier(lineOf(asker)) + 1
end
local joined = joins and not hasLock(ticketOf(asker), modeOf(asker))
local begins = joined and (not row[1] or row[1] == leaver or row[1] == mark)
if joined then
	redis.call('zadd', queue, 'nx', score + 1, asker)
	local expires = begins and redis.pcall('pexpire', queue, silence)
	if type(expires) == 'table' then
		redis.call('zrem', queue, asker)
		return freed and released(expires) or expires -- end 10
	end
end

-- While a client of ours has the lock alone, no grant is possible. Its release counts the foreign
-- clients, and so does a ticket that joins an empty queue: see foreign.lua.
local guarded = not isOpen('s') and not isForeign(holder())

-- So a step ends here if a ticket joins behind another one, and nothing else is asked for. Most steps
-- that are no releases end here: the rest would take Redis as long again.
if guarded and joined and not leaver and not most and not ended and score > 1 and row[1] ~= '?' and row[1] ~= asker then
	redis.call('pexpire', queue, silence)
	return {left, leaseLeft(), holder(), -1, 1} -- end 11
end

-- Returns the first two members of the queue that are no marks.
local function front()
	local two = redis.call('zrangebyscore', queue, '1', '+inf', 'limit', '0', '2')
	return two[1], two[2]
end

-- Drops the tickets of a client. The mark is the mark of a tenure that was granted the lock out of
-- the queue, and ended without a release. Other tenures of the client may live: their marks stay.
local function bury(mark)
	redis.call('zrem', queue, mark)
	local dead = clientOf(ticketOf(mark))
	if dead ~= clientOf(ticketOf(leaver or asker or '')) then
		for _, member in ipairs(redis.call('zrange', queue, '0', '-1')) do
			if clientOf(ticketOf(member)) == dead and string.sub(member, 1, 1) ~= '!' then
				redis.call('zrem', queue, member)
			end
		end
	end
end

-- Reports whether no tenure of ours has the lock. Then all marks belong to tenures that ended without
-- a release.
local function abandoned()
	if not isForeign(holder()) then
		return isFree()
	end
	for _, owner in ipairs(holders()) do
		if isOurs(owner) then
			return false
		end
	end
	return true
end

local first, second -- the first two members that are no marks
local unknown = joins
-- The marks of permits that have ended are buried although other owners hold permits.
for i = 1, ended and #ended or 0 do
	if redis.call('zscore', queue, ended[i]) then
		bury(ended[i])
		unknown = true
	end
end
for i = 1, joins and 0 or #row do
	if row[i] == leaver or row[i] == mark then
		-- this member has left
	elseif string.sub(row[i], 1, 1) == '!' then
		unknown = true -- a mark
	elseif first then
		second = second or row[i]
	else
		first = row[i]
	end
end
if unknown then
	for _, mark in ipairs(abandoned() and redis.call('zrangebyscore', queue, '0', '0') or {}) do
		bury(mark)
	end
	if guarded and score == 1 then
		first = asker
	else
		first, second = front()
	end
end
