-- The part of a step (queue.lua) that knows a read-write lock: a hash of "mode" ("read" or
-- "write"), "<owner>" -> count for each reader and "<owner>:write" -> count for a writer,
-- as Redisson's RReadWriteLock. "<KEYS[5]>:<owner>:rwlock_timeout:<n>" lives as long as
-- that reader's lease; readers keep the hash for the longest lease among them.
--
-- A hash without a mode is a lock of another kind, which excludes readers and writers.
local lock, prefix, reserve = KEYS[1], KEYS[5], ''
local left = 0        -- of the reply
local message = '0'   -- what guests are told when the lock is free: "1" by a writer, which wakes all
local told = false    -- whether they were
local hash            -- the lock's fields and values in turn, nil before they are looked up
local owner           -- a holder, false if the lock is free
local mode            -- "read" or "write", nil for none
local given           -- the lease that this step has set, nil if it has set none

local function timeout(owner, n)
	return prefix .. ':' .. owner .. ':rwlock_timeout:' .. n
end

local function isWriter(field)
	return string.sub(field, -6) == ':write'
end

local function ownerOf(field)
	return isWriter(field) and string.sub(field, 1, -7) or field
end

-- Looks the lock up. Of several holders a guest counts rather than a client of ours, since
-- its release tells only those that listen to the guests' channel.
local function lookUp()
	if hash then
		return
	end
	hash, owner, mode = redis.call('hgetall', lock), false, nil
	for i = 1, #hash, 2 do
		if hash[i] == 'mode' then
			mode = hash[i + 1]
		elseif not owner or string.sub(owner, 15, 15) == '8' then
			owner = ownerOf(hash[i])
		end
	end
end

local function holder()
	lookUp()
	return owner
end

-- Returns all holders.
local function holders()
	lookUp()
	local all = {}
	for i = 1, #hash, 2 do
		if hash[i] ~= 'mode' then
			all[#all + 1] = ownerOf(hash[i])
		end
	end
	return all
end

local function free()
	lookUp()
	return #hash == 0
end

local function open(asked)
	return free() or asked == 's' and mode == 'read'
end

local function fieldOf(ticket, asked)
	return asked == 'x' and ticket .. ':write' or ticket
end

local function inside(ticket, asked)
	return redis.call('hexists', lock, fieldOf(ticket, asked)) == 1
end

-- Returns what is left of the lease, as pttl does.
local function remaining()
	return given or redis.call('pttl', lock)
end

-- Keeps the lock of a ticket that has it, for the lease at least.
local function keep(ticket, asked, lease)
	if asked == 's' and redis.call('pttl', timeout(ticket, 1)) < lease then
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

local function enter(ticket, asked, lease)
	local longest = math.max(remaining(), lease)
	redis.call('hset', lock, 'mode', asked == 'x' and 'write' or 'read', fieldOf(ticket, asked), '1')
	hash = nil
	if asked == 's' then
		redis.call('set', timeout(ticket, 1), '1', 'px', lease)
	end
	local expires = redis.pcall('pexpire', lock, longest)
	if expires ~= 1 then
		redis.call('hdel', lock, fieldOf(ticket, asked))
		if redis.call('hlen', lock) == 1 then
			redis.call('del', lock)
		end
		return nil, expires
	end
	given = longest
	return ''
end

-- Takes out all that the tenure has, and returns 1 if the lock is free then, 2 if other
-- readers go on: they keep the hash for the longest lease among them. Readers whose keys
-- have ended died without a word, and do not keep the lock once no other reader is left.
local function exit(ticket)
	lookUp()
	local ours, wrote, longest = false, false, 0
	for i = 1, #hash, 2 do
		local field, count = hash[i], tonumber(hash[i + 1])
		local shown = ownerOf(field)
		local same = shown == ticket or string.sub(field, 15, 15) == '8' and string.sub(field, 1, 37) == string.sub(ticket, 1, 37)
		if same and field ~= 'mode' then
			ours, wrote = true, wrote or isWriter(field)
			redis.call('hdel', lock, field)
			for n = 1, isWriter(field) and 0 or count do
				redis.call('del', timeout(field, n))
			end
		elseif isWriter(field) then
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
	hash = nil
	message = wrote and '1' or message
	if longest > 0 then
		redis.call('pexpire', lock, longest)
		given = longest
		if wrote then
			redis.call('hset', lock, 'mode', 'read')
			redis.pcall(string.sub(ARGV[1], 1, 1) == 's' and 'spublish' or 'publish', KEYS[4], message)
		end
		return 2
	end
	redis.call('del', lock)
	given = nil
	return 1
end
