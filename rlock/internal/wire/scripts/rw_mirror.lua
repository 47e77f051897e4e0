-- Makes Redis show the state of tenures of read-write locks: their writer, their readers,
-- and a lease that begins now. It renews, nests, hands over and downgrades, all in one.
--
-- KEYS[3i-2]  the name of the i-th lock (rw.lua says what it holds)
-- KEYS[3i-1]  what its readers' keys begin with
-- KEYS[3i]    its channel
-- ARGV[1]     how to publish and count: as in queue.lua
-- ARGV[5i-3]  lease of the i-th lock in milliseconds
-- ARGV[5i-2]  its owner, "<uuid>:<id>", the UUID being the tenure's
-- ARGV[5i-1]  how often the owner has the write lock, 0 for not
-- ARGV[5i]    1 if the tenure has readers, however many, else 0
-- ARGV[5i+1]  its queue, to be told how many others wait; "" not to ask
--
-- For each lock, in an array:
-- 0        lost: no field carries the UUID, or the write lock is asked for where
--          others read
-- 1 + n    mirrored; n tickets and guests wait for the lock (0 when not asked)
--
-- When the write lock goes and readers stay, all waiting guests are told, since
-- readers may enter. Redisson's write unlock does not tell them, and they sleep until the
-- lease ends. A reader's key that is missing is set again: while its field is there
-- nobody else can have the write lock.
--
-- Readers keep the hash for the longest lease among them. That of a single
-- reader may become shorter.
--
-- Sending it again changes nothing: counts are absolute, and a tenure that gave up
-- the write lock does not get it back. So after an error, which may be about one
-- lock, each can be sent alone.
local function show(name, prefix, channel, owner, writes, reads)
	local mode, mine = redis.call('hget', name, 'mode'), {}
	for _, field in ipairs(redis.call('hkeys', name)) do
		if string.sub(field, 1, 37) == string.sub(owner, 1, 37) then
			mine[#mine + 1] = field
		end
	end
	if #mine == 0 or mode == 'read' and writes ~= '0' then
		return false
	end
	for _, field in ipairs(mine) do
		local kept = field == owner and reads ~= '0' or field == owner .. ':write' and writes ~= '0'
		if not kept then
			redis.call('hdel', name, field)
			redis.call('del', prefix .. ':' .. field .. ':rwlock_timeout:1')
		end
	end
	if writes ~= '0' then
		redis.call('hset', name, owner .. ':write', writes)
	end
	if reads ~= '0' then
		redis.call('hset', name, owner, '1')
	end
	if mode == 'write' and writes == '0' then
		redis.call('hset', name, 'mode', 'read')
		redis.pcall(family == 's' and 'spublish' or 'publish', channel, '1')
	end
	return true
end

local function mirror(name, prefix, channel, lease, owner, writes, reads, queue)
	local shown = redis.call('hmget', name, owner .. ':write', owner)
	if (shown[1] or '0') ~= writes or (shown[2] or '0') ~= reads then
		if not show(name, prefix, channel, owner, writes, reads) then
			return 0
		end
	end
	local longest = tonumber(lease)
	if reads ~= '0' then
		redis.call('set', prefix .. ':' .. owner .. ':rwlock_timeout:1', '1', 'px', lease)
		if writes == '0' and redis.call('hlen', name) > 2 then
			longest = math.max(longest, redis.call('pttl', name))
		end
	end
	redis.call('pexpire', name, longest)
	return queue == '' and 1 or 1 + others(queue, channel)
end

local replies = {}
for i = 1, #KEYS / 3 do
	replies[i] = mirror(KEYS[3*i-2], KEYS[3*i-1], KEYS[3*i], ARGV[5*i-3], ARGV[5*i-2], ARGV[5*i-1], ARGV[5*i], ARGV[5*i+1])
end
return replies
