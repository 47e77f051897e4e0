-- Acquires the read lock or the write lock of a name for a tenure that has neither,
-- wire-exact with the tryLockInnerAsync of Redisson's RedissonReadLock and
-- RedissonWriteLock.
--
-- KEYS[1]  the lock's name: a hash of mode ("read" or "write"), "<owner>" -> count
--          for each reader, "<owner>:write" -> count for a writer
-- KEYS[2]  what its readers' keys begin with: "<it>:<owner>:rwlock_timeout:1" lives as
--          long as that reader's lease
-- KEYS[3]  the intent of a writer; "<it>:since" is there while intents take turns with
--          readers
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner, "<uuid>:<id>"; the uuid is this tenure's alone
-- ARGV[3]  the mode that is asked for
-- ARGV[4]  of a writer who waits: how many milliseconds its intent lasts, 0 for others
--
-- nil      acquired: owner has a count of 1 and its lease begins now; readers keep
--          the hash for the longest lease among them
-- {n, o}   held by owner o, in a way that excludes this one, for n more milliseconds
--          (-1: its key has no TTL); to a reader also {n, ""}, kept out by an intent
--          that has n more milliseconds
-- {n, o, r}  the same to a writer who waits, while readers have a turn of r more
--          milliseconds
--
-- The intent says that a writer waits for readers to go. Nobody new begins to read
-- while it lasts, or there might always be one. Who gets the write lock ends it, so
-- that the readers' turn comes as well. Redisson knows nothing of it: its readers may
-- keep the writer out without end, and readers who respect the intent with it. So while
-- there are readers of Redisson, intents last for withheld milliseconds at most, and
-- then everybody may begin to read for turn milliseconds.
--
-- A hash without a mode is a lock of another kind. Redisson would add a mode to it;
-- here it excludes readers and writers.
--
-- Sending it again changes nothing: it sets the count, it does not add to it. One that
-- is executed late, when its writer has left, may set an intent for nobody: it ends by
-- itself. The writer who has the lock finds no intent, since none is set meanwhile.
local name, lease, owner, asked, intent = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local writer, since = KEYS[3], KEYS[3] .. ':since'
local withheld, turn = 2000, 1000
local field = asked == 'write' and owner .. ':write' or owner
local mode = redis.call('hget', name, 'mode')

if redis.call('exists', name) == 1 and redis.call('hexists', name, field) == 0
		and not (mode == 'read' and asked == 'read') then
	local holder, foreign
	for _, f in ipairs(redis.call('hkeys', name)) do
		if f ~= 'mode' then
			holder = f
			foreign = foreign or string.sub(f, 15, 15) ~= '8'
		end
	end
	local reply = {redis.call('pttl', name), holder or ''}
	if mode == 'read' and intent > 0 then
		if foreign then
			local left = redis.call('pttl', since)
			if left <= 0 then
				left = withheld + turn
				redis.call('set', since, '1', 'px', left)
			end
			intent = math.min(intent, left - turn)
			if intent <= 0 then
				reply[3] = left
			end
		end
		if intent > math.max(redis.call('pttl', writer), 0) then
			redis.call('set', writer, '1', 'px', intent)
		end
	end
	return reply
end

local left = -1
if asked == 'read' then
	local waits = redis.call('pttl', writer)
	if waits > 0 and redis.call('hexists', name, field) == 0 then
		return {waits, ''}
	end
	left = redis.call('pttl', name)
	redis.call('set', KEYS[2] .. ':' .. owner .. ':rwlock_timeout:1', '1', 'px', lease)
end
redis.call('hset', name, 'mode', asked, field, '1')
-- A server that refuses the lease, by its access rules, must not keep a lock that
-- never ends.
local expires = redis.pcall('pexpire', name, math.max(left, tonumber(lease)))
if expires ~= 1 then
	redis.call('hdel', name, field)
	if redis.call('hlen', name) == 1 then
		redis.call('del', name)
	end
	return expires
end
-- Not before: a server that is full lets a script go on that has begun to write with a
-- command which needs no memory.
if asked == 'write' then
	redis.call('del', writer, since)
end
return nil
