-- Comes before the source of a condition, behind release.lua, which separates the keys and
-- arguments of the source from those of the command: an acquire (acquire.lua) or the join of a
-- ticket (queue.lua). condition_end.lua follows the source, and the command follows that.
--
-- KEYS  those of the source, those of the command
-- ARGV  those of the source, those of the command, how many keys the command has, how many
--       arguments it has
local met = (function()
