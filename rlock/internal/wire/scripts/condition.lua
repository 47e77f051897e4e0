-- Comes before the source of a condition, behind release.lua, which separates the keys and
-- arguments of the source from those of the command: an acquire (acquire.lua) or the join of a
-- ticket (queue.lua). condition_end.lua follows the source, and then comes the command.
--
-- KEYS  the keys of the source, then of the command
-- ARGV  the arguments of the source, then of the command; the number of the command's keys, and of its
--       arguments
local met = (function()
