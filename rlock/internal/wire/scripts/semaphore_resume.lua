-- Resumes a permit of a semaphore that was passed on: see resume.lua.
--
-- KEYS[1]  the semaphore's name, see semaphore.lua
-- KEYS[2]  its queue
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  the owner that stands for the pass, "<uuid>:0", for k permits "<uuid>:0*k"
-- ARGV[3]  the owner that resumes, for as many permits, with a UUID that belongs to this tenure alone
--
-- 1        resumed
-- 0        neither owner has a permit
--
-- The expiry of the key is set first, as in semaphore_mirror.lua.
-- (tenures.lua)
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function hasPermits(owner)
	local ends = redis.call('zscore', KEYS[1], owner)
	return ends and tonumber(ends) > now
end
local lease = tonumber(ARGV[1])
if not hasPermits(ARGV[2]) then
	if not hasPermits(ARGV[3]) then
		return 0
	end
	lease = math.max(lease, redis.call('zscore', KEYS[1], ARGV[3]) - now)
end
local longest = lease
local last = redis.call('zrange', KEYS[1], '-3', '-1', 'withscores')
for i = 1, #last, 2 do
	if last[i] ~= ARGV[2] and last[i] ~= ARGV[3] then
		longest = math.max(longest, last[i + 1] - now)
	end
end
redis.call('pexpire', KEYS[1], string.format('%.0f', longest))
if redis.call('exists', KEYS[1]) == 1 then -- see mirror.lua
	redis.call('zadd', KEYS[1], string.format('%.0f', now + lease), ARGV[3])
	redis.call('zrem', KEYS[1], ARGV[2])
end
redis.pcall('zrem', KEYS[2], markOf(ARGV[2]))
return 1
