-- Comes before the source of a guarded write, on its first line: guard.lua for a permit, whose
-- lease must not be over.
--
-- The source sees neither this key nor these arguments:
--
-- KEYS[#KEYS]    the semaphore
-- ARGV[#ARGV]    a random number, new for each write
-- ARGV[#ARGV-1]  owner, "<uuid>:<id>"
--
-- Replies as guard.lua.
do
	local ends, time = redis.pcall('zscore', KEYS[#KEYS], ARGV[#ARGV - 1]), redis.call('time')
	if type(ends) == 'table' and ends.err and not string.find(ends.err, 'WRONGTYPE') then
		return ends
	elseif type(ends) ~= 'string' or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then
		return redis.error_reply('RLOCK_FENCED ' .. ARGV[#ARGV])
	end
	KEYS[#KEYS], ARGV[#ARGV], ARGV[#ARGV - 1] = nil, nil, nil
end
