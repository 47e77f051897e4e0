-- Puts the same questions about many locks, to show a page of them by one command. The questions
-- are commands that only read; an error is the answer to one of them.
--
-- KEYS      for each lock its keys, the same number for each
-- ARGV[1]   the number of locks
-- ARGV[2]   the number of words of the questions
-- ARGV[3..] the questions: for each the number of its words, the number of the question whose answer
--           must be an error, or it is not put, 0 for none; its words: "$<n>" stands for key n of
--           the lock, from 0, and "@<n>" for its channel n; then the channels of each lock
-- Reply: for each lock the answers, in the order of the questions; nil to one that was not put
local locks, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local keys, channels = #KEYS / locks, (#ARGV - 2 - size) / locks
local questions, after, blanks, at = {}, {}, {}, 3 -- a blank: its question, its word, the names for it, the index and the number of these
while at < 3 + size do
	local question = {}
	for n = 1, tonumber(ARGV[at]) do
		local word = ARGV[at + 1 + n]
		local stands, index = string.sub(word, 1, 1), tonumber(string.sub(word, 2))
		if stands == '$' then
			table.insert(blanks, {question, n, KEYS, index + 1, keys})
		elseif stands == '@' then
			table.insert(blanks, {question, n, ARGV, 3 + size + index, channels})
		end
		question[n] = word
	end
	table.insert(questions, question)
	table.insert(after, tonumber(ARGV[at + 1]))
	at = at + 2 + #question
end
local all, pcall = {}, redis.pcall
for lock = 0, locks - 1 do
	for _, blank in ipairs(blanks) do
		blank[1][blank[2]] = blank[3][blank[4] + lock * blank[5]]
	end
	local answers = {}
	for n, question in ipairs(questions) do
		local before = answers[after[n]]
		if after[n] == 0 or type(before) == 'table' and before.err then
			answers[n] = pcall(unpack(question))
		else
			answers[n] = false
		end
	end
	all[lock + 1] = answers
end
return all
