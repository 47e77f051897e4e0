-- Puts the same questions about many locks, to show a page of them by one command. The questions
-- are commands that only read; an error is the answer to one of them.
--
-- KEYS      for each lock its keys, the same number for each
-- ARGV[1]   the number of locks
-- ARGV[2]   the number of words of the questions
-- ARGV[3..] the questions, each with the number of its words before it: "$<n>" stands for key n of
--           the lock, from 0, and "@<n>" for its channel n; then the channels of each lock
-- Reply: for each lock the answers, in the order of the questions
local locks, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local keys, channels = #KEYS / locks, (#ARGV - 2 - size) / locks
local questions, at = {}, 3
while at < 3 + size do
	local question = {}
	for n = 1, tonumber(ARGV[at]) do
		question[n] = ARGV[at + n]
	end
	table.insert(questions, question)
	at = at + 1 + #question
end
local all = {}
for lock = 0, locks - 1 do
	local answers = {}
	for n, question in ipairs(questions) do
		local words = {}
		for i, word in ipairs(question) do
			local stands, index = string.sub(word, 1, 1), tonumber(string.sub(word, 2))
			if stands == '$' then
				word = KEYS[lock * keys + index + 1]
			elseif stands == '@' then
				word = ARGV[3 + size + lock * channels + index]
			end
			words[i] = word
		end
		answers[n] = redis.pcall(unpack(words))
	end
	all[lock + 1] = answers
end
return all
