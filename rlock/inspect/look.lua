-- Puts the same questions about many locks, to show a page of them by one command. The questions
-- are commands that only read; an error is the answer to one of them.
--
-- KEYS     for each lock its keys, the same number for each
-- ARGV[1]  the number of locks
-- ARGV[2..]  for each lock its channels, the same number for each
-- Reply: for each lock the answers, in the order of the questions; nil to a question that was not
-- put, since another answer shows that it does not matter
local locks, all, pcall = tonumber(ARGV[1]), {}, redis.pcall
for lock = 0, locks - 1 do
	local key, channel, answers = lock * #KEYS / locks, 1 + lock * (#ARGV - 1) / locks, {}
	-- (questions)
	all[lock + 1] = answers
end
return all
