-- Comes before the source of a guarded write, on its first line: guard.lua for a permit, whose lease must not be over.
--
-- KEYS[#KEYS]  the semaphore, which the source does not see
-- ARGV[#ARGV]  owner, "<uuid>:<id>", which the source does not see
--
-- Replies as guard.lua.
do
	local ends, time = redis.pcall('zscore', KEYS[#KEYS], ARGV[#ARGV]), redis.call('time')
	if type(ends) == 'table' and ends.err and not string.find(ends.err, 'WRONGTYPE') then
		return ends
	elseif type(ends) ~= 'string' or tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then
		return redis.error_reply('RLOCK_FENCED the permit is over')
	end
	KEYS[#KEYS], ARGV[#ARGV] = nil, nil
end;
