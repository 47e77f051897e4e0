-- The part of a step (queue.lua) that knows a plain or fenced lock: a hash of one owner
-- and its count, as Redisson's RLock, and the counter of the fencing tokens.
--
-- A release of a lock without a queue is most of the steps, so it comes before anything
-- else is defined. A missing right to publish does not keep a lock from being
-- freed; the error says so.
local left = 0        -- of the reply
local message = '0'   -- what guests are told when the lock is free
local told = false    -- whether they were
if #ARGV == 6 and ARGV[4] == '1' and redis.call('exists', KEYS[2]) == 0 then
	local owner = string.sub(ARGV[6], 2)
	if redis.call('hdel', KEYS[1], owner) == 0 then
		local shown = redis.call('hkeys', KEYS[1])[1]
		if not shown or string.sub(shown, 1, 37) ~= string.sub(owner, 1, 37) or string.sub(shown, 15, 15) ~= '8' then
			return 0
		end
		redis.call('hdel', KEYS[1], shown)
	end
	local listeners = redis.pcall(ARGV[1] == 's' and 'spublish' or 'publish', KEYS[4], '0')
	if type(listeners) == 'table' then
		return redis.error_reply(listeners.err .. ' (released)')
	elseif listeners == 0 then
		return 1
	end
	left, told = 1, true
end

local lock, counter, reserve = KEYS[1], KEYS[5], ARGV[3]

local function holder()
	return redis.call('hkeys', lock)[1]
end

local function free()
	return redis.call('exists', lock) == 0
end

local function open()
	return free()
end

local function inside(ticket)
	return redis.call('hexists', lock, ticket) == 1
end

local function tokens()
	if reserve == '' then
		return ''
	end
	local last = redis.pcall('incrby', counter, reserve)
	if type(last) == 'table' then
		return nil, redis.error_reply(last.err .. ' (token counter ' .. counter .. ')')
	elseif last < tonumber(reserve) then
		return nil, redis.error_reply('WRONGTYPE token counter ' .. counter .. ' is negative')
	end
	return redis.call('get', counter)
end

local function enter(ticket, _, lease)
	local token, refused = tokens()
	if refused then
		return nil, refused
	end
	redis.call('hset', lock, ticket, '1')
	local expires = redis.pcall('pexpire', lock, lease)
	if expires ~= 1 then
		redis.call('hdel', lock, ticket)
		return nil, expires
	end
	return token
end

local function keep(_, _, lease)
	if redis.call('pttl', lock) < lease then
		redis.call('pexpire', lock, lease)
	end
	return tokens()
end

-- A tenure is known by its UUID, since the id after it changes with a hand-off. The UUID
-- of a client of Redisson (version 4) names a process: there the whole owner counts.
local function exit(ticket)
	if redis.call('hdel', lock, ticket) == 1 then
		return 1
	end
	local owner = holder()
	if not owner or string.sub(owner, 1, 37) ~= string.sub(ticket, 1, 37) or string.sub(owner, 15, 15) ~= '8' then
		return 0
	end
	return redis.call('hdel', lock, owner)
end
