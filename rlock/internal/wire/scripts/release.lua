-- Comes before the source of a guarded write that a release carries, and release_end.lua behind it:
-- the source and the step of the release (queue.lua) are one script. This file, and a guard
-- (guard.lua, rw_guard.lua, semaphore_guard.lua) as a function whose result is refused, stand on
-- the first line, so that an error names the line of the source.
--
-- KEYS  the keys of the source, of the guard, and of the step
-- ARGV  the arguments of the source, of the guard, and of the step; the number of the step's keys, and
--       of its arguments
--
-- The source sees only its own keys and arguments.
local stepKeys, stepArgs = {}, {}
do
	local keys, args = tonumber(ARGV[#ARGV - 1]), tonumber(ARGV[#ARGV])
	ARGV[#ARGV], ARGV[#ARGV - 1] = nil, nil
	for i = keys, 1, -1 do
		stepKeys[i], KEYS[#KEYS] = KEYS[#KEYS], nil
	end
	for i = args, 1, -1 do
		stepArgs[i], ARGV[#ARGV] = ARGV[#ARGV], nil
	end
end
