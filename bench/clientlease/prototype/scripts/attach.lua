-- Makes locks depend on a client lease.
--
-- KEYS[1]    the client lease
-- KEYS[i+1]  the name of the i-th lock
-- ARGV[1]    the backstop in milliseconds: the lease of the key of an attached lock
-- ARGV[i+1]  its owner
--
-- For each lock 1, or 0 if the owner does not have it; nil: the client lease is over, and
-- nothing has changed.
if redis.call('exists', KEYS[1]) == 0 then
	return nil
end
local replies = {}
for i = 2, #KEYS do
	replies[i-1] = redis.call('hexists', KEYS[i], ARGV[i])
	if replies[i-1] == 1 then
		redis.call('hset', KEYS[i], '@', KEYS[1])
		redis.call('pexpire', KEYS[i], ARGV[1])
	end
end
return replies
