-- The end of a guarded write that a release carries: see release.lua. The source is followed by
-- release_answer.lua, on one line, by the step of the release, as a function of its keys and
-- arguments, and by this file. The step is executed whatever became of the source.
--
-- {1, reply, step}    the source was executed: its result or its error, and the reply of the step or
--                     its error
-- {0, refused, step}  the source was not executed: the error of the guard, "RLOCK_FENCED <number>" if
--                     the tenure does not have the lock
end, stepKeys, stepArgs)
if not stepped then
	left = {err = type(left) == 'table' and left.err or tostring(left)}
end
if not done then
	reply = {err = type(reply) == 'table' and reply.err or tostring(reply)}
elseif reply == nil then
	reply = false -- a nil would end the reply
end
return {refused and 0 or 1, reply, left}
