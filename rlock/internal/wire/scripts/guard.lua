-- Comes before the source of a guarded write, on its first line: checks that the tenure has a plain,
-- fenced or fair lock. A tenure is known by its UUID, since the id behind the UUID changes with a
-- hand-off; the id 0 stands for a lock that was passed on.
--
-- The source sees neither this key nor these arguments:
--
-- KEYS[#KEYS]    the lock
-- ARGV[#ARGV]    a random number, new for each write
-- ARGV[#ARGV-1]  owner, "<uuid>:<id>"
--
-- "RLOCK_FENCED <number>"  an error that no source can forge: the tenure does not have the lock, and
--                          the source was not executed
-- else                     as guard_end.lua returns it
--
-- An error that says nothing about the lock, such as a missing right, is returned as it is.
do
	-- (tenures.lua)
	local lock, owner = KEYS[#KEYS], ARGV[#ARGV - 1]
	local has = redis.pcall('hexists', lock, owner)
	local shown = has == 0 and redis.call('hkeys', lock)[1] or ''
	if tenureOf(shown) == tenureOf(owner) and not isPassed(shown) then
		has = 1
	end
	if type(has) == 'table' and not string.find(has.err, 'WRONGTYPE') then
		return has
	elseif has ~= 1 then
		return redis.error_reply('RLOCK_FENCED ' .. ARGV[#ARGV])
	end
	KEYS[#KEYS], ARGV[#ARGV], ARGV[#ARGV - 1] = nil, nil, nil
end
