-- Comes before the source of a guarded write, on its first line: guard.lua for a read-write lock. A
-- hold of the write lock needs the field of a writer. A hold of the read lock needs the field of a
-- writer, or of a reader whose lease is not over.
--
-- The source sees neither these keys nor these arguments:
--
-- KEYS[#KEYS]    the lock
-- KEYS[#KEYS-1]  the beginning of the keys of readers' leases: see rw.lua
-- ARGV[#ARGV]    a random number, new for each write
-- ARGV[#ARGV-1]  owner, "<uuid>:<id>"
-- ARGV[#ARGV-2]  "x" for the write lock, "s" for the read lock
--
-- Replies as guard.lua.
do
	-- (tenures.lua)
	local keys, args = #KEYS, #ARGV
	local lock, tenure, has = KEYS[keys], tenureOf(ARGV[args - 1]), false
	local fields = redis.pcall('hkeys', lock)
	if fields.err and not string.find(fields.err, 'WRONGTYPE') then
		return fields
	end
	for _, field in ipairs(fields) do
		if tenureOf(field) == tenure and not isPassed(field) then
			has = has or isWriter(field) or ARGV[args - 2] == 's'
				and redis.call('exists', KEYS[keys - 1] .. ':' .. field .. ':rwlock_timeout:1') == 1
		end
	end
	if not has then
		return redis.error_reply('RLOCK_FENCED ' .. ARGV[args])
	end
	KEYS[keys], KEYS[keys - 1], ARGV[args], ARGV[args - 1], ARGV[args - 2] = nil, nil, nil, nil, nil
end
