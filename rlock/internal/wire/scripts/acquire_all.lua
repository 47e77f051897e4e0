-- Acquires several locks of one kind and slot in their order, up to the first that is refused: the
-- same as an acquire of each, one after the other. Its function acquire is the acquire script of
-- the kind, with its own header.
--
-- KEYS    the keys of the first lock's acquire, then those of the second, and so on
-- ARGV[1] how many keys each has
-- ARGV[2] how many arguments each has
-- ARGV    then the arguments of the first lock's acquire, those of the second, and so on
--
-- For each lock, in an array: the reply of its acquire; "" behind the first that is refused: it was
-- not asked for
--
-- An acquire that fails with an error inside of a command ends the script, and the locks before it
-- are acquired. Sent again, an acquire changes nothing of a lock that its owner has: so after an
-- error each can be sent alone.
local function acquire(KEYS, ARGV)
-- (acquire)
end

local keys, args = tonumber(ARGV[1]), tonumber(ARGV[2])
local replies = {}
for i = 1, #KEYS / keys do
	replies[i] = ''
	if type(replies[i - 1]) ~= 'table' and not (i > 1 and replies[i - 1] == '') then
		local its, words = {}, {}
		for n = 1, keys do
			its[n] = KEYS[(i - 1) * keys + n]
		end
		for n = 1, args do
			words[n] = ARGV[2 + (i - 1) * args + n]
		end
		replies[i] = acquire(its, words) or false
	end
end
return replies
