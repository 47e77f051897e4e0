-- Acquires several locks of one kind and slot in their order, up to the first that is refused, as if
-- each were acquired by a command of its own. The function acquire is the acquire script of the kind,
-- with its own header.
--
-- KEYS    the keys of the first lock's acquire, then the keys of the second, and so on
-- ARGV[1] the number of keys of each
-- ARGV[2] the number of arguments of each
-- ARGV    then the arguments of the first lock's acquire, then of the second, and so on
--
-- An array with the reply to each acquire. Behind the first refusal no lock was asked for, and the
-- reply is ""
--
-- If a command in an acquire fails, the script ends with its error, and the locks before it are
-- acquired. Sent again, an acquire does not change a lock that its owner has: so after an error each
-- can be sent alone.
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
