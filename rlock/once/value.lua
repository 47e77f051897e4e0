-- Comes before look.lua, store.lua and forget.lua: the hash of another program is left as it is.
--
-- KEYS[1]  the hash of the value: see store.lua
--
-- an error "WRONGTYPE": the key is no hash, or has other fields, and nothing was changed
local s, a, u, b, r, k, e, f = unpack(redis.call('hmget', KEYS[1], 's', 'a', 'u', 'b', 'r', 'k', 'e', 'f'))
local ours
if s then
	ours = tonumber(s) and tonumber(a) and tonumber(u) and tonumber(b) and r and k
else
	ours = #redis.call('hkeys', KEYS[1]) == (f and 2 or 0)
end
if not ours or f and not (tonumber(e) and tonumber(f)) then
	redis.call('zrange', KEYS[1], '0', '0') -- the error of the wrong type
end
