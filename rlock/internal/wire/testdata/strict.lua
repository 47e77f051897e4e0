-- What a server that demands declared keys does to a script (Dragonfly and others): a command
-- whose key is not among KEYS is refused. It stands before the text of each script in the tests
-- with the build tag "strict". There the keys of readers are permitted, whose names only Redisson's
-- hash shows: read-write locks do not work on such a server, and a test of package wire says so.
--
-- A channel is no key. A command that is not in this table is refused, so that a script cannot
-- use a copy that was not checked.
local readers = true -- whether their keys are permitted
local real, declared, first, all, none = redis, {}, 'first', 'all', 'none'
for _, key in ipairs(KEYS) do
	declared[key] = true
end
local keysOf = { -- which arguments of a command are keys
	decr = first, decrby = first, del = all, exists = all, get = first, hdel = first, hexists = first, hget = first,
	hgetall = first, hkeys = first, hlen = first, hmget = first, hscan = first, hset = first, incr = first, incrby = first, lindex = first, lpush = first, lrange = first, lrem = first,
	mget = all, persist = first, pexpire = first, publish = none, pubsub = none, pttl = first, rpush = first, set = first, spublish = none, time = none,
	zadd = first, zcard = first, zcount = first, zincrby = first, zrange = first, zrangebyscore = first, zrem = first,
	zscore = first,
}

-- Returns why the command is refused, nil if it is not.
local function refusal(command, ...)
	local keys = keysOf[string.lower(command)]
	if not keys then
		return 'ERR ' .. command .. ' is not in the table of strict.lua'
	end
	for i, key in ipairs({...}) do
		if keys == all or keys == first and i == 1 then
			if not declared[key] and not (readers and string.find(key, ':rwlock_timeout:%d+$')) then
				return 'ERR script tried accessing undeclared key ' .. key
			end
		end
	end
end

local redis = setmetatable({
	call = function(...)
		local refused = refusal(...)
		if refused then
			error(refused)
		end
		return real.call(...)
	end,
	pcall = function(...)
		local refused = refusal(...)
		if refused then
			return {err = refused}
		end
		return real.pcall(...)
	end,
}, {__index = real})
