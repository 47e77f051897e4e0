-- rlock's mirror of plain locks of which the counts have not changed, without the part that
-- counts waiters: see rlock's mirror.lua.
--
-- KEYS[i]     the name of the i-th lock
-- ARGV[2i-1]  lease in milliseconds; "" to look only
-- ARGV[2i]    owner
--
-- For each lock 1, or 0 if the owner does not have it.
local replies = {}
for i, key in ipairs(KEYS) do
	replies[i] = 0
	if redis.call('hget', key, ARGV[2*i]) == '1' then
		if ARGV[2*i-1] ~= '' then
			redis.call('pexpire', key, ARGV[2*i-1])
		end
		replies[i] = 1
	end
end
return replies
