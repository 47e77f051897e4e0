-- While clients wait for a plain or fenced lock, nearly all of its steps are one of two: a ticket
-- joins, or the lock passes to the first ticket. This file makes these two with as few calls as they
-- need. If anything is unusual, it does nothing, and queue.lua makes the step. A line
-- "-- (swift.lua)" of plain.lua is replaced by this file, which has the KEYS and ARGV of queue.lua. To
-- define a function costs time: so the pattern of our owners and the cuts of an owner's text are
-- copies of owners.lua and tenures.lua.
--
-- First step. A ticket joins while a tenure of ours has the lock: behind another ticket, or as the
-- first one if there is no foreign client.
if #ARGV == 6 and ARGV[4] == '0' and ARGV[5] == '1' then
	local last = redis.pcall('zrange', KEYS[2], '-1', '-1', 'withscores')
	local shown = redis.call('hkeys', KEYS[1])[1]
	if shown and not last.err and last[1] ~= '?' and last[1] ~= ARGV[6] and shown ~= string.sub(ARGV[6], 2)
		and string.find(shown, '^........%-....%-8...%-[89ab]...%-............:%d') then
		local score = tonumber(last[2] or 0) -- 0 if the last member is a mark, or the queue is empty
		local lines = string.find(ARGV[6], '@', 1, true) -- the ticket has a line: queue.lua has its place
		local joins = score > 0 and not lines
		if score == 0 and (ARGV[1] == 'p' or ARGV[1] == 's') and (not KEYS[6] or redis.call('exists', KEYS[5]) == 0) then
			joins = redis.pcall('pubsub', ARGV[1] == 's' and 'shardnumsub' or 'numsub', KEYS[4])[2] == 0
		end
		if joins then
			redis.call('zadd', KEYS[2], 'nx', score + 2, ARGV[6])
			if redis.pcall('pexpire', KEYS[2], '60000') == 1 then
				return {0, redis.call('pttl', KEYS[1]), shown, score > 0 and -1 or -2, score > 0 and 1 or 2} -- end 3
			end
			redis.call('zrem', KEYS[2], ARGV[6])
		end
	end
end

-- Second step. The lock passes from its owner to the first ticket, whose client listens, while there
-- is no foreign client. Another ticket of the owner's client may join.
local swaps = ARGV[4] == '1' and ARGV[5] == '1'
if busy == 1 or swaps and #ARGV[1] == 1 and (not KEYS[6] or redis.call('exists', KEYS[5]) == 0) then
	local ticket = swaps and string.sub(ARGV[6], 2) or ARGV[2]
	local front = redis.pcall('zrange', KEYS[2], '0', '2')
	local mark, first, behind = '!' .. string.sub(ticket, 1, 36), front[1], front[2]
	if first == mark then
		first, behind = behind, front[3]
	end
	local letter, counts = first and string.sub(first, 1, 1), {}
	local claim = letter == 'x' and '2000' or letter == 'b' and '500'
	if claim and first ~= ARGV[7] and behind ~= '?' and (not swaps or behind ~= ARGV[7] and not string.find(ARGV[7], '@', 1, true)) then
		local sharded = ARGV[1] == 's'
		local publish = sharded and 'spublish' or 'publish'
		local own = 'rlock_grants:' .. string.sub(KEYS[2], 13) .. ':' .. string.sub(first, 2, 20)
		if ARGV[1] ~= 'c' then
			counts = redis.pcall('pubsub', sharded and 'shardnumsub' or 'numsub', KEYS[4], own)
		end
		local score = swaps and redis.call('zrange', KEYS[2], '-1', '-1', 'withscores')[2] + 2
		if counts[2] == 0 and counts[4] > 0 and redis.call('hdel', KEYS[1], ticket) == 1 then
			left = 1
			local next, number, token = string.sub(first, 2), ARGV[3] or '', ''
			local taken = type(redis.pcall('zrem', KEYS[2], first, mark)) == 'number'
			if taken and number ~= '' then
				token = reserveTokens(KEYS[7] or KEYS[5], number)
			end
			if taken and token then
				redis.call('hset', KEYS[1], next, '1')
				local expires = redis.pcall('pexpire', KEYS[1], claim)
				local sent = expires == 1 and redis.pcall(publish, own, '+' .. next .. ' ' .. token .. ' ' .. number .. ' ' .. KEYS[1])
				if type(sent) == 'number' then
					if not swaps then
						redis.call('zadd', KEYS[2], '0', '!' .. string.sub(next, 1, 36))
						if not behind then -- the mark is kept for as long as the lease
							redis.call('pexpire', KEYS[2], claim)
						end
						return 1 -- end 4
					end
					redis.call('zadd', KEYS[2], 'nx', '0', '!' .. string.sub(next, 1, 36), score, ARGV[7])
					redis.call('pexpire', KEYS[2], '60000')
					return {1, tonumber(claim), next, -2, behind and 1 or 2} -- end 4
				end
				redis.call('hdel', KEYS[1], next)
			end
			if taken then -- the server refused a command: the ticket is put back to the front
				redis.call('zadd', KEYS[2], '1', first)
				if redis.pcall('pexpire', KEYS[2], '60000') ~= 1 and redis.call('pttl', KEYS[2]) == -1 then
					redis.call('zrem', KEYS[2], first)
				end
			end
		end
	end
end
