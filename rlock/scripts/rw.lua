-- The part of a step (queue.lua) that knows a read-write lock: a hash of "mode" ("read" or
-- "write"), "<owner>" -> count for each reader and "<owner>:write" -> count for a writer,
-- as Redisson's RReadWriteLock. "<KEYS[5]>:<owner>:rwlock_timeout:<n>" lives as long as
-- that reader's lease; readers keep the hash for the longest lease among them.
--
-- A hash without a mode is a lock of another kind, which excludes readers and writers.
local lock, prefix, reserve = KEYS[1], KEYS[5], ''
local left = 0        -- of the reply
local message = '0'   -- what guests are told when the lock is free: "1" by a writer, which wakes all
local told = false

local function timeout(owner, n)
	return prefix .. ':' .. owner .. ':rwlock_timeout:' .. n
end

-- A guest is returned rather than a client of ours, since its release tells only those
-- that listen to the guests' channel.
local function holder()
	local owner
	for _, field in ipairs(redis.call('hkeys', lock)) do
		if field ~= 'mode' then
			owner = field
			if string.sub(field, 15, 15) ~= '8' then
				return field
			end
		end
	end
	return owner
end

local function free()
	return redis.call('exists', lock) == 0
end

local function open(mode)
	return free() or mode == 's' and redis.call('hget', lock, 'mode') == 'read'
end

local function fieldOf(ticket, mode)
	return mode == 'x' and ticket .. ':write' or ticket
end

local function inside(ticket, mode)
	return redis.call('hexists', lock, fieldOf(ticket, mode)) == 1
end

local function keep(ticket, mode, lease)
	if mode == 's' and redis.call('pttl', timeout(ticket, 1)) < lease then
		redis.call('set', timeout(ticket, 1), '1', 'px', lease)
	end
	if redis.call('pttl', lock) < lease then
		local expires = redis.pcall('pexpire', lock, lease)
		if expires ~= 1 then
			return nil, expires
		end
	end
	return ''
end

local function enter(ticket, mode, lease)
	redis.call('hset', lock, 'mode', mode == 'x' and 'write' or 'read', fieldOf(ticket, mode), '1')
	if mode == 's' then
		redis.call('set', timeout(ticket, 1), '1', 'px', lease)
	end
	local expires = redis.pcall('pexpire', lock, math.max(redis.call('pttl', lock), lease))
	if expires ~= 1 then
		redis.call('hdel', lock, fieldOf(ticket, mode))
		if redis.call('hlen', lock) == 1 then
			redis.call('del', lock)
		end
		return nil, expires
	end
	return ''
end

-- Takes out all that the tenure has, and returns 1 if the lock is free then, 2 if other
-- readers go on: they keep the hash for the longest lease among them. Readers whose keys
-- have ended died without a word, and do not keep the lock once no other reader is left.
local function exit(ticket)
	local fields = redis.call('hgetall', lock)
	local ours, wrote, longest = false, false, 0
	for i = 1, #fields, 2 do
		local field, count = fields[i], tonumber(fields[i + 1])
		local writer = string.sub(field, -6) == ':write'
		local owner = writer and string.sub(field, 1, -7) or field
		local same = owner == ticket or string.sub(field, 15, 15) == '8' and string.sub(field, 1, 37) == string.sub(ticket, 1, 37)
		if same and field ~= 'mode' then
			ours, wrote = true, wrote or writer
			redis.call('hdel', lock, field)
			for n = 1, writer and 0 or count do
				redis.call('del', timeout(field, n))
			end
		elseif writer then
			longest = math.max(longest, redis.call('pttl', lock))
		elseif field ~= 'mode' then
			for n = 1, count do
				longest = math.max(longest, redis.call('pttl', timeout(field, n)))
			end
		end
	end
	if not ours then
		return 0
	end
	message = wrote and '1' or message
	if longest > 0 then
		redis.call('pexpire', lock, longest)
		if wrote then
			redis.call('hset', lock, 'mode', 'read')
			redis.pcall(ARGV[1] == 's' and 'spublish' or 'publish', KEYS[4], message)
		end
		return 2
	end
	redis.call('del', lock)
	return 1
end
